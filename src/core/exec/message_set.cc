#include "core/exec/message_set.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Status;
using transports::Chunk;
using transports::Link;
using transports::Outcome;

// Chunks of one channel in one advance(): the others wait to be advanced, too.
constexpr int kChunksAtOnce = 16;
// What is copied between two looks at the word that stops everything.
constexpr uint64_t kCopyBytes = 1 << 20;
// As for chunks of plans.
constexpr uint64_t kNonTemporalChunkBytes = 4 << 10;

// Rings are driven inline, everything else through its transport's table.
Outcome acquire(Link* link, size_t bytes, uint8_t** data) {
  if (link->sender != nullptr) {
    if (!link->sender->tryAcquire()) return Outcome::kAgain;
    *data = base::slotPayload(link->sender->slot(), bytes);
    return Outcome::kOk;
  }
  Chunk chunk;
  const Outcome outcome = link->endpoint->table->acquire(link, bytes, &chunk);
  *data = chunk.data;
  return outcome;
}

void commit(Link* link, size_t bytes, uint64_t tag) {
  if (link->sender != nullptr)
    link->sender->publish(tag);
  else
    link->endpoint->table->commit(link, bytes, tag);
}

Outcome peek(Link* link, size_t bytes, Chunk* chunk) {
  if (link->receiver != nullptr) {
    if (!link->receiver->tryPeek()) return Outcome::kAgain;
    base::SlotHeader* slot = link->receiver->slot();
    *chunk = {base::slotPayload(slot, bytes), bytes, slot->fingerprint};
    return Outcome::kOk;
  }
  return link->endpoint->table->peek(link, bytes, chunk);
}

void release(Link* link) {
  if (link->receiver != nullptr)
    link->receiver->release();
  else
    link->endpoint->table->release(link);
}

// By channel: sends and receives of one peer are two.
uint64_t keyOf(const Message& message) {
  return uint64_t{static_cast<uint32_t>(message.peer)} << 1 | (message.isSend ? 1 : 0);
}

// An empty message is one chunk, too: it synchronises, and both ends compare it.
uint64_t chunksOf(uint64_t bytes, uint64_t chunkBytes) {
  return bytes == 0 ? 1 : (bytes + chunkBytes - 1) / chunkBytes;
}

}  // namespace

Status MessageSet::prepare(plan::Collective collective, int32_t rank,
                           std::span<const Message> messages, MessageChannels* channels) {
  collective_ = collective;
  messages_.clear();
  queues_.clear();
  copies_.clear();
  sends_ = receives_ = 0;
  bytes_ = stepsTotal_ = stepsDone_ = 0;
  mismatch_.reset();
  OMNES_RETURN_IF_ERROR(pairOwn(rank, messages));
  for (const Message& message : messages) {
    ++(message.isSend ? sends_ : receives_);
    bytes_ += message.bytes();
    if (message.peer != rank) messages_.push_back(message);
  }
  // Most sets are in this order already, and a stable sort asks for memory.
  const auto before = [](const Message& a, const Message& b) { return keyOf(a) < keyOf(b); };
  if (!std::is_sorted(messages_.begin(), messages_.end(), before))
    std::stable_sort(messages_.begin(), messages_.end(), before);
  for (uint32_t begin = 0; begin < messages_.size();) {
    uint32_t end = begin + 1;
    while (end < messages_.size() && keyOf(messages_[end]) == keyOf(messages_[begin])) ++end;
    MessageChannel* channel = channels->find(messages_[begin].isSend, messages_[begin].peer);
    queues_.push_back({channel, begin, end, begin, begin, 0, 0, false});
    for (uint32_t m = begin; m < end; ++m) {
      stepsTotal_ += chunksOf(messages_[m].bytes(), channel->data->slotBytes);
      if (isAnswered() && messages_[m].isSend) ++stepsTotal_;
    }
    begin = end;
  }
  // Ranks that all begin with the same peer would get in each other's way: start behind oneself.
  const auto behind = std::find_if(queues_.begin(), queues_.end(), [rank](const Queue& queue) {
    return queue.channel->peer > rank;
  });
  std::rotate(queues_.begin(), behind, queues_.end());
  return Status::ok();
}

