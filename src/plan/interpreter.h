// The interpreter: runs all ranks' plans by brute force, to judge mutated plans and to check new
// algorithms.
//
// It shares nothing with the verifier except plan.h and works the other way round: it proves
// nothing, it just plays. Every rank has real memory (a bag of contributions per block), every link
// a real FIFO with a limited number of slots, lent chunks are read out of the sender's memory when
// the receiver takes them, and memory starts as poison. One thread of control per (rank, lane); who
// moves next is drawn from a seed, or all orders are tried. Slow: meant for a few ranks (n <= 16).
// Pure function, thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "plan/plan.h"

namespace omnes::plan {

struct InterpretOptions {
  bool inPlace = false;
  int32_t credits =
      -1;  // slots per link; -1 = the plan's minCredits; 0 = plain copies of one slice are lent
  int32_t slices =
      0;              // slices per lane; 0 = enough to see every overlap and every reuse of scratch
  uint64_t seed = 1;  // of the random schedules
  int32_t schedules = 1;  // how many random schedules
  int64_t maxStates =
      0;  // > 0: also try all interleavings, giving up silently after this many states
};

// OK when every schedule that was tried ends with all outputs right and all links empty; else
// kInternalError saying which rank and step went wrong first, with the seed of the schedule.
base::Status interpret(std::span<const Plan> plans, const InterpretOptions& options);

}  // namespace omnes::plan
