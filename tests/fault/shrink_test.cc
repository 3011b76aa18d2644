// Ranks die, also the one that hosts the control star, also two at once: the survivors agree, go on
// without them, and grow back.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fault/fault_job.h"

namespace omnes::tests {
namespace {

using std::chrono::milliseconds;

constexpr int kRanks = 8;
// From the deaths to the first sum without the dead, over shared memory or the network.
constexpr milliseconds kRecovery{2000 * kSlack};

struct Deaths {
  Carrier carrier;
  std::vector<int> victims;
};

std::string nameOf(const Deaths& one) {
  std::string name = one.carrier.name;
  for (const int victim : one.victims) name += "_" + std::to_string(victim);
  return name;
}

std::ostream& operator<<(std::ostream& out, const Deaths& one) { return out << nameOf(one); }

class Shrink : public ::testing::TestWithParam<Deaths> {};

bool isVictim(int rank) {
  const auto& victims = Shrink::GetParam().victims;
  return std::find(victims.begin(), victims.end(), rank) != victims.end();
}

TEST_P(Shrink, SurvivorsGoOnAndGrowBack) {
  const Deaths& one = GetParam();
  ProcessGroup group;
  startJob(&group, one.carrier, kRanks, "survive");
  ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
  const auto start = std::chrono::steady_clock::now();
  group.mark();
  for (const int victim : one.victims) group.kill(static_cast<size_t>(victim), SIGKILL);
  const int left = kRanks - static_cast<int>(one.victims.size());
  const std::string sum = "sum " + std::to_string(left) + " of " + std::to_string(left) + " ranks";
  std::string without = "without";
  for (const int victim : one.victims) without += " " + std::to_string(victim);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (isVictim(rank)) continue;
    const auto index = static_cast<size_t>(rank);
    EXPECT_TRUE(group.waitForTextOf(index, sum, kRecovery)) << group.results()[index].output;
    EXPECT_TRUE(group.waitForTextOf(index, without, kRecovery)) << group.results()[index].output;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, kRecovery);
  // The lowest survivor makes the id.
  size_t host = 0;
  while (isVictim(static_cast<int>(host))) ++host;
  ASSERT_TRUE(group.waitForTextOf(host, " end", kStartLimit)) << group.results()[host].output;
  const std::string& output = group.results()[host].output;
  const size_t at = output.find("id ");
  const std::string id = output.substr(at + 3, output.find(" end", at) - at - 3);
  for (int rank = left; rank < kRanks; ++rank) {
    Environment environment = one.carrier.environmentOf(rank);
    environment["OMNES_TEST_ID"] = id;
    environment["OMNES_TEST_NRANKS"] = std::to_string(kRanks);
    environment["OMNES_TEST_RANK"] = std::to_string(rank);
    group.start(playing("newcomer"), environment);
  }
  const auto& results = group.waitForAll(kStartLimit);
  for (size_t index = 0; index < results.size(); ++index)
    if (index >= kRanks || !isVictim(static_cast<int>(index)))
      expectEnd(results[index], static_cast<int>(index), {0, {"sum 8 of 8 ranks"}, kStartLimit});
}

INSTANTIATE_TEST_SUITE_P(Fault, Shrink,
                         ::testing::Values(Deaths{kShm, {3}}, Deaths{kShm, {0}},
                                           Deaths{kShm, {0, 1}}, Deaths{kShm, {2, 7}},
                                           Deaths{kTcp, {0}}, Deaths{kTcp, {0, 5}},
                                           Deaths{kMixed22, {0, 3}}, Deaths{kMixed31, {2}}),
                         [](const auto& entry) { return nameOf(entry.param); });

}  // namespace
}  // namespace omnes::tests
