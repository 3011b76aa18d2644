#include "common/watchdog.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "common/exit_code.h"

namespace omnes::perf {

Watchdog::Watchdog(int seconds, std::string program)
    : seconds_(seconds), program_(std::move(program)) {
  if (seconds_ > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  using Clock = std::chrono::steady_clock;
  uint64_t seen = 0;
  Clock::time_point since = Clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(50), [this] { return stop_; })) {
    // Relaxed: see noteProgress.
    const uint64_t now = progress_.load(std::memory_order_relaxed);
    if (now != seen) {
      seen = now;
      since = Clock::now();
    } else if (Clock::now() - since > std::chrono::seconds(seconds_)) {
      std::fflush(stdout);
      std::fprintf(stderr,
                   "%s: no progress for %d s (-T): giving up; a rank is missing, stopped or slower "
                   "than this allows\n",
                   program_.c_str(), seconds_);
      _exit(kExitTimeout);
    }
  }
}

}  // namespace omnes::perf
