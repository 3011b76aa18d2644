// A small judge for the tests of this folder: runs the plans of all ranks in one thread with tokens
// for values, K slots a link, in wave order, and says what went wrong first. It shares no code with
// the verifier.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/registry.h"
#include "plan/plan.h"

namespace omnes::plan::testing {

struct CheckOptions {
  bool inPlace = false;
  bool lend = false;  // plain copies of one slice are lent instead of staged
  int32_t credits = 1;
  int32_t slices = 4;
};

struct CheckResult {
  std::string error;  // empty = right
  int64_t rounds = 0;
  bool sameOrder = true;                // all ranks hold every extent as the same expression
  std::vector<algorithms::Cost> costs;  // of each rank for one slice, `rounds` left out
};

// Runs lane `lane` of all plans.
CheckResult check(std::span<const Plan> plans, int lane, const CheckOptions& options);

}  // namespace omnes::plan::testing
