// What every registered algorithm must pass for one number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "sample_plans.h"

namespace omnes::plan::testing {

// What the collective allows: {-1} without a root; else all up to 17 ranks, and 0, 1, n/2 and n - 1
// above.
std::vector<int32_t> rootsOf(Collective collective, int32_t nranks);

Set makePlans(const algorithms::Algorithm& algorithm, int32_t nranks, int32_t root = -1);
bool supports(const algorithms::Algorithm& algorithm, int32_t nranks, int32_t root = -1);
std::string labelOf(const algorithms::Algorithm& algorithm, int32_t nranks, int32_t root = -1);

// Proves the plans in place and not, for every root of rootsOf() that the algorithm supports, and
// holds rounds and counters of all ranks against the declared cost. GoogleTest expectations;
// returns the step instances that were proven.
int64_t expectProven(const algorithms::Algorithm& algorithm, int32_t nranks);
// The declared minimum of credits is the least that works, and one less is rejected as a deadlock.
// For every root of rootsOf(), too.
void expectHonestCredits(const algorithms::Algorithm& algorithm, int32_t nranks);

}  // namespace omnes::plan::testing
