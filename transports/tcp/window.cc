#include "transports/tcp/window.h"

#include <algorithm>
#include <utility>

namespace omnes::transports::tcp {
namespace {

// What a connection of 100 Gbit/s has under way in 160 us.
constexpr size_t kWindowBytes = 2 << 20;
constexpr size_t kMostCredits = 64;

}  // namespace

uint32_t windowOf(uint8_t stream, size_t slotBytes) {
  const StreamClass streamClass = transports::streamClass(stream, slotBytes);
  const size_t least = 2 * size_t{streamClass.slots};
  if (streamClass.bodyBytes == 0) return static_cast<uint32_t>(2 * least);
  return static_cast<uint32_t>(
      std::max(least, std::min(kWindowBytes / streamClass.bodyBytes, kMostCredits)));
}

Outgoing::Outgoing(Endpoint* owner, uint8_t stream, size_t slotBytes, std::vector<int32_t> readers)
    : stream_(stream), readers_(std::move(readers)), consumed_(readers_.size()) {
  endpoint = owner;
  this->slotBytes = streamClass(stream, slotBytes).bodyBytes;
  credits = windowOf(stream, slotBytes);
  limit_ = credits;
}

bool Outgoing::hasCredit() {
  if (sent_ < limit_) return true;
  if (readers_.empty()) return true;
  limit_ = consumed_[slowest()] + credits;
  return sent_ < limit_;
}

size_t Outgoing::slowest() const {
  return static_cast<size_t>(std::min_element(consumed_.begin(), consumed_.end()) -
                             consumed_.begin());
}

bool Outgoing::credit(size_t reader, uint64_t consumed) {
  if (consumed < consumed_[reader] || consumed > sent_) return false;
  consumed_[reader] = consumed;
  return true;
}

Incoming::Incoming(Endpoint* owner, uint8_t stream, size_t slotBytes, int32_t peer,
                   BufferPool* pool)
    : stream_(stream), pool_(pool) {
  endpoint = owner;
  this->slotBytes = streamClass(stream, slotBytes).bodyBytes;
  credits = windowOf(stream, slotBytes);
  awaited = peer;
  slots_.resize(credits);
}

Incoming::~Incoming() {
  for (Slot& slot : slots_)
    if (slot.buffer != nullptr) BufferPool::drop(slot.buffer);
}

Incoming::Slot* Incoming::admit(const ChunkHeader& header, std::string* why) {
  const uint64_t sequence = header.sequence;
  if (header.bytes > slotBytes) {
    *why = "a chunk of " + std::to_string(header.bytes) + " bytes, where " +
           std::to_string(slotBytes) + " are the most";
    return nullptr;
  }
  // Written so that no sum can wrap: the number comes from outside.
  Slot* slot = &slots_[sequence % credits];
  if (sequence < consumed_ || sequence - consumed_ >= credits || slot->buffer != nullptr) {
    *why = "chunk " + std::to_string(sequence) + ", where " + std::to_string(consumed_) + " to " +
           std::to_string(consumed_ + credits - 1) + " may come, once each";
    return nullptr;
  }
  *slot = {pool_->take(), header.bytes, header.fingerprint, false};
  arrived_ = std::max(arrived_, sequence + 1);
  return slot;
}

void Incoming::pop() {
  Slot& slot = slots_[consumed_ % credits];
  BufferPool::drop(slot.buffer);
  slot = {};
  ++consumed_;
}

}  // namespace omnes::transports::tcp
