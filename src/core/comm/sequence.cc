#include "core/comm/sequence.h"

#include <algorithm>
#include <new>

#include "base/floating_point.h"
#include "core/comm/communicator.h"

namespace omnes::core {

using base::Code;
using base::Status;

void Sequence::add(const std::shared_ptr<Pending>& pending) {
  const std::lock_guard<std::mutex> lock(queueMutex_);
  if (closed_) {
    pending->complete(*closed_);
    return;
  }
  queue_.push_back(pending);
}

bool Sequence::isFirst(const Pending* pending) const {
  const std::lock_guard<std::mutex> lock(queueMutex_);
  return !queue_.empty() && queue_.front().get() == pending;
}

void Sequence::complete(Pending* pending, const Status& status) {
  owner_->noteCompleted();
  const std::lock_guard<std::mutex> lock(queueMutex_);
  const auto same = [pending](const auto& other) { return other.get() == pending; };
  // Out of turn only after a failure, when nothing begins any more.
  const auto at = std::find_if(queue_.begin(), queue_.end(), same);
  // The driver keeps it alive.
  if (at != queue_.end()) queue_.erase(at);
  pending->complete(status);
  if (queue_.empty())
    emptied_.notify_all();
  else if (queue_.front()->wake != nullptr)
    queue_.front()->wake->signal();
}

Progress Sequence::advance(Pending* pending) {
  const std::lock_guard<std::mutex> lock(drive_);
  if (pending->isDone()) return Progress::kDone;
  const base::ScopedFloatingPointMode mode;
  Progress progress = Progress::kStuck;
  if (!owner_->failure().isSet()) {
    if (!isFirst(pending)) return Progress::kStuck;
    try {
      progress = advanceFirst(pending);
    } catch (const std::bad_alloc&) {
      failForMemory();
    }
    if (progress == Progress::kDone) {
      complete(pending, Status::ok());
      return progress;
    }
  }
  if (!owner_->failure().isSet()) return progress;
  complete(pending, owner_->failure().status());
  return Progress::kDone;
}

Progress Sequence::advanceFirst(Pending* pending) {
  Execution& execution = owner_->execution();
  Progress progress;
  if (pending->hasBegun_) {
    progress = execution.poll();
  } else {
    pending->hasBegun_ = true;
    progress = pending->messages != nullptr
                   ? execution.startMessages(pending->messages.get(), pending->call,
                                             owner_->storesNonTemporally())
                   : execution.start(*pending->prepared, pending->call, pending->buffers,
                                     pending->scalarBits, owner_->storesNonTemporally());
  }
  if (progress == Progress::kDone) execution.finish();
  if (progress == Progress::kFailed) owner_->fail(execution.failure());
  return progress;
}

void Sequence::failForMemory() {
  try {
    owner_->fail(noMemory_);
  } catch (const std::bad_alloc&) {
    // The failure is noted, and the board says so to the others.
  }
}

void Sequence::look(Pending* pending, bool isAsleep) {
  const std::lock_guard<std::mutex> lock(drive_);
  if (pending->isDone()) return;
  Status status;
  if (pending->hasBegun_) {
    status = owner_->execution().look();
    if (status.isOk() && isAsleep) status = owner_->lookForThreads();
  } else if (pending->turn && pending->turn->hasPassed(base::Clock::monotonic())) {
    status = Status(Code::kTimeout,
                    describe(pending->call) +
                        ", called from a callback of a stream, could not begin within the time-out "
                        "of its communicator: what it waits for may be waiting for the callback; "
                        "do not wait in callbacks for operations of streams");
  }
  if (!status.isOk()) owner_->fail(status);
}

void Sequence::addPollFds(Pending* pending, std::vector<pollfd>* fds) {
  const std::lock_guard<std::mutex> lock(drive_);
  if (!pending->isDone() && pending->hasBegun_) owner_->addPollFds(fds);
}

void Sequence::drainWake(Pending* pending) {
  const std::lock_guard<std::mutex> lock(drive_);
  if (!pending->isDone() && pending->hasBegun_) owner_->drainWake();
}

bool Sequence::hasOn(const void* stream) const {
  const std::lock_guard<std::mutex> lock(queueMutex_);
  return std::any_of(queue_.begin(), queue_.end(),
                     [stream](const auto& pending) { return pending->stream == stream; });
}

void Sequence::waitUntilEmpty() {
  std::unique_lock<std::mutex> lock(queueMutex_);
  emptied_.wait(lock, [this] { return queue_.empty(); });
}

void Sequence::close(const Status& cause) {
  const std::lock_guard<std::mutex> notDriven(drive_);
  const std::lock_guard<std::mutex> lock(queueMutex_);
  closed_ = cause;
  owner_ = nullptr;
  for (const std::shared_ptr<Pending>& pending : queue_) {
    pending->complete(cause);
    if (pending->wake != nullptr) pending->wake->signal();
  }
  queue_.clear();
  emptied_.notify_all();
}

}  // namespace omnes::core
