// The memory of handles: never given back to the system, so that a call with a handle that another
// thread has just ended finds a dead handle and not somebody else's data.
//
// Also the registry of the live ones: who may end a handle is decided here. An ended handle's
// memory is used again only after 64 others, so that stale handles are recognised (best effort).
// Thread-safe; its lock is taken by making and ending only.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace omnes::api {

template <typename T>
class HandleStore {
 public:
  static HandleStore& instance() {
    // Never destroyed: handles may outlive the static destructors of a process that does not end
    // them.
    static HandleStore* const store = std::make_unique<HandleStore>().release();
    return *store;
  }

  // A handle that is known as live; the caller fills it.
  T* make() {
    const std::lock_guard<std::mutex> lock(mutex_);
    T* made = nullptr;
    if (retired_.size() > kQuarantine) {
      made = retired_.front();
      retired_.pop_front();
    } else {
      all_.push_back(std::make_unique<T>());
      made = all_.back().get();
    }
    live_.insert(made);
    return made;
  }
  bool isLive(T* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_.count(handle) == 1;
  }
  // True for the one caller that may end the handle.
  bool forget(T* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_.erase(handle) == 1;
  }
  // After forget(), when nothing is in it any more.
  void retire(T* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    retired_.push_back(handle);
  }

 private:
  static constexpr size_t kQuarantine = 64;

  std::mutex mutex_;
  std::deque<std::unique_ptr<T>> all_;
  std::unordered_set<T*> live_;
  std::deque<T*> retired_;
};

}  // namespace omnes::api
