// One rank's communicator: joins, runs collectives, keeps the first cause of a failure.
//
// Operations are run by the calling thread from beginning to end ("inline"). One thread at a time
// runs operations; abort() and the queries may come from any thread. After a failure every call
// returns the first cause.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/event.h"
#include "base/wait.h"
#include "core/comm/execution.h"
#include "core/comm/failure.h"
#include "core/comm/liveness.h"
#include "core/comm/operation_cache.h"
#include "core/comm/settings.h"
#include "core/comm/waiter.h"
#include "core/comm/wiring.h"

namespace omnes::core {

// A reduction as the caller names it: built in, or created (kPreMulSum with its factor).
struct Reducer {
  base::ReduceOp op = base::ReduceOp::kSum;
  uint64_t scalarBits = 0;
};

class Communicator {
 public:
  static base::Result<std::unique_ptr<Communicator>> join(const bootstrap::MeetingPoint& point,
                                                          int32_t rank, int32_t nranks,
                                                          const CommSettings& settings);
  // Leaves in order. Does not wait for other ranks.
  ~Communicator();

  int32_t rank() const { return rank_; }
  int32_t nranks() const { return nranks_; }

  // Runs one collective; arguments have been checked. Blocks until done, failed, aborted or past
  // the deadline.
  base::Status run(const Shape& shape, const Reducer& reducer, const CallBuffers& buffers);

  // Breaks the communicator on all ranks with this cause, unless it is broken already; wakes a
  // blocked run(). Any thread.
  void fail(const base::Status& cause);
  // fail() with the cause that this rank aborted it.
  void abort();
  // Waits until no thread is inside run(), at most `limit`. Any thread, after abort().
  bool waitUntilIdle(base::Duration limit) const;
  // Whether a thread is inside run() just now; a best effort, to refuse misuse. Any thread.
  bool isBusy() const { return inside_.load(std::memory_order_acquire); }  // I3: pairs with I1
  const Failure& failure() const { return failure_; }

  // Created operators: numbered in the order of creation, alike on all ranks. Same thread as run().
  int32_t createOperator(base::DataType type, uint64_t scalarBits);
  base::Status destroyOperator(int32_t index);
  // kInvalidArgument when there is none, or it was made for another type.
  base::Result<Reducer> findOperator(int32_t index, base::DataType type) const;

 private:
  struct Operator {
    base::DataType type;
    uint64_t scalarBits;
    bool isLive;
  };
  class Inside;

  Communicator(int32_t rank, int32_t nranks, const CommSettings& settings, base::EventFd wake);
  base::Result<const Prepared*> prepared(const Shape& shape);
  // Waits for the operation under way.
  base::Status drive(Progress progress);
  base::Board* board();

  const int32_t rank_;
  const int32_t nranks_;
  const CommSettings settings_;
  base::EventFd wake_;
  Failure failure_;
  Wiring wiring_;
  std::unique_ptr<Liveness> liveness_;
  base::WaitPolicy waitPolicy_;
  OperationCache cache_;
  base::Board ownBoard_{};  // where nobody else can read it
  Execution execution_;
  uint64_t sequence_ = 0;
  std::vector<Operator> operators_;
  // Whether a thread is inside run(). Written by that thread, read by an aborting one.
  std::atomic<bool> inside_{false};
};

}  // namespace omnes::core