Status MessageSet::pairOwn(int32_t rank, std::span<const Message> messages) {
  const auto alone = [&](const Message& message) {
    return Status(Code::kInvalidUsage, "rank " + std::to_string(rank) + " called " +
                                           core::describe(message) +
                                           ", itself, without the counterpart in the same group "
                                           "and stream");
  };
  ownSends_.clear();
  for (uint32_t m = 0; m < messages.size(); ++m)
    if (messages[m].isSend && messages[m].peer == rank) ownSends_.push_back(m);
  size_t received = 0;
  for (const Message& message : messages) {
    if (message.isSend || message.peer != rank) continue;
    if (received == ownSends_.size()) return alone(message);
    const Message& sent = messages[ownSends_[received++]];
    if (sent.count != message.count || sent.type != message.type)
      return Status(Code::kInvalidUsage,
                    "rank " + std::to_string(rank) + " called " + core::describe(sent) +
                        ", itself, but " + core::describe(message) +
                        ": a send and its receive must have one count and type");
    const uint64_t bytes = message.bytes();
    if (bytes == 0 || sent.data == message.data) continue;
    if (sent.data < message.data + bytes && message.data < sent.data + bytes)
      return Status(Code::kInvalidArgument,
                    "the buffers of " + core::describe(sent) + ", itself, overlap");
    copies_.push_back({message.data, sent.data, bytes});
  }
  return received == ownSends_.size() ? Status::ok() : alone(messages[ownSends_[received]]);
}

void MessageSet::start(bool nonTemporal, const std::atomic<uint32_t>* word) {
  word_ = word;
  nonTemporal_ = nonTemporal;
  nextCopy_ = 0;
  copied_ = 0;
  failure_ = {};
  for (Queue& queue : queues_) {
    queue.firstNumber = queue.channel->begun;
    queue.channel->begun += queue.end - queue.begin;
  }
}

Progress MessageSet::advance() {
  const uint64_t before = stepsDone_;
  bool done = true;
  for (Queue& queue : queues_) {
    if (queue.isDone) continue;
    const Progress progress = advanceQueue(&queue);
    if (progress == Progress::kFailed) return progress;
    queue.isDone = progress == Progress::kDone;
    done = done && queue.isDone;
    if (isInterrupted()) return Progress::kMoved;
  }
  if (nextCopy_ < copies_.size()) {
    copyOwn();
    return Progress::kMoved;
  }
  if (done) return Progress::kDone;
  return stepsDone_ != before ? Progress::kMoved : Progress::kStuck;
}

void MessageSet::copyOwn() {
  const Copy& copy = copies_[nextCopy_];
  const uint64_t bytes = std::min(kCopyBytes, copy.bytes - copied_);
  kernels::copy(copy.to + copied_, copy.from + copied_, bytes, false);
  copied_ += bytes;
  if (copied_ < copy.bytes) return;
  ++nextCopy_;
  copied_ = 0;
}

Progress MessageSet::advanceQueue(Queue* queue) {
  const bool isSend = queue->channel->isOutgoing;
  Step step = Step::kMoved;
  for (int i = 0; i < kChunksAtOnce && step == Step::kMoved && !isInterrupted(); ++i)
    step = queue->next == queue->end ? Step::kStuck : isSend ? send(queue) : receive(queue);
  if (step == Step::kFailed) return Progress::kFailed;
  if (isSend && isAnswered())
    for (step = Step::kMoved; step == Step::kMoved;) step = takeAnswer(queue);
  if (step == Step::kFailed) return Progress::kFailed;
  const bool owesNothing = !isSend || !isAnswered() || queue->answered == queue->end;
  return queue->next == queue->end && owesNothing ? Progress::kDone : Progress::kStuck;
}

uint64_t MessageSet::tagOf(const Queue& queue, uint32_t message) const {
  const Message& it = messages_[message];
  return MessageTag{collective_, it.type,
                    static_cast<uint8_t>(queue.firstNumber + (message - queue.begin)), it.count}
      .pack();
}

uint64_t MessageSet::chunkBytes(const Queue& queue) const {
  const uint64_t most = queue.channel->data->slotBytes;
  return std::min(most, messages_[queue.next].bytes() - queue.chunk * most);
}

void MessageSet::chunkIsThrough(Queue* queue, uint64_t bytes) {
  ++stepsDone_;
  const uint64_t most = queue->channel->data->slotBytes;
  const bool isLast = queue->chunk * most + bytes == messages_[queue->next].bytes();
  queue->chunk = isLast ? 0 : queue->chunk + 1;
  if (isLast) ++queue->next;
}

