// How far apart the cores of this rank and its peers are, watched while working.
//
// Across chiplets a staged chunk wants non-temporal stores (they halve its time), on one chiplet
// plain ones (non-temporal doubles it), and a virtual machine changes between the two while it
// runs; so the choice follows from the latency of lines that we load anyway: a reader's tail line
// that has just changed. Value type, not thread-safe.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace omnes::core {

class LineLatency {
 public:
  LineLatency() : clockCost_(measureClockCost()) {}

  // nanoseconds between two clock reads around the load of one changed line.
  void add(int64_t nanoseconds) {
    const int64_t sample = nanoseconds - clockCost_;
    // A sample of microseconds is a preemption, not a line.
    if (sample < 0 || sample > kMaxSampleNs) return;
    estimate_ += (sample - estimate_) / 8;
  }
  // 42 ns one way was measured on one chiplet, 180-200 ns across two.
  bool isFar() const { return estimate_ > kFarNs; }
  int64_t nanoseconds() const { return estimate_; }

 private:
  static constexpr int64_t kFarNs = 110;
  static constexpr int64_t kMaxSampleNs = 2000;

  static int64_t measureClockCost() {
    const base::Clock& clock = base::Clock::monotonic();
    int64_t least = INT64_MAX;
    for (int i = 0; i < 16; ++i) {
      const base::TimePoint start = clock.now();
      const int64_t cost = (clock.now() - start).count();
      if (cost < least) least = cost;
    }
    return least;
  }

  int64_t clockCost_;
  int64_t estimate_ = 150;  // undecided, slightly towards far: the usual case on large machines
};

}  // namespace omnes::core
