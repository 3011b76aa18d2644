// C23: ranks that call different things. Every rank returns omnesInvalidUsage with both sides, and
// no output is touched (which the rank program checks).
#include <gtest/gtest.h>

#include "fault/fault_job.h"

namespace omnes::tests {
namespace {

struct MismatchCase {
  const char* what;
  const char* most;  // what all ranks but the last call, as a regular expression
  const char* last;
};

constexpr MismatchCase kCases[] = {
    {"count", "409600 float32", "409598 float32"},
    {"many-slices", "409600 float32", "32768000 float32"},
    {"slices", "409600 float32", "819200 float32"},
    {"small", "100 float32", "98 float32"},
    {"type", "409600 float32", "409600 float16"},
    {"op", "409600 float32, sum", "409600 float32, max"},
    {"order", "AllReduce #2 of 409600 float32", "Barrier #2"},
    {"collective", "AllReduce #2 of 409600 float32", "ReduceScatter #2 of 16 float32"},
};

class Mismatch : public ::testing::TestWithParam<std::tuple<Carrier, MismatchCase>> {};

TEST_P(Mismatch, EveryRankReturnsInvalidUsageWithBothSides) {
  const auto& [carrier, one] = GetParam();
  // The way does not change the contract: dealt out over the cases, all over shared memory.
  const bool isShm = carrier.onFirstHost == 0 && carrier.transports == nullptr;
  for (const char* way : {"", " stream", " group"}) {
    if (!isShm && *way != '\0') continue;
    SCOPED_TRACE(way);
    const int nranks = carrier.onFirstHost == 0 ? 3 : 4;
    ProcessGroup group;
    startJob(&group, carrier, nranks, std::string("mismatch-") + one.what + way);
    ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
    group.mark();
    const std::string called = " called .*";
    expectAll(group.waitForAll(kMismatchLimit + kBeyond),
              {5,
               {rankText(nranks - 1) + "[^;]*" + called + one.last,
                "rank [0-" + std::to_string(nranks - 2) + "]\\b[^;]*" + called + one.most},
               kMismatchLimit});
  }
}

INSTANTIATE_TEST_SUITE_P(C23, Mismatch,
                         ::testing::Combine(::testing::Values(kShm, kTcp, kMixed22, kMixed31),
                                            ::testing::ValuesIn(kCases)),
                         [](const auto& entry) {
                           std::string name = std::string(std::get<0>(entry.param).name) + "_" +
                                              std::get<1>(entry.param).what;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace omnes::tests