MessageSet::Step MessageSet::send(Queue* queue) {
  Link* link = queue->channel->data;
  const uint64_t bytes = chunkBytes(*queue);
  uint8_t* slot = nullptr;
  const Outcome outcome = acquire(link, bytes, &slot);
  if (outcome != Outcome::kOk) return failWith(outcome, *queue, link);
  const uint8_t* from = messages_[queue->next].data + queue->chunk * link->slotBytes;
  if (bytes > 0) kernels::copy(slot, from, bytes, nonTemporal_ && bytes >= kNonTemporalChunkBytes);
  commit(link, bytes, tagOf(*queue, queue->next));
  chunkIsThrough(queue, bytes);
  return Step::kMoved;
}

MessageSet::Step MessageSet::receive(Queue* queue) {
  Link* link = queue->channel->data;
  const Message& message = messages_[queue->next];
  const uint64_t bytes = chunkBytes(*queue);
  const uint64_t tag = tagOf(*queue, queue->next);
  Chunk chunk;
  Outcome outcome = peek(link, bytes, &chunk);
  if (outcome != Outcome::kOk) return failWith(outcome, *queue, link);
  if (chunk.fingerprint != tag) return differ(*queue, chunk.fingerprint, message);
  if (chunk.bytes != bytes) {
    failure_ = {OperationFailure::Kind::kTransport, queue->channel->peer,
                "a chunk has another length than its message says"};
    return Step::kFailed;
  }
  if (queue->chunk == 0 && isAnswered()) {
    // First of all: the sender may be waiting for nothing else.
    uint8_t* none = nullptr;
    outcome = acquire(queue->channel->answers, 0, &none);
    if (outcome != Outcome::kOk) return failWith(outcome, *queue, queue->channel->answers);
    commit(queue->channel->answers, 0, tag);
  }
  if (bytes > 0)
    kernels::copy(message.data + queue->chunk * link->slotBytes, chunk.data, bytes, false);
  release(link);
  chunkIsThrough(queue, bytes);
  return Step::kMoved;
}

MessageSet::Step MessageSet::takeAnswer(Queue* queue) {
  const uint32_t begun = queue->next + (queue->chunk > 0 ? 1 : 0);
  if (queue->answered >= begun) return Step::kStuck;
  Link* link = queue->channel->answers;
  Chunk chunk;
  const Outcome outcome = peek(link, 0, &chunk);
  if (outcome != Outcome::kOk) return failWith(outcome, *queue, link);
  if (chunk.fingerprint != tagOf(*queue, queue->answered)) {
    failure_ = {OperationFailure::Kind::kTransport, queue->channel->peer,
                "the answer to a message belongs to another one"};
    return Step::kFailed;
  }
  release(link);
  ++queue->answered;
  ++stepsDone_;
  return Step::kMoved;
}

MessageSet::Step MessageSet::failWith(Outcome outcome, const Queue& queue, const Link* link) {
  if (outcome == Outcome::kAgain) return Step::kStuck;
  const bool gone = outcome == Outcome::kPeerGone;
  failure_ = {gone ? OperationFailure::Kind::kPeerGone : OperationFailure::Kind::kTransport,
              gone ? link->endpoint->failedPeer : queue.channel->peer, link->endpoint->error};
  return Step::kFailed;
}

MessageSet::Step MessageSet::differ(const Queue& queue, uint64_t tag, const Message& mine) {
  failure_ = {OperationFailure::Kind::kMismatch, queue.channel->peer, "mismatch"};
  mismatch_ = {MessageTag::unpack(tag), mine};
  return Step::kFailed;
}

int32_t MessageSet::waitingFor() const {
  for (const Queue& queue : queues_)
    if (!queue.isDone) return queue.channel->peer;
  return -1;
}

bool MessageSet::waitsFor(int32_t peer) const {
  return std::any_of(queues_.begin(), queues_.end(), [peer](const Queue& queue) {
    return !queue.isDone && queue.channel->peer == peer;
  });
}

std::string MessageSet::describeWait(int32_t peer) const {
  for (const Queue& queue : queues_) {
    if (queue.isDone || queue.channel->peer != peer) continue;
    return core::describe(messages_[queue.next < queue.end ? queue.next : queue.answered]);
  }
  return describe();
}

std::string MessageSet::describe() const {
  if (messages_.size() == 1 && copies_.empty()) return core::describe(messages_.front());
  return std::to_string(sends_) + (sends_ == 1 ? " send and " : " sends and ") +
         std::to_string(receives_) + (receives_ == 1 ? " receive" : " receives");
}

}  // namespace omnes::core
