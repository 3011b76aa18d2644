#include "transports/tcp/chunk_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transports/tcp/socket.h"

namespace omnes::transports::tcp {
namespace {

// From here on a copy costs more than another system call.
constexpr size_t kLargeBytes = 4 << 10;

}  // namespace

ReadEnd ChunkReader::read(int fd, std::span<uint8_t> scratch, Arrivals* arrivals) {
  ReadEnd end;
  for (;;) {
    iovec into[2];
    size_t parts = 0;
    const size_t payload = slot_ == nullptr ? 0 : slot_->bytes - received_;
    if (payload != 0) into[parts++] = {slot_->buffer->payload() + received_, payload};
    std::memcpy(scratch.data(), header_, headerBytes_);
    const size_t room = expectsLarge_ ? kChunkHeaderBytes : scratch.size();
    into[parts++] = {scratch.data() + headerBytes_, room - headerBytes_};
    const size_t asked = payload + room - headerBytes_;
    const ssize_t got = receiveSome(fd, {into, parts});
    if (got == 0) return end;
    if (got == kClosed && payload == 0 && headerBytes_ == 0) {
      end.kind = ReadEnd::Kind::kClosed;
      return end;
    }
    if (got < 0) {
      end.kind = ReadEnd::Kind::kBroken;
      end.error = got == kClosed ? ECONNRESET : static_cast<int>(-got);
      return end;
    }
    end.hasMoved = true;
    const size_t placed = std::min(static_cast<size_t>(got), payload);
    advancePayload(placed);
    const size_t rest = headerBytes_ + static_cast<size_t>(got) - placed;
    headerBytes_ = 0;
    if (!parse(scratch.first(rest), arrivals, &end.text)) {
      end.kind = ReadEnd::Kind::kInvalid;
      return end;
    }
    if (static_cast<size_t>(got) < asked) return end;  // more would be news
  }
}

void ChunkReader::advancePayload(size_t bytes) {
  if (slot_ == nullptr) return;
  received_ += bytes;
  if (received_ < slot_->bytes) return;
  slot_->isComplete = true;
  slot_ = nullptr;
}

bool ChunkReader::parse(std::span<const uint8_t> bytes, Arrivals* arrivals, std::string* why) {
  while (bytes.size() >= kChunkHeaderBytes) {
    ChunkHeader header;
    if (!decode(bytes.data(), &header)) {
      *why = "bytes that are no chunk";
      return false;
    }
    bytes = bytes.subspan(kChunkHeaderBytes);
    slot_ = arrivals->admit(header, why);
    if (slot_ == nullptr) return false;
    expectsLarge_ = header.bytes >= kLargeBytes;
    received_ = 0;
    const size_t here = std::min<uint64_t>(header.bytes, bytes.size());
    std::memcpy(slot_->buffer->payload(), bytes.data(), here);
    bytes = bytes.subspan(here);
    advancePayload(here);
  }
  // While a payload is under way nothing can be left, since it takes everything.
  if (!bytes.empty()) std::memcpy(header_, bytes.data(), bytes.size());
  headerBytes_ = bytes.size();
  return true;
}

}  // namespace omnes::transports::tcp
