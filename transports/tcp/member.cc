#include "transports/tcp/member.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "transports/tcp/socket.h"

namespace omnes::transports::tcp {
namespace {

constexpr size_t kScratchBytes = 16 << 10;
constexpr uint8_t kExchange = 0, kScatter = 1, kSignal = 3;  // kinds of streams, see streams.h

size_t bodyOf(uint8_t kind, size_t slotBytes) { return streamClass(kind, slotBytes).bodyBytes; }

}  // namespace

Shared::Shared(Endpoint* owner, size_t slots)
    : endpoint(owner),
      slotBytes(slots),
      scratch(kScratchBytes),
      exchange_(bodyOf(kExchange, slots)),
      body_(bodyOf(kScatter, slots)),
      signal_(bodyOf(kSignal, slots)) {}

BufferPool* Shared::poolOf(uint8_t stream) {
  const uint8_t kind = stream % kStreamsPerLane;
  return kind == kExchange ? &exchange_ : kind == kSignal ? &signal_ : &body_;
}

Member::~Member() {
  for (DataSocket& socket : data_)
    if (socket.current != nullptr) BufferPool::drop(socket.current);
  // A forked child may hold copies of the descriptors; the peer shall see the end all the same. In
  // that child the connections are still its parent's.
  if (base::forkGeneration() != shared_->forkGeneration) return;
  if (control_.fd.isOpen()) ::shutdown(control_.fd.get(), SHUT_WR);
  for (DataSocket& socket : data_)
    if (socket.fd.isOpen()) ::shutdown(socket.fd.get(), SHUT_WR);
}

base::Status Member::takeSockets(std::vector<base::UniqueFd> sockets) {
  control_.fd = std::move(sockets[0]);
  data_.resize(sockets.size() - 1);
  for (size_t i = 0; i < data_.size(); ++i) data_[i].fd = std::move(sockets[i + 1]);
  openData_ = data_.size();
  const uint64_t first = static_cast<uint64_t>(place_) << kSocketBits;
  OMNES_RETURN_IF_ERROR(shared_->epoll->add(control_.fd.get(), EPOLLIN, first));
  for (size_t i = 0; i < data_.size(); ++i)
    OMNES_RETURN_IF_ERROR(shared_->epoll->add(data_[i].fd.get(), EPOLLIN, first + 1 + i));
  return base::Status::ok();
}

Incoming* Member::incoming(uint8_t stream) {
  std::unique_ptr<Incoming>& link = incoming_[stream];
  if (!link)
    link = std::make_unique<Incoming>(shared_->endpoint, stream, shared_->slotBytes, rank_,
                                      shared_->poolOf(stream));
  return link.get();
}

std::string Member::whyGone() const {
  const std::string rank = "rank " + std::to_string(rank_);
  if (cause_ == 0) return rank + " has closed its connections; see what it printed before";
  const base::Status status =
      base::Status::fromErrno(cause_, "the connection to " + rank + " is lost");
  return std::string(status.message());
}

// --- Sending ---

void Member::send(Buffer* buffer) {
  if (isEnding_) return;
  queue_.push(buffer);
  flushData();
  settle();
}

void Member::consumed(Incoming* link) {
  if (isEnding_ || !link->owesCredit()) return;
  creditChannel_.owe(link);
  // Else the next progress() does: a sender without credit waits for all that we use up until then.
  if (link->owesHalf()) flushCredits();
  settle();
}

bool Member::flush() {
  const bool data = flushData();
  const bool credits = flushCredits();
  settle();
  return data || credits;
}

bool Member::flushData() {
  bool moved = false;
  size_t refusals = 0;
  while (refusals < data_.size() && (partial_ != 0 || !queue_.isEmpty())) {
    DataSocket* socket = &data_[turn_];
    turn_ = (turn_ + 1) % data_.size();
    refusals = sendOn(socket, &moved) ? 0 : refusals + 1;
  }
  for (size_t i = 0; i < data_.size(); ++i)
    askForRoom(&data_[i], 1 + i,
               data_[i].isBlocked && (data_[i].current != nullptr || !queue_.isEmpty()));
  return moved;
}

bool Member::sendOn(DataSocket* socket, bool* moved) {
  const bool isBegun = socket->current != nullptr;
  if (socket->isBlocked || (!isBegun && queue_.isEmpty())) return false;
  Buffer* buffer = isBegun ? socket->current : queue_.front();
  const ssize_t sent =
      sendSome(socket->fd.get(), buffer->frame() + socket->sent, buffer->frameBytes - socket->sent);
  if (sent < 0) {
    breakOff(static_cast<int>(-sent));
    return false;
  }
  // A chunk that was not begun stays in the queue, for another socket.
  if (sent > 0 && !isBegun) {
    socket->current = queue_.pop();
    ++partial_;
  }
  socket->sent += static_cast<size_t>(sent);
  *moved |= sent > 0;
  if (socket->sent < buffer->frameBytes) {
    socket->isBlocked = true;
    return false;
  }
  BufferPool::drop(std::exchange(socket->current, nullptr));
  socket->sent = 0;
  --partial_;
  return true;
}

bool Member::flushCredits() {
  if (isEnding_ || !creditChannel_.hasUnsent() || control_.isBlocked) return false;
  const ssize_t sent = creditChannel_.flush(control_.fd.get());
  if (sent < 0) {
    endControl(static_cast<int>(-sent));
    return true;
  }
  control_.isBlocked = creditChannel_.hasUnsent();
  askForRoom(&control_, 0, control_.isBlocked);
  return sent > 0;
}

void Member::askForRoom(Socket* socket, size_t number, bool wanted) {
  if (wanted == socket->asksForRoom || !socket->fd.isOpen()) return;
  const uint64_t tag = (static_cast<uint64_t>(place_) << kSocketBits) + number;
  const base::Status status =
      shared_->epoll->modify(socket->fd.get(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, tag);
  if (!status.isOk()) shared_->failure = std::string(status.message());
  socket->asksForRoom = wanted;
}

void Member::settle() {
  const bool isUnsent =
      !isEnding_ && (partial_ != 0 || !queue_.isEmpty() || creditChannel_.hasUnsent());
  if (isUnsent == countsAsUnsent_) return;
  countsAsUnsent_ = isUnsent;
  shared_->unsentMembers += isUnsent ? 1 : -1;
  shared_->endpoint->hasUnsent = shared_->unsentMembers != 0;
}

// --- Receiving ---

bool Member::onEvent(size_t number, uint32_t events) {
  Socket* socket = number == 0 ? &control_ : &data_[number - 1];
  if (!socket->fd.isOpen()) return false;  // ended by an event before this one
  bool moved = false;
  if ((events & EPOLLOUT) != 0) {
    socket->isBlocked = false;
    moved = flush();
  }
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0 && socket->fd.isOpen())
    moved |= number == 0 ? readControl() : readData(&data_[number - 1]);
  settle();
  return moved;
}

Incoming::Slot* Member::admit(const ChunkHeader& header, std::string* why) {
  if (header.stream >= kStreams) {
    *why = "a chunk on stream " + std::to_string(header.stream) + ", which there is not";
    return nullptr;
  }
  Incoming* link = incoming(header.stream);
  Incoming::Slot* slot = link->admit(header, why);
  if (slot == nullptr)
    *why += " on stream " + std::to_string(header.stream);
  else if (!isEnding_ && link->owesCredit())
    creditChannel_.owe(link);
  return slot;
}

bool Member::readData(DataSocket* socket) {
  const ReadEnd read = socket->reader.read(socket->fd.get(), shared_->scratch, this);
  switch (read.kind) {
    case ReadEnd::Kind::kEmpty: return read.hasMoved;
    case ReadEnd::Kind::kClosed:
      beginEnding(0);
      endData(socket);
      return true;
    case ReadEnd::Kind::kBroken: breakOff(read.error); return true;
    case ReadEnd::Kind::kInvalid: refuse(read.text); return true;
  }
  return true;
}

bool Member::readControl() {
  const ssize_t got = creditChannel_.read(control_.fd.get(), &shared_->credits);
  applyCredits();
  if (got == CreditChannel::kInvalidCredit)
    refuse("bytes that are no credit");
  else if (got < 0)
    endControl(got == kClosed ? 0 : static_cast<int>(-got));
  return got != 0;
}

void Member::applyCredits() {
  for (const Credit& credit : shared_->credits) {
    const Reader reader = credit.stream < kStreams ? readers_[credit.stream] : Reader{};
    if (reader.link != nullptr && reader.link->credit(reader.index, credit.consumed)) continue;
    refuse("that it has read " + std::to_string(credit.consumed) + " chunks of stream " +
           std::to_string(credit.stream) + ", which were not sent");
    break;
  }
  shared_->credits.clear();
}

// --- The end ---

void Member::end(Socket* socket) {
  if (!socket->fd.isOpen()) return;
  // Explicitly, since a forked child may hold a copy, which would keep it in the set.
  const base::Status status = shared_->epoll->remove(socket->fd.get());
  if (!status.isOk()) shared_->failure = std::string(status.message());
  socket->fd.reset();
}

void Member::beginEnding(int error) {
  if (cause_ == 0) cause_ = error;
  if (isEnding_) return;
  isEnding_ = true;
  queue_.clear();
  creditChannel_.forget();
  for (DataSocket& socket : data_) {
    if (socket.current != nullptr) BufferPool::drop(std::exchange(socket.current, nullptr));
    socket.sent = 0;
  }
  partial_ = 0;
  for (size_t i = 0; i < data_.size(); ++i) askForRoom(&data_[i], 1 + i, false);
  askForRoom(&control_, 0, false);
  settle();
}

void Member::endControl(int error) {
  // The first cause is that of the data sockets, when they have one: the control connection of a
  // member that ends in order may be reset, because our last credits were not read.
  const bool isReset = error == ECONNRESET || error == EPIPE;
  beginEnding(isReset ? 0 : error);
  end(&control_);
}

void Member::endData(DataSocket* socket) {
  end(socket);
  --openData_;
}

void Member::breakOff(int error) {
  beginEnding(error);
  for (DataSocket& socket : data_) {
    if (!socket.fd.isOpen()) continue;
    const ReadEnd read = socket.reader.read(socket.fd.get(), shared_->scratch, this);
    if (read.kind == ReadEnd::Kind::kInvalid) refuse(read.text);
    endData(&socket);
  }
  end(&control_);
}

void Member::refuse(const std::string& text) {
  beginEnding(0);
  if (shared_->failure.empty())
    shared_->failure = "rank " + std::to_string(rank_) + " has sent " + text +
                       "; do all ranks run the same version of omnes?";
  for (DataSocket& socket : data_)
    if (socket.fd.isOpen()) endData(&socket);
  end(&control_);
}

}  // namespace omnes::transports::tcp
