// What every registered algorithm must pass for one number of ranks.
#pragma once

#include <cstdint>
#include <string>

#include "algorithms/registry.h"
#include "sample_plans.h"

namespace omnes::plan::testing {

Set makePlans(const algorithms::Algorithm& algorithm, int32_t nranks);
bool supports(const algorithms::Algorithm& algorithm, int32_t nranks);
std::string labelOf(const algorithms::Algorithm& algorithm, int32_t nranks);

// Proves the plans in place and not, and holds rounds and counters of all ranks against the
// declared cost. GoogleTest expectations; returns the step instances that were proven.
int64_t expectProven(const algorithms::Algorithm& algorithm, int32_t nranks);
// The declared minimum of credits is the least that works, and one less is rejected as a deadlock.
void expectHonestCredits(const algorithms::Algorithm& algorithm, int32_t nranks);

}  // namespace omnes::plan::testing
