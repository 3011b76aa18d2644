// A stream: batches of operations and callbacks that are carried out in order, beside the caller.
//
// Each stream has a thread of its own, asleep while there is nothing to do. The right to drive is a
// token: a thread that waits for the stream takes it over from the stream's thread between two
// steps and drives itself, so that nobody waits for a thread to be scheduled who could work.
// Callbacks always run on the stream's thread.
//
// Nothing waits in a circle. Take the instant at which a call (or a group, at its end) is enqueued:
// it gets its places in its streams and in the sequences of its communicators while all those
// streams are locked, and a communicator is used by one thread at a time, so places in streams and
// sequences follow the same order of instants. An operation waits only for what was enqueued
// earlier, or for operations of its own group, which progress together. Callbacks are the
// exception, since what they call comes later than what stands behind them: start.h says how that
// is caught.
//
// Thread-safe. Owned by shared pointers: of the handle, and of the calls that use it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/thread.h"
#include "core/run/drive.h"

namespace omnes::core {

class Stream {
 public:
  // Runs with the first failure of an operation since the callback before.
  using Callback = std::function<void(base::Code)>;
  enum class State : uint8_t { kDone, kUnderWay };

  static base::Result<std::shared_ptr<Stream>> create();
  ~Stream() { end(); }
  // Takes no more items, waits until all are carried out, and ends the thread. Not on the stream's
  // own thread.
  void end();

  // The stream whose thread this is; null on all other threads.
  static Stream* current();

  // kInvalidArgument after end().
  base::Status addCallback(Callback callback);
  // Waits until all that has been added so far is carried out, and helps. Returns the first failure
  // since the last synchronize(). Not on the stream's own thread.
  base::Status synchronize();
  // Does not forget the failure.
  State query(base::Status* failure) const;

  // For start.h: locks the stream, and, locked, says whether it takes items, and puts a batch at
  // the end.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  base::Status checkLocked() const;
  void addLocked(std::shared_ptr<const Batch> batch);
  const base::EventFd& wake() const { return wake_; }

 private:
  struct Item {
    std::shared_ptr<const Batch> batch;  // null: a callback
    Callback callback;
  };
  enum class Driver : uint8_t { kNobody, kOwn, kHelper };

  explicit Stream(base::EventFd wake) : wake_(std::move(wake)) {}
  void loop();
  bool ownMayDrive() const;
  // False in a child of the process that the callback has forked: the stream is not its own.
  bool runCallback(std::unique_lock<std::mutex>* lock);
  // Drives the first item, a batch, as `driver`.
  void driveFirst(Driver driver, std::unique_lock<std::mutex>* lock);
  void pop();

  const base::EventFd wake_;
  mutable std::mutex mutex_;  // guards what follows, but not what items point at
  std::condition_variable changed_;
  std::deque<Item> items_;
  uint64_t added_ = 0;
  uint64_t done_ = 0;
  Driver driver_ = Driver::kNobody;
  int helpers_ = 0;
  bool isEnding_ = false;
  base::Status failure_;                             // since the last synchronize()
  base::Code failureForCallback_ = base::Code::kOk;  // since the last callback
  std::atomic<bool> helperWaits_{false};
  base::Thread thread_;
};

}  // namespace omnes::core
