// C23: ranks that call different things. Every rank returns omnesInvalidUsage with both sides, and
// no output is touched (which the rank program checks).
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "fault/fault_job.h"

namespace omnes::tests {
namespace {

struct MismatchCase {
  const char* what;
  const char* most;  // what all ranks but the last call, as a regular expression
  const char* last;
};

constexpr MismatchCase kCases[] = {
    {"count", "409600 float", "409598 float"},
    {"many-slices", "409600 float", "32768000 float"},
    {"slices", "409600 float", "819200 float"},
    {"small", "100 float", "98 float"},
    {"type", "409600 float,", "409600 half,"},
    {"op", "409600 float, sum", "409600 float, max"},
    {"order", "AllReduce #2 of 409600 float", "Barrier #2"},
    {"collective", "AllReduce #2 of 409600 float", "ReduceScatter #2 of 16 float"},
};

void expectMismatch(const Carrier& carrier, const MismatchCase& one, const std::string& way) {
  const int nranks = carrier.onFirstHost == 0 ? 3 : 4;
  ProcessGroup group;
  startJob(&group, carrier, nranks, std::string("mismatch-") + one.what + way);
  ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
  group.mark();
  const std::string called = " \\([^)]*\\) called .*";
  expectAll(group.waitForAll(kMismatchLimit + kBeyond),
            {5,
             {"rank " + std::to_string(nranks - 1) + called + one.last,
              "rank [0-" + std::to_string(nranks - 2) + "]" + called + one.most},
             kMismatchLimit});
}

class Mismatch : public ::testing::TestWithParam<std::tuple<Carrier, MismatchCase>> {};

TEST_P(Mismatch, EveryRankReturnsInvalidUsageWithBothSides) {
  expectMismatch(std::get<0>(GetParam()), std::get<1>(GetParam()), "");
}

class MismatchInStreamOrGroup : public ::testing::TestWithParam<MismatchCase> {};

TEST_P(MismatchInStreamOrGroup, EveryRankReturnsInvalidUsageWithBothSides) {
  expectMismatch(kShm, GetParam(), " stream");
  expectMismatch(kShm, GetParam(), " group");
}

std::string nameOf(const MismatchCase& one) {
  std::string name = one.what;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(C23, Mismatch,
                         ::testing::Combine(::testing::Values(kShm, kTcp, kMixed22, kMixed31),
                                            ::testing::ValuesIn(kCases)),
                         [](const auto& entry) {
                           return std::string(std::get<0>(entry.param).name) + "_" +
                                  nameOf(std::get<1>(entry.param));
                         });
INSTANTIATE_TEST_SUITE_P(C23, MismatchInStreamOrGroup, ::testing::ValuesIn(kCases),
                         [](const auto& entry) { return nameOf(entry.param); });

}  // namespace
}  // namespace omnes::tests
