// Ranks that die, never come, or call something else: everybody ends, in time, with the name of the
// culprit.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "multiproc/process_group.h"

namespace omnes::tests {
namespace {

using std::chrono::milliseconds;

// Ranks share cores here: the promised bounds times five (docs/CONTRIBUTING.md).
constexpr int kSlack = 5;
constexpr milliseconds kDeathLimit{1000 * kSlack};
constexpr milliseconds kStartLimit{20000};

const char* program() { return OMNES_RANK_PROGRAM; }

int codeOf(const ProcessResult& result) {
  const size_t at = result.output.find("result ");
  return at == std::string::npos ? -1 : std::atoi(result.output.c_str() + at + 7);
}

// All ranks but `except` ended by themselves with the code, within the limit, naming `name`.
void expectAll(const std::vector<ProcessResult>& results, int code, const std::string& name,
               milliseconds limit, int except = -1) {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    if (static_cast<int>(rank) == except) continue;
    const ProcessResult& result = results[rank];
    EXPECT_TRUE(result.hasEnded) << "rank " << rank << " hangs: " << result.output;
    EXPECT_EQ(result.signal, 0) << "rank " << rank << ": " << result.output;
    EXPECT_EQ(codeOf(result), code) << "rank " << rank << ": " << result.output;
    EXPECT_NE(result.output.find(name), std::string::npos)
        << "rank " << rank << ": " << result.output;
    EXPECT_LT(result.endedAfter, limit) << "rank " << rank;
  }
}

class Kill : public ::testing::TestWithParam<const char*> {};

TEST_P(Kill, AllOthersReturnRemoteErrorNamingTheRank) {
  for (const int nranks : {2, 4}) {
    for (const int victim : {0, nranks - 1}) {
      // Only the last rank of "forked-child" has the child.
      if (std::string(GetParam()) == "forked-child" && victim == 0) continue;
      SCOPED_TRACE("victim " + std::to_string(victim) + " of " + std::to_string(nranks));
      ProcessGroup group;
      group.startRanks(nranks, {program(), GetParam()});
      ASSERT_TRUE(group.waitForText("running", kStartLimit));
      group.mark();
      group.kill(victim, SIGKILL);
      const auto& results = group.waitForAll(kDeathLimit + milliseconds(5000));
      expectAll(results, 6, "rank " + std::to_string(victim), kDeathLimit, victim);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, Kill, ::testing::Values("loop", "loop-small", "forked-child"));

TEST(Fault, RankThatNeverCallsIsNamedByTimeout) {
  ProcessGroup group;
  group.startRanks(3, {program(), "absent"}, {{"OMNES_TIMEOUT_MS", "500"}});
  ASSERT_TRUE(group.waitForText("running", kStartLimit));
  group.mark();
  const auto& results = group.waitForAll(kDeathLimit + milliseconds(5500));
  expectAll(results, 8, "rank 2", milliseconds(500) + kDeathLimit);
  EXPECT_NE(results[0].output.find("has not entered it"), std::string::npos) << results[0].output;
  EXPECT_NE(results[0].output.find("the last operations"), std::string::npos) << results[0].output;
}

TEST(Fault, RankThatNeverJoinsIsNamedByTimeout) {
  ProcessGroup group;
  const std::string address = freshAddress();
  group.mark();
  for (const char* rank : {"0", "2"})
    group.start({program(), "loop"}, {{"OMNES_COMM_ID", address},
                                      {"OMNES_NRANKS", "3"},
                                      {"OMNES_RANK", rank},
                                      {"OMNES_INIT_TIMEOUT_MS", "500"}});
  const auto& results = group.waitForAll(kDeathLimit + milliseconds(5500));
  expectAll(results, 8, "rank 1 of 3", milliseconds(500) + kDeathLimit);
}

class Mismatch : public ::testing::TestWithParam<const char*> {};

TEST_P(Mismatch, EveryRankReturnsInvalidUsageWithBothSides) {
  ProcessGroup group;
  group.startRanks(3, {program(), std::string("mismatch-") + GetParam()});
  ASSERT_TRUE(group.waitForText("ready", kStartLimit));
  group.mark();
  const auto& results = group.waitForAll(kDeathLimit + milliseconds(5000));
  expectAll(results, 5, " called ", kDeathLimit);
  for (const auto& result : results) {
    EXPECT_NE(result.output.find("rank 2 "), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("AllReduce #2 of "), std::string::npos) << result.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, Mismatch,
                         ::testing::Values("count", "small", "slices", "type", "op", "order",
                                           "collective"));

TEST(Fault, AbortFromAnotherThreadEndsAllRanks) {
  ProcessGroup group;
  group.startRanks(3, {program(), "abort"});
  ASSERT_TRUE(group.waitForText("running", kStartLimit));
  group.mark();
  const auto& results = group.waitForAll(kDeathLimit + milliseconds(5000));
  expectAll(results, 6, "abort", kDeathLimit);
}

TEST(Fault, RankThatLeftIsNamedWhenNeeded) {
  ProcessGroup group;
  group.startRanks(3, {program(), "leave"});
  ASSERT_TRUE(group.waitForText("running", kStartLimit));
  group.mark();
  const auto& results = group.waitForAll(kDeathLimit + milliseconds(5000));
  expectAll({results[0], results[1]}, 6, "rank 2", kDeathLimit);
  EXPECT_EQ(codeOf(results[2]), 0) << results[2].output;
}

TEST(Fault, ForkedChildIsRefusedAndHarmless) {
  ProcessGroup group;
  group.startRanks(3, {program(), "child-destroys"});
  const auto& results = group.waitForAll(kStartLimit);
  expectAll(results, 0, "running", kStartLimit);
}

// A rank that cannot be connected, for a reason of its own, ends the others' waits with that
// reason.
TEST(Fault, RankThatFailsWhileJoiningIsNamedByAll) {
  ProcessGroup group;
  const std::string address = freshAddress();
  const auto start = [&](int rank, std::vector<std::string> command) {
    group.start(
        command,
        {{"OMNES_COMM_ID", address}, {"OMNES_NRANKS", "3"}, {"OMNES_RANK", std::to_string(rank)}});
  };
  start(0, {program(), "few-calls"});
  // Enough descriptors to meet, not enough to connect to the others.
  start(1, {"/usr/bin/prlimit", "--nofile=10:10", program(), "few-calls"});
  start(2, {program(), "few-calls"});
  group.mark();
  const auto& results = group.waitForAll(kStartLimit);
  for (const auto& result : results) {
    EXPECT_TRUE(result.hasEnded);
    EXPECT_EQ(result.signal, 0) << result.output;
    EXPECT_LT(result.endedAfter, kDeathLimit) << result.output;
    EXPECT_NE(result.output.find("ulimit -n"), std::string::npos) << result.output;
  }
  EXPECT_EQ(codeOf(results[1]), 2) << results[1].output;
  EXPECT_EQ(codeOf(results[0]), 6) << results[0].output;
  EXPECT_EQ(codeOf(results[2]), 6) << results[2].output;
}

// As in containers: a rank whose process id means nothing to the others.
TEST(Fault, RanksInOtherProcessNamespacesAreNotTakenForDead) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for unshare --pid";
  ProcessGroup group;
  const std::string address = freshAddress();
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<std::string> command = {program(), "few-calls"};
    if (rank != 1) command.insert(command.begin(), {"/usr/bin/unshare", "--pid", "--fork"});
    group.start(
        command,
        {{"OMNES_COMM_ID", address}, {"OMNES_NRANKS", "3"}, {"OMNES_RANK", std::to_string(rank)}});
  }
  const auto& results = group.waitForAll(kStartLimit);
  expectAll(results, 0, "running", kStartLimit);
}

TEST(Fault, ExitWithoutDestroyNeitherCrashesNorHangs) {
  ProcessGroup group;
  group.startRanks(3, {program(), "no-destroy"});
  const auto& results = group.waitForAll(kStartLimit);
  for (const auto& result : results) {
    EXPECT_TRUE(result.hasEnded);
    EXPECT_EQ(result.exitCode, 0) << result.output;
    EXPECT_EQ(codeOf(result), 0) << result.output;
  }
}

}  // namespace
}  // namespace omnes::tests
