// Every registered algorithm for every number of ranks up to 64.
#include <gtest/gtest.h>

#include "registry_checks.h"

namespace omnes::plan::testing {
namespace {

using algorithms::Algorithm;

TEST(Registry, IsProvenForOneTo64Ranks) {
  ASSERT_FALSE(algorithms::all().empty());
  for (const Algorithm& algorithm : algorithms::all()) {
    int64_t steps = 0;
    for (int32_t n = 1; n <= 64; ++n)
      if (supports(algorithm, n)) steps += expectProven(algorithm, n);
    EXPECT_GT(steps, 0) << algorithm.name;
  }
}

TEST(Registry, DeclaresTheLeastCredits) {
  for (const Algorithm& algorithm : algorithms::all())
    for (int32_t n = 1; n <= 33; ++n)
      if (supports(algorithm, n)) expectHonestCredits(algorithm, n);
}

}  // namespace
}  // namespace omnes::plan::testing
