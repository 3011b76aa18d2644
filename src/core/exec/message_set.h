// The messages that a rank sends and receives in one operation, and their progress: what the
// executor is to a plan.
//
// Messages of one channel go one after the other, in the order of the calls; all channels progress
// side by side, so that the order of calls for different ranks does not matter. Messages of a rank
// to itself are copied. A receiver may answer a message, with an empty chunk, as soon as it has
// matched it: then the operation of the sender ends no earlier, whatever the size of the message.
//
// advance() never waits, as that of Operation. Used by one thread at a time: first by the one that
// calls prepare(), then by whoever drives. Borrows channels and buffers. A set that is used again
// allocates nothing unless it grows.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/exec/message.h"
#include "core/exec/operation.h"

namespace omnes::core {

class MessageSet {
 public:
  struct Mismatch {
    MessageTag theirs;
    Message mine;
  };

  // collective: whose messages they are; kSendReceive: of the user's own calls, and then they are
  // answered. The channels of all messages must be open. Fails, naming the message, when a rank
  // sends itself what it does not receive alike.
  base::Status prepare(plan::Collective collective, int32_t rank, std::span<const Message> messages,
                       MessageChannels* channels);

  // In the order of operations, since messages are numbered here. word: not 0 = nothing is moved
  // any more.
  void start(bool nonTemporal, const std::atomic<uint32_t>* word);
  Progress advance();

  // Valid after kStuck: a rank that is waited for, -1 when there is none.
  int32_t waitingFor() const;
  bool waitsFor(int32_t peer) const;
  // Valid after kFailed.
  const OperationFailure& failure() const { return failure_; }
  const std::optional<Mismatch>& mismatch() const { return mismatch_; }
  // Chunks and answers.
  uint64_t stepsDone() const { return stepsDone_; }
  uint64_t stepsTotal() const { return stepsTotal_; }

  plan::Collective collective() const { return collective_; }
  uint32_t sends() const { return sends_; }
  uint32_t receives() const { return receives_; }
  uint64_t bytes() const { return bytes_; }
  // "Send of 100 float to rank 1", "2 sends and 3 receives".
  std::string describe() const;
  // The first message that is not done with a rank for which waitsFor() is true.
  std::string describeWait(int32_t peer) const;

 private:
  struct Queue {
    MessageChannel* channel;
    uint32_t begin, end;   // in messages_
    uint32_t next;         // the first that is not through
    uint32_t answered;     // the first without an answer (sends)
    uint64_t chunk;        // of `next`
    uint64_t firstNumber;  // of `begin`
    bool isDone;
  };
  struct Copy {
    uint8_t* to;
    const uint8_t* from;
    uint64_t bytes;
  };
  enum class Step : uint8_t { kMoved, kStuck, kFailed };

  base::Status pairOwn(int32_t rank, std::span<const Message> messages);
  void copyOwn();
  Progress advanceQueue(Queue* queue);
  Step send(Queue* queue);
  Step receive(Queue* queue);
  Step takeAnswer(Queue* queue);
  void chunkIsThrough(Queue* queue, uint64_t bytes);
  Step failWith(transports::Outcome outcome, const Queue& queue, const transports::Link* link);
  Step differ(const Queue& queue, uint64_t tag, const Message& mine);
  uint64_t tagOf(const Queue& queue, uint32_t message) const;
  uint64_t chunkBytes(const Queue& queue) const;
  // Relaxed: as in Operation.
  bool isInterrupted() const {
    return word_ != nullptr && word_->load(std::memory_order_relaxed) != 0;
  }
  bool isAnswered() const { return collective_ == plan::Collective::kSendReceive; }

  plan::Collective collective_ = plan::Collective::kSendReceive;
  std::vector<Message> messages_;  // by channel, in the order of the calls
  std::vector<Queue> queues_;
  std::vector<Copy> copies_;
  std::vector<uint32_t> ownSends_;  // scratch of pairOwn()
  size_t nextCopy_ = 0;
  uint64_t copied_ = 0;  // bytes of nextCopy_
  uint32_t sends_ = 0;
  uint32_t receives_ = 0;
  uint64_t bytes_ = 0;
  const std::atomic<uint32_t>* word_ = nullptr;
  bool nonTemporal_ = false;
  uint64_t stepsDone_ = 0;
  uint64_t stepsTotal_ = 0;
  OperationFailure failure_;
  std::optional<Mismatch> mismatch_;
};

}  // namespace omnes::core
