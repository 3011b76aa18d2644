// The operations of one communicator that wait for a driver, in the order of their calls.
//
// An operation becomes pending when it is given a stream, belongs to a group, or is called while
// others are pending. Links are shared and in order, so operations run one after the other: one
// may begin when it is the first here. Whoever drives an operation (a stream's thread, a thread
// that helps it, the caller of a group) calls advance() until it is done. A communicator with
// nothing pending runs a call inline and never comes here.
//
// Lives as long as the last operation: a communicator may end while its operations still stand in
// streams. close() completes them and cuts the tie; then nobody is inside a buffer of theirs.
// Thread-safe.
#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/event.h"
#include "base/status.h"
#include "base/wait.h"
#include "core/comm/call.h"
#include "core/exec/message_set.h"
#include "core/exec/operation.h"

namespace omnes::core {

class Communicator;
class Sequence;

// One operation that has been called and is not done.
struct Pending {
  std::shared_ptr<Sequence> sequence;
  std::shared_ptr<const Prepared> prepared;  // null: messages
  std::unique_ptr<MessageSet> messages;
  Call call;
  CallBuffers buffers;
  uint64_t scalarBits = 0;
  base::WaitPolicy waitPolicy;
  // The stream that it stands in; null: its caller waits for it.
  const void* stream = nullptr;
  // Wakes whoever drives it; must outlive the operation.
  const base::EventFd* wake = nullptr;
  // Until when it must have begun. Only calls from callbacks have one: what they wait for may be
  // waiting for them.
  std::optional<base::Deadline> turn;

  bool isDone() const {
    // P2: pairs with P1.
    return done_.load(std::memory_order_acquire);
  }
  // Once done.
  const base::Status& status() const { return status_; }

 private:
  friend class Sequence;
  void complete(base::Status status) {
    status_ = std::move(status);
    // P1: pairs with P2: the status, and all that was written to the user's buffers.
    done_.store(true, std::memory_order_release);
  }
  bool hasBegun_ = false;  // guarded by the sequence's drive_
  base::Status status_;
  std::atomic<bool> done_{false};
};
using Batch = std::vector<std::shared_ptr<Pending>>;

class Sequence {
 public:
  // Borrows the owner until close().
  explicit Sequence(Communicator* owner) : owner_(owner) {}

  // At the end. After close() it completes at once.
  void add(const std::shared_ptr<Pending>& pending);
  // Carries the operation on as far as it goes just now. kDone: see its status; kStuck also when
  // its turn has not come. One thread at a time for one operation.
  Progress advance(Pending* pending);
  // The dear look at what a wait must not miss: deadline, other ranks, threads that cannot come.
  // May complete the operation.
  void look(Pending* pending, bool isAsleep);
  // What its driver sleeps on besides `wake`, and what to do after it was readable.
  void addPollFds(Pending* pending, std::vector<pollfd>* fds);
  void drainWake(Pending* pending);

  // Whether any operation stands in this stream (null: whether a caller waits for one).
  bool hasOn(const void* stream) const;
  // Until no operation is pending.
  void waitUntilEmpty();
  // Completes what is pending with `cause`, and forgets the owner. When it returns no thread is
  // inside an operation.
  void close(const base::Status& cause);
  // For the owner: what must not happen while an operation is advanced.
  std::unique_lock<std::mutex> stopDrivers() { return std::unique_lock(drive_); }

 private:
  bool isFirst(const Pending* pending) const;
  void complete(Pending* pending, const base::Status& status);
  Progress advanceFirst(Pending* pending);
  void failForMemory();

  // Held while an operation is advanced; guards owner_ and what the owner executes with. Taken
  // before queueMutex_.
  std::mutex drive_;
  Communicator* owner_;
  mutable std::mutex queueMutex_;
  std::condition_variable emptied_;
  std::deque<std::shared_ptr<Pending>> queue_;
  std::optional<base::Status> closed_;
  const base::Status noMemory_{base::Code::kSystemError,
                               "out of memory in the middle of an operation"};
};

}  // namespace omnes::core
