// Small random damage to a plan set, for the tests that compare the verifier with the interpreter.
#pragma once

#include <random>
#include <string>

#include "sample_plans.h"

namespace omnes::plan::testing {

// Changes one thing in *plans (of one rank, or the same of all) and says what.
std::string mutate(Set* plans, std::mt19937_64* random);

}  // namespace omnes::plan::testing
