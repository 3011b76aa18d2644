// Every registered algorithm for large numbers of ranks; the ones with O(log n) rounds up to 4096.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "registry_checks.h"

namespace omnes::plan::testing {
namespace {

using algorithms::Algorithm;

void proveFor(int32_t nranks, bool logRoundsOnly) {
  for (const Algorithm& algorithm : algorithms::all()) {
    if (!supports(algorithm, nranks) || (logRoundsOnly && !algorithm.logRounds)) continue;
    const auto start = std::chrono::steady_clock::now();
    const int64_t steps = expectProven(algorithm, nranks);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%-40s %12lld steps %8.2f s\n", labelOf(algorithm, nranks).c_str(),
                static_cast<long long>(steps), seconds.count());
  }
}

class LargeRegistry : public ::testing::TestWithParam<int32_t> {};
TEST_P(LargeRegistry, IsProven) { proveFor(GetParam(), false); }
INSTANTIATE_TEST_SUITE_P(Ranks, LargeRegistry, ::testing::Values(100, 128, 257, 1000, 1024));

class LogRounds : public ::testing::TestWithParam<int32_t> {};
TEST_P(LogRounds, IsProven) { proveFor(GetParam(), true); }
INSTANTIATE_TEST_SUITE_P(Ranks, LogRounds, ::testing::Values(2048, 3001, 4095, 4096));

TEST(LargeCredits, AreTheLeast) {
  for (const Algorithm& algorithm : algorithms::all())
    for (int32_t n : {64, 100, 128})
      if (supports(algorithm, n)) expectHonestCredits(algorithm, n);
}

}  // namespace
}  // namespace omnes::plan::testing
