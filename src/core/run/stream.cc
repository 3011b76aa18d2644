#include "core/run/stream.h"

#include "base/fork.h"
#include "base/log.h"
#include "core/comm/family.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;

thread_local Stream* currentStream = nullptr;

}  // namespace

Stream* Stream::current() { return currentStream; }

Result<std::shared_ptr<Stream>> Stream::create() {
  OMNES_ASSIGN_OR_RETURN(base::EventFd wake, base::EventFd::open());
  std::shared_ptr<Stream> made(new Stream(std::move(wake)));  // private constructor
  OMNES_ASSIGN_OR_RETURN(made->thread_,
                         base::Thread::start("omnes-stream", [raw = made.get()] { raw->loop(); }));
  return made;
}

void Stream::end() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    isEnding_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::addLocked(std::shared_ptr<const Batch> batch) {
  items_.push_back({std::move(batch), nullptr});
  ++added_;
  changed_.notify_all();
}

Status Stream::checkLocked() const {
  return isEnding_ ? Status(Code::kInvalidArgument, "stream is not a live stream") : Status::ok();
}

Status Stream::addCallback(Callback callback) {
  const std::lock_guard<std::mutex> lock(mutex_);
  OMNES_RETURN_IF_ERROR(checkLocked());
  items_.push_back({nullptr, std::move(callback)});
  ++added_;
  Family::addCallback();
  changed_.notify_all();
  return Status::ok();
}

bool Stream::ownMayDrive() const {
  if (items_.empty() || driver_ != Driver::kNobody) return false;
  return helpers_ == 0 || items_.front().batch == nullptr;
}

void Stream::loop() {
  currentStream = this;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ownMayDrive() || (isEnding_ && items_.empty()); });
    if (items_.empty()) return;
    if (items_.front().batch != nullptr) {
      driveFirst(Driver::kOwn, &lock);
    } else if (!runCallback(&lock)) {
      lock.release();  // not locked, and not to be locked: its state is that of another process
      return;
    }
  }
}

bool Stream::runCallback(std::unique_lock<std::mutex>* lock) {
  driver_ = Driver::kOwn;
  const Callback callback = std::move(items_.front().callback);
  const Code code = std::exchange(failureForCallback_, Code::kOk);
  const uint32_t generation = base::forkGeneration();
  lock->unlock();
  try {
    callback(code);
  } catch (const std::exception& error) {
    OMNES_LOG_WARN(Coll, "a callback of a stream has thrown: %s", error.what());
  } catch (...) {
    OMNES_LOG_WARN(Coll, "a callback of a stream has thrown");
  }
  if (generation != base::forkGeneration()) return false;
  Family::endCallback();
  lock->lock();
  driver_ = Driver::kNobody;
  pop();
  return true;
}

void Stream::driveFirst(Driver driver, std::unique_lock<std::mutex>* lock) {
  driver_ = driver;
  const std::shared_ptr<const Batch> batch = items_.front().batch;
  lock->unlock();
  const bool done = drive(*batch, wake_, driver == Driver::kOwn ? &helperWaits_ : nullptr);
  lock->lock();
  driver_ = Driver::kNobody;
  if (!done) {
    changed_.notify_all();
    return;
  }
  const Status failure = firstFailure(*batch);
  if (failure_.isOk()) failure_ = failure;
  if (failureForCallback_ == Code::kOk) failureForCallback_ = failure.code();
  pop();
}

void Stream::pop() {
  items_.pop_front();
  ++done_;
  changed_.notify_all();
}

Status Stream::synchronize() {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t target = added_;
  ++helpers_;
  // T1: pairs with T2: the stream's thread comes out after its step.
  helperWaits_.store(true, std::memory_order_release);
  wake_.signal();
  while (done_ < target) {
    if (driver_ == Driver::kNobody && items_.front().batch != nullptr)
      driveFirst(Driver::kHelper, &lock);
    else
      changed_.wait(lock);
  }
  if (--helpers_ == 0) {
    // Relaxed: the lock orders it.
    helperWaits_.store(false, std::memory_order_relaxed);
    changed_.notify_all();
  }
  return std::exchange(failure_, Status::ok());
}

Stream::State Stream::query(Status* failure) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  *failure = failure_;
  // What is done counts as done, also when its driver has not come to take it away.
  for (const Item& item : items_) {
    if (item.batch == nullptr) return State::kUnderWay;
    for (const auto& pending : *item.batch) {
      if (!pending->isDone()) return State::kUnderWay;
      if (failure->isOk()) *failure = pending->status();
    }
  }
  return State::kDone;
}

}  // namespace omnes::core
