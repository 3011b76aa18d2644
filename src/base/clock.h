// Time as omnes sees it: monotonic, and injected so that tests and simulations can drive it.
#pragma once

#include <chrono>

namespace omnes::base {

using Duration = std::chrono::nanoseconds;

struct TimePoint {
  Duration sinceStart{0};  // of an arbitrary, fixed origin
  auto operator<=>(const TimePoint&) const = default;
  TimePoint operator+(Duration d) const { return {sinceStart + d}; }
  Duration operator-(TimePoint other) const { return sinceStart - other.sinceStart; }
};

// Thread-safe. Must outlive everything that was given a reference to it.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  // The real clock (CLOCK_MONOTONIC). Static storage.
  static const Clock& monotonic();
};

// The end of a wait. "never" still ends on abort and death. Value type.
class Deadline {
 public:
  static Deadline never() { return Deadline(Duration::max()); }
  // 0 or negative milliseconds mean never, as OMNES_TIMEOUT does.
  static Deadline afterMs(const Clock& clock, int64_t milliseconds) {
    if (milliseconds <= 0) return never();
    return Deadline(clock.now().sinceStart + std::chrono::milliseconds(milliseconds));
  }

  bool isNever() const { return at_ == Duration::max(); }
  bool hasPassed(const Clock& clock) const { return !isNever() && clock.now().sinceStart >= at_; }
  // What is left, at least zero; Duration::max() when never.
  Duration remaining(const Clock& clock) const {
    if (isNever()) return at_;
    const Duration left = at_ - clock.now().sinceStart;
    return left < Duration::zero() ? Duration::zero() : left;
  }
  // For poll() and epoll_wait(): milliseconds rounded up, at most `capMs`; -1 when never and no cap
  // (capMs < 0).
  int pollMs(const Clock& clock, int capMs = -1) const;

 private:
  explicit Deadline(Duration at) : at_(at) {}
  Duration at_;
};

}  // namespace omnes::base
