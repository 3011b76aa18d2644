#include "base/clock.h"

#include <time.h>

#include <algorithm>
#include <memory>

namespace omnes::base {
namespace {

class MonotonicClock final : public Clock {
 public:
  TimePoint now() const override {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return {std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec)};
  }
};

}  // namespace

const Clock& Clock::monotonic() {
  // Never destroyed: threads that nobody joins look at it while the process ends.
  static const Clock* const clock = std::make_unique<MonotonicClock>().release();
  return *clock;
}

int Deadline::pollMs(const Clock& clock, int capMs) const {
  if (isNever()) return capMs;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(remaining(clock)).count();
  const int64_t cap = capMs < 0 ? INT32_MAX : capMs;
  return static_cast<int>(std::min<int64_t>(left, cap));
}

}  // namespace omnes::base
