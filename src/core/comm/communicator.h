// One rank's communicator: joins, runs collectives, keeps the first cause of a failure.
//
// The operations of a communicator are one sequence in the order of the calls. A call with nothing
// pending before it is run by the calling thread from beginning to end ("inline"), without a lock;
// the others are pending operations (sequence.h), which some driver carries on. One thread at a
// time calls operations; abort() and the queries may come from any thread. After a failure every
// call returns the first cause.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/event.h"
#include "base/wait.h"
#include "core/comm/execution.h"
#include "core/comm/failure.h"
#include "core/comm/family.h"
#include "core/comm/liveness.h"
#include "core/comm/operation_cache.h"
#include "core/comm/roster.h"
#include "core/comm/sequence.h"
#include "core/comm/settings.h"
#include "core/comm/vector_cache.h"
#include "core/comm/waiter.h"
#include "core/comm/wiring.h"

namespace omnes::core {

// A reduction as the caller names it: built in, or created (kPreMulSum with its factor).
struct Reducer {
  base::ReduceOp op = base::ReduceOp::kSum;
  uint64_t scalarBits = 0;
};

// Something to poll, whose being readable ends a join at once; the owner keeps it open.
struct AbortSignal {
  std::shared_ptr<const void> owner;
  int fd = -1;  // -1: nothing ends it
};

class Communicator {
 public:
  // mayHaveFormed: see wire().
  static base::Result<std::unique_ptr<Communicator>> join(const bootstrap::MeetingPoint& point,
                                                          int32_t rank, int32_t nranks,
                                                          const CommSettings& settings,
                                                          AbortSignal abort = {},
                                                          bool* mayHaveFormed = nullptr);
  // Leaves in order. Does not wait for other ranks. Operations must have ended, or close() been
  // called.
  ~Communicator();

  int32_t rank() const { return rank_; }
  int32_t nranks() const { return nranks_; }

  // Whether an operation called before is not done. Same thread as run().
  bool isBusy() const {
    // C2: pairs with C1.
    return completed_.load(std::memory_order_acquire) != calls_;
  }
  // Runs one collective; arguments have been checked, and nothing is pending (isBusy()). Blocks
  // until done, failed, aborted or past the deadline.
  base::Status run(const Shape& shape, const Reducer& reducer, const CallBuffers& buffers);
  // An operation that is not yet in the sequence. Fails when no algorithm does it. Same thread as
  // run().
  base::Result<std::shared_ptr<Pending>> makePending(const Shape& shape, const Reducer& reducer,
                                                     const CallBuffers& buffers);
  // The same two for collectives whose blocks have lengths of their own; layout is borrowed during
  // the call.
  base::Status runVector(const Shape& shape, const Reducer& reducer, const CallBuffers& buffers,
                         const VectorLayout& layout);
  base::Result<std::shared_ptr<Pending>> makePendingVector(const Shape& shape,
                                                           const Reducer& reducer,
                                                           const CallBuffers& buffers,
                                                           const VectorLayout& layout);
  // The same two for messages: those of the user (shape.collective is kSendReceive), or those that
  // a collective consists of. They take no number unless they are a collective. On failure nothing
  // was started, and the communicator stays usable unless it says otherwise in failure().
  base::Status runMessages(const Shape& shape, std::span<const Message> messages);
  base::Result<std::shared_ptr<Pending>> makePendingMessages(const Shape& shape,
                                                             std::span<const Message> messages);
  // Puts it at the end of the sequence. Same thread as run().
  void enqueue(const std::shared_ptr<Pending>& pending);
  Sequence& sequence() { return *sequence_; }

  // Breaks the communicator on all ranks with this cause, unless it is broken already; wakes
  // whoever drives. Any thread.
  void fail(const base::Status& cause);
  // fail() with the cause that this rank aborted it; then completes what is pending.
  void abort();
  // As abort(), with the cause that this rank revoked it for the reason given; the communicator
  // stays good for making others. Any thread.
  void revoke(const std::string& reason);
  // Whether a rank has died, or has left while the communicator is broken. Any thread.
  bool hasFailed(int32_t rank) const {
    return roster_->isDead(rank) || (roster_->hasLeft(rank) && failure_.isSet());
  }
  // Completes what is pending with `cause`: no thread is inside an operation of a stream or a group
  // any more, nor will be. Any thread.
  void close(const base::Status& cause) { sequence_->close(cause); }
  // Whoever sleeps in run() looks around. Any thread.
  void wake() const { wake_.signal(); }
  const Failure& failure() const { return failure_; }
  int64_t timeoutMs() const { return settings_.timeoutMs; }
  const CommSettings& settings() const { return settings_; }
  const std::shared_ptr<Roster>& roster() const { return roster_; }

