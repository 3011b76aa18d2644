// Ranks that die, never come, or are only slow: everybody ends in time with the culprit's name, or
// goes on.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "fault/fault_job.h"

namespace omnes::tests {
namespace {

using std::chrono::milliseconds;

struct KillCase {
  Carrier carrier;
  int nranks;
  const char* scenario;
  int victim;
};

std::string nameOf(const KillCase& one) {
  std::string name = std::string(one.carrier.name) + "_" + std::to_string(one.nranks) + "_" +
                     one.scenario + "_" + std::to_string(one.victim);
  for (char& c : name)
    if (c == '-' || c == ' ') c = '_';
  return name;
}

std::ostream& operator<<(std::ostream& out, const KillCase& one) { return out << nameOf(one); }

class Kill : public ::testing::TestWithParam<KillCase> {};

TEST_P(Kill, AllOthersReturnRemoteErrorNamingTheRank) {
  const KillCase& one = GetParam();
  ProcessGroup group;
  startJob(&group, one.carrier, one.nranks, one.scenario);
  ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
  group.mark();
  group.kill(one.victim, SIGKILL);
  expectAll(group.waitForAll(one.carrier.deathLimit + kBeyond),
            {6, {rankText(one.victim)}, one.carrier.deathLimit}, one.victim);
}

// "forked-child": the last rank has a child that lives on.
INSTANTIATE_TEST_SUITE_P(
    C28, Kill,
    ::testing::Values(KillCase{kShm, 2, "loop", 0}, KillCase{kShm, 2, "loop", 1},
                      KillCase{kShm, 4, "loop", 0}, KillCase{kShm, 4, "loop", 3},
                      KillCase{kShm, 2, "loop-small", 0}, KillCase{kShm, 4, "loop-small", 3},
                      KillCase{kShm, 2, "forked-child", 1}, KillCase{kShm, 4, "forked-child", 3},
                      KillCase{kShm, 4, "loop stream", 0}, KillCase{kShm, 4, "loop stream", 3},
                      KillCase{kShm, 4, "loop group", 3}, KillCase{kShm, 4, "loop-small group", 0},
                      KillCase{kTcp, 2, "loop", 0}, KillCase{kTcp, 4, "loop", 0},
                      KillCase{kTcp, 4, "loop", 3}, KillCase{kTcp, 4, "loop-small", 3},
                      KillCase{kTcp, 4, "forked-child", 3}, KillCase{kTcp, 4, "loop stream", 0},
                      KillCase{kTcp, 4, "loop group", 3}, KillCase{kMixed22, 4, "loop", 0},
                      KillCase{kMixed22, 4, "loop", 3}, KillCase{kMixed22, 4, "loop-small", 1},
                      KillCase{kMixed31, 4, "loop", 0}, KillCase{kMixed31, 4, "forked-child", 3},
                      KillCase{kMixed31, 4, "loop-small stream", 1},
                      KillCase{kShm, 4, "messages", 3}, KillCase{kShm, 4, "messages-small", 0},
                      KillCase{kTcp, 4, "messages", 0}, KillCase{kTcp, 2, "messages-small", 1},
                      KillCase{kMixed31, 4, "messages stream", 3},
                      KillCase{kMixed22, 4, "messages-small stream", 1}),
    [](const auto& entry) { return nameOf(entry.param); });

struct OverCarrier : ::testing::TestWithParam<Carrier> {};

TEST_P(OverCarrier, RankThatNeverCallsIsNamedByTimeout) {
  const int nranks = GetParam().onFirstHost == 0 ? 3 : 4;
  ProcessGroup group;
  startJob(&group, GetParam(), nranks, "absent", {{"OMNES_TIMEOUT_MS", "500"}});
  ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
  group.mark();
  const milliseconds limit = milliseconds(500) + GetParam().deathLimit;
  const auto& results = group.waitForAll(limit + kBeyond);
  expectAll(results, {8, {rankText(nranks - 1)}, limit});
  // The first to time out has written the text that all have.
  EXPECT_NE(results[0].output.find("has not entered it"), std::string::npos) << results[0].output;
  EXPECT_NE(results[0].output.find("the last operations"), std::string::npos) << results[0].output;
}

TEST_P(OverCarrier, RankThatNeverJoinsIsNamedByTimeout) {
  const int nranks = GetParam().onFirstHost == 0 ? 3 : 4;
  ProcessGroup group;
  group.mark();
  startJob(&group, GetParam(), nranks, "loop", {{"OMNES_INIT_TIMEOUT_MS", "500"}}, {1});
  const milliseconds limit = milliseconds(500) + GetParam().deathLimit;
  expectAll(group.waitForAll(limit + kBeyond), {8, {"rank 1 of " + std::to_string(nranks)}, limit});
}

// Longer than any death takes to be noticed, and nobody is called dead.
TEST_P(OverCarrier, RankThatIsStoppedAndResumedIsOnlySlow) {
  const int nranks = GetParam().onFirstHost == 0 ? 3 : 4;
  // Two jobs at once, since most of the time is waiting.
  const int stopped[] = {0, nranks - 1};
  ProcessGroup groups[2];
  for (ProcessGroup& group : groups) startJob(&group, GetParam(), nranks, "steady");
  for (ProcessGroup& group : groups)
    ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
  for (int i : {0, 1}) groups[i].kill(stopped[i], SIGSTOP);
  for (ProcessGroup& group : groups) group.keepFor(milliseconds(1250));
  for (int i : {0, 1}) {
    groups[i].keepFor(milliseconds(50));  // what the other one's turn has missed
    for (const ProcessResult& result : groups[i].results())
      EXPECT_FALSE(result.hasEnded) << result.output;
    groups[i].kill(stopped[i], SIGCONT);
    groups[i].kill(0, SIGUSR1);
    groups[i].mark();
    expectAll(groups[i].waitForAll(kStartLimit), {0, {"all sums are right"}, kStartLimit});
  }
}

TEST_P(OverCarrier, RankThatLeftIsNamedWhenNeeded) {
  const int nranks = GetParam().onFirstHost == 0 ? 3 : 4;
  ProcessGroup group;
  startJob(&group, GetParam(), nranks, "leave");
  ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
  group.mark();
  const milliseconds limit = GetParam().deathLimit;
  const auto& results = group.waitForAll(limit + kBeyond);
  for (int rank = 0; rank < nranks - 1; ++rank)
    expectEnd(results[rank], rank, {6, {rankText(nranks - 1)}, limit});
  expectEnd(results[nranks - 1], nranks - 1, {0, {"left"}, limit});
}

INSTANTIATE_TEST_SUITE_P(Fault, OverCarrier, ::testing::Values(kShm, kTcp, kMixed22, kMixed31),
                         [](const auto& entry) { return entry.param.name; });

// A rank that cannot be connected, for a reason of its own, ends the others' waits with that
// reason.
TEST(Fault, RankThatFailsWhileJoiningIsNamedByAll) {
  // Enough descriptors to meet, not enough to connect to the others.
  for (const int limit : {10, 11, 12}) {
    SCOPED_TRACE(limit);
    const std::string few = "--nofile=" + std::to_string(limit) + ":" + std::to_string(limit);
    ProcessGroup group;
    const std::string address = freshAddress();
    const auto start = [&](int rank, std::vector<std::string> command) {
      group.start(command, {{"OMNES_COMM_ID", address},
                            {"OMNES_NRANKS", "3"},
                            {"OMNES_RANK", std::to_string(rank)}});
    };
    start(0, playing("few-calls"));
    start(1, {"/usr/bin/prlimit", few, OMNES_RANK_PROGRAM, "few-calls"});
    start(2, playing("few-calls"));
    group.mark();
    const auto& results = group.waitForAll(kStartLimit);
    for (const int rank : {0, 1, 2})
      expectEnd(results[rank], rank, {rank == 1 ? 2 : 6, {"ulimit -n"}, kShm.deathLimit});
  }
}

// As in containers: a rank whose process id means nothing to the others.
TEST(Fault, RanksInOtherProcessNamespacesAreNotTakenForDead) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for unshare --pid";
  ProcessGroup group;
  const std::string address = freshAddress();
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<std::string> command = playing("few-calls");
    if (rank != 1) command.insert(command.begin(), {"/usr/bin/unshare", "--pid", "--fork"});
    group.start(
        command,
        {{"OMNES_COMM_ID", address}, {"OMNES_NRANKS", "3"}, {"OMNES_RANK", std::to_string(rank)}});
  }
  expectAll(group.waitForAll(kStartLimit), {0, {"running"}, kStartLimit});
}

}  // namespace
}  // namespace omnes::tests
