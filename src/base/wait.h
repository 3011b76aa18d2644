// The wait ladder: spin, then yield, then sleep.
//
// A wait polls its own condition and calls WaitLadder::next() after each miss. Spinning is fastest
// while the peer runs on a core of its own; where ranks share cores it only keeps the peer from
// running, so there the ladder yields from the first miss on. The last stage is the caller's: it
// sleeps where it can be woken. Nothing here reads a clock while spinning; timeToCheck()
// says when a wait should look at the things that are dear to look at (the deadline, the error word
// of others, their boards).
//
// A ladder belongs to one wait of one thread. Costs one counter and one pause instruction a miss.
#pragma once

#include <sched.h>

#include <cstdint>

namespace omnes::base {

struct WaitPolicy {
  uint32_t spinPolls = 0;
  uint32_t yields = 0;

  // For `ranksOnHost` ranks that share `usableCores` cores: all that any of them may use, see
  // usableCores(peers). `spinOverride` is OMNES_SPIN: polls before the first yield, negative =
  // choose here. `pauseNs` is what one pause costs, see pauseNanoseconds().
  static WaitPolicy choose(int ranksOnHost, int usableCores, int64_t spinOverride, double pauseNs);
};

// What one pause instruction costs here: 2 to 50 ns, by processor. Measured at the first call (some
// 20 us).
double pauseNanoseconds();

// Tells the core that this is a spin loop.
inline void pauseCore() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // a real wait of some 10 ns; "yield" is a no-op on most cores
#endif
}

class WaitLadder {
 public:
  enum class Stage : uint8_t { kSpin, kYield, kSleep };

  explicit WaitLadder(WaitPolicy policy) : policy_(policy) {}

  // After a miss: one pause or one yield, or nothing at all in the stage that is the caller's.
  Stage next() {
    ++misses_;
    if (misses_ <= policy_.spinPolls) [[likely]] {
      pauseCore();
      return Stage::kSpin;
    }
    return nextSlow();
  }

  // Whether this miss is one of those after which dear things are looked at: every 4096 spins,
  // every 64 yields, and every time when asleep.
  bool timeToCheck() const {
    if (misses_ <= policy_.spinPolls) return (misses_ & (kSpinsPerCheck - 1)) == 0;
    const uint64_t yields = misses_ - policy_.spinPolls;
    return yields > policy_.yields || (yields & (kYieldsPerCheck - 1)) == 0;
  }

  // Progress was made: the next miss spins again.
  void reset() { misses_ = 0; }

  uint64_t misses() const { return misses_; }

 private:
  static constexpr uint64_t kSpinsPerCheck = 4096;
  static constexpr uint64_t kYieldsPerCheck = 64;

  Stage nextSlow() {
    if (misses_ - policy_.spinPolls > policy_.yields) return Stage::kSleep;
    sched_yield();
    return Stage::kYield;
  }

  WaitPolicy policy_;
  uint64_t misses_ = 0;
};

}  // namespace omnes::base
