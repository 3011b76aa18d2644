// The time-out of -T: ends the process when no rank of it has made progress for so long.
//
// It does not trust the library to return, so it leaves by _exit. Thread safety: noteProgress from
// any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace omnes::perf {

class Watchdog {
 public:
  // 0 seconds: never fires.
  Watchdog(int seconds, std::string program);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void noteProgress() {
    // Relaxed: only a change of the number matters, nothing is published with it.
    progress_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  void watch();

  const int seconds_;
  const std::string program_;
  std::atomic<uint64_t> progress_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace omnes::perf