  // Created operators: numbered in the order of creation, alike on all ranks. Same thread as run().
  int32_t createOperator(base::DataType type, uint64_t scalarBits);
  base::Status destroyOperator(int32_t index);
  // kInvalidArgument when there is none, or it was made for another type.
  base::Result<Reducer> findOperator(int32_t index, base::DataType type) const;

  // For the sequence, under its lock.
  Execution& execution() { return execution_; }
  bool storesNonTemporally();
  void noteCompleted() {
    // Relaxed: written by one driver at a time, handed on by C1 and C2 or the sequence's lock.
    const uint64_t before = completed_.load(std::memory_order_relaxed);
    // C1: pairs with C2: the driver is done with the execution.
    completed_.store(before + 1, std::memory_order_release);
    member_->noteEnded(before + 1);
  }
  // kInvalidUsage when a rank of this process is waited for that no thread can call.
  base::Status lookForThreads();
  void addPollFds(std::vector<pollfd>* fds) const;
  void drainWake() const { wake_.drain(); }

 private:
  struct Operator {
    base::DataType type;
    uint64_t scalarBits;
    bool isLive;
  };

  Communicator(int32_t rank, int32_t nranks, const CommSettings& settings, base::EventFd wake);
  base::Result<const OperationCache::Pointer*> prepared(const Shape& shape);
  base::Result<const OperationCache::Pointer*> prepareNew(const Shape& shape);
  base::Result<const OperationCache::Pointer*> preparedVector(const Shape& shape,
                                                              const VectorLayout& layout);
  // By the first algorithm that can. even: the shape that algorithms are chosen by.
  base::Result<Prepared> prepareBy(const Shape& shape, const Shape& even,
                                   const VectorLayout* layout);
  base::Status runPrepared(const Prepared& prepared, const Call& call, const CallBuffers& buffers,
                           uint64_t scalarBits);
  std::shared_ptr<Pending> pendingOf(const Shape& shape);
  base::Status prepareMessages(const Shape& shape, std::span<const Message> messages,
                               MessageSet* set);
  uint64_t nextNumber(plan::Collective collective) {
    ++calls_;
    return collective == plan::Collective::kSendReceive ? sequenceNumber_ : ++sequenceNumber_;
  }
  // Of an operation that was started inline.
  base::Status end(Progress progress);
  // Says, once a collective and on one rank, that OMNES_ALGO could not be followed.
  void tellFallback(plan::Collective collective, std::string_view algorithm,
                    const std::string& reason);
  // Waits for the operation under way.
  base::Status drive(Progress progress);
  base::Board* board();

  const int32_t rank_;
  const int32_t nranks_;
  const CommSettings settings_;
  AbortSignal joinAbort_;  // outlives wiring_
  base::EventFd wake_;
  Failure failure_;
  Wiring wiring_;
  std::shared_ptr<Roster> roster_;
  std::unique_ptr<Liveness> liveness_;
  base::WaitPolicy waitPolicy_;
  JobShape job_;
  uint32_t fallbacksTold_ = 0;  // a bit a collective
  OperationCache cache_;
  VectorCache vectorCache_;
  MessageChannels channels_;
  MessageSet inlineMessages_;
  base::Board ownBoard_{};  // where nobody else can read it
  Execution execution_;
  uint64_t sequenceNumber_ = 0;  // of the last operation of all ranks
  uint64_t calls_ = 0;           // those, and sends and receives
  std::atomic<uint64_t> completed_{0};
  std::shared_ptr<Family> family_;
  Family::Member* member_ = nullptr;
  // Of lookForThreads(): when the wait began, how often it has looked.
  uint64_t lookedFor_ = 0;  // calls completed then
  base::TimePoint lookStart_;
  uint32_t looks_ = 0;
  std::vector<Operator> operators_;
  std::shared_ptr<Sequence> sequence_;
};

}  // namespace omnes::core
