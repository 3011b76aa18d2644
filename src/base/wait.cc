#include "base/wait.h"

#include <algorithm>

#include "base/clock.h"

namespace omnes::base {
namespace {

// Longer than nearly every hand-over between ranks that have a core each, and shorter than a sleep
// and wake-up, which cost tens of microseconds.
constexpr double kSpinNs = 20'000;
// An undisturbed sched_yield() takes some 0.3 us, so an idle wait gives its core up within a
// millisecond.
constexpr uint32_t kYields = 1000;

}  // namespace

WaitPolicy WaitPolicy::choose(int ranksOnHost, int usableCores, int64_t spinOverride,
                              double pauseNs) {
  WaitPolicy policy;
  policy.yields = kYields;
  if (spinOverride >= 0) {
    policy.spinPolls = static_cast<uint32_t>(std::min<int64_t>(spinOverride, UINT32_MAX));
  } else if (ranksOnHost <= usableCores) {
    policy.spinPolls = static_cast<uint32_t>(kSpinNs / std::clamp(pauseNs, 1.0, 1000.0));
  }
  return policy;
}

double pauseNanoseconds() {
  static const double cost = [] {
    constexpr int kPauses = 200;
    // The least of three: an interruption only ever adds.
    Duration best = Duration::max();
    for (int round = 0; round < 3; ++round) {
      const TimePoint start = Clock::monotonic().now();
      for (int i = 0; i < kPauses; ++i) pauseCore();
      best = std::min(best, Clock::monotonic().now() - start);
    }
    return std::max(1.0, static_cast<double>(best.count()) / kPauses);
  }();
  return cost;
}

}  // namespace omnes::base
