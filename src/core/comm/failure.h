// The first cause of a communicator's failure: kept once, never replaced, readable from any thread.
//
// The word is what every wait reads beside its flag (one load of a line that stays in the
// cache); the text is looked at only after it has been seen. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include "base/status.h"

namespace omnes::core {

class Failure {
 public:
  // Keeps `cause` if it is the first; says whether it was.
  bool set(base::Status cause) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!cause_.isOk()) return false;
    cause_ = std::move(cause);
    // F1: pairs with F2: who sees the word finds the text (the mutex orders the rest).
    word_.store(static_cast<uint32_t>(cause_.code()), std::memory_order_release);
    return true;
  }
  // F2: pairs with F1.
  bool isSet() const { return word_.load(std::memory_order_acquire) != 0; }
  // For Operation::heed.
  const std::atomic<uint32_t>* word() const { return &word_; }
  base::Status status() const {
    if (!isSet()) return base::Status::ok();
    const std::lock_guard<std::mutex> lock(mutex_);
    return cause_;
  }
  // Stable storage for the C API, for as long as this object lives. Empty when nothing failed.
  const char* text() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return cause_.isOk() ? "" : cause_.message().data();
  }

 private:
  std::atomic<uint32_t> word_{0};
  mutable std::mutex mutex_;
  base::Status cause_;
};

}  // namespace omnes::core
