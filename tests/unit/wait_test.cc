#include "base/wait.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "base/cpus.h"
#include "base/thread.h"

namespace omnes::base {
namespace {

using Stage = WaitLadder::Stage;

TEST(WaitPolicy, SpinsOnlyWhenEveryRankHasACore) {
  EXPECT_EQ(WaitPolicy::choose(8, 2, -1, 10).spinPolls, 0u);
  EXPECT_EQ(WaitPolicy::choose(2, 2, -1, 10).spinPolls, 2000u);
  EXPECT_EQ(WaitPolicy::choose(2, 64, -1, 40).spinPolls, 500u);
  EXPECT_GT(WaitPolicy::choose(8, 2, -1, 10).yields, 0u);
}

TEST(WaitPolicy, OverrideWins) {
  EXPECT_EQ(WaitPolicy::choose(8, 2, 123, 10).spinPolls, 123u);
  EXPECT_EQ(WaitPolicy::choose(1, 2, 0, 10).spinPolls, 0u);
}

TEST(WaitLadder, ClimbsAndStartsAgain) {
  WaitLadder ladder({.spinPolls = 3, .yields = 2});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(ladder.next(), Stage::kSpin);
    EXPECT_EQ(ladder.next(), Stage::kSpin);
    EXPECT_EQ(ladder.next(), Stage::kSpin);
    EXPECT_EQ(ladder.next(), Stage::kYield);
    EXPECT_EQ(ladder.next(), Stage::kYield);
    EXPECT_EQ(ladder.next(), Stage::kSleep);
    EXPECT_EQ(ladder.next(), Stage::kSleep);
    ladder.reset();
  }
}

TEST(WaitLadder, YieldsAtTheFirstMissWithoutSpins) {
  WaitLadder ladder({.spinPolls = 0, .yields = 1});
  EXPECT_EQ(ladder.next(), Stage::kYield);
}

TEST(WaitLadder, ChecksNowAndThen) {
  WaitLadder ladder({.spinPolls = 10000, .yields = 200});
  int spinChecks = 0, yieldChecks = 0;
  for (;;) {
    const Stage stage = ladder.next();
    if (stage == Stage::kSleep) break;
    (stage == Stage::kSpin ? spinChecks : yieldChecks) += ladder.timeToCheck();
  }
  EXPECT_EQ(spinChecks, 2);
  EXPECT_EQ(yieldChecks, 3);
  EXPECT_TRUE(ladder.timeToCheck());
  EXPECT_EQ(ladder.next(), Stage::kSleep);
  EXPECT_TRUE(ladder.timeToCheck());
}

TEST(Pause, CostsSomethingButNotMuch) {
  EXPECT_GE(pauseNanoseconds(), 1.0);
  EXPECT_LT(pauseNanoseconds(), 1e6);
}

TEST(Cpus, CountsAgree) {
  EXPECT_GE(onlineCpus(), 1);
  EXPECT_FALSE(allowedCpus().empty());
  EXPECT_GE(usableCores(), 1);
  EXPECT_LE(usableCores(), static_cast<int>(allowedCpus().size()));
}

TEST(Cpus, FollowTheAffinityMask) {
  cpu_set_t saved, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof saved, &saved), 0);
  const int core = allowedCpus().back();
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const auto allowed = allowedCpus();
  const int usable = usableCores();
  ASSERT_EQ(sched_setaffinity(0, sizeof saved, &saved), 0);
  EXPECT_EQ(allowed, std::vector<int>{core});
  EXPECT_EQ(usable, 1);
}

// As launchers bind ranks: a core each is no shortage.
TEST(Cpus, CoresOfPeersCount) {
  const auto all = allowedCpus();
  if (all.size() < 2) GTEST_SKIP() << "needs two cores";
  cpu_set_t saved;
  ASSERT_EQ(sched_getaffinity(0, sizeof saved, &saved), 0);
  const auto bindTo = [](int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof one, &one);
  };
  int bound[2], done[2];
  ASSERT_EQ(pipe2(bound, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(done, O_CLOEXEC), 0);
  auto peer = Thread::start("peer", [&] {
    pid_t id = bindTo(all[1]) == 0 ? gettid() : -1;
    EXPECT_EQ(write(bound[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
    char byte;
    EXPECT_EQ(read(done[0], &byte, 1), 0);
  });
  ASSERT_TRUE(peer.isOk());
  pid_t id = -1;
  ASSERT_EQ(read(bound[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  ASSERT_EQ(bindTo(all[0]), 0);
  const auto theirs = allowedCpus(id);
  const int alone = usableCores();
  const pid_t peers[] = {id};
  const int together = usableCores(peers);
  ASSERT_EQ(sched_setaffinity(0, sizeof saved, &saved), 0);
  close(done[1]);
  peer.value().join();
  for (const int fd : {bound[0], bound[1], done[0]}) close(fd);
  EXPECT_EQ(theirs, std::vector<int>{all[1]});
  EXPECT_EQ(alone, 1);
  EXPECT_EQ(together, std::min(2, cpuQuota().value_or(2)));
}

TEST(Cpus, QuotasRoundUp) {
  using internal::quotaFromV1;
  using internal::quotaFromV2;
  EXPECT_EQ(quotaFromV2("200000 100000\n"), 2);
  EXPECT_EQ(quotaFromV2("150000 100000\n"), 2);
  EXPECT_EQ(quotaFromV2("5000 100000"), 1);
  EXPECT_EQ(quotaFromV2("max 100000\n"), std::nullopt);
  EXPECT_EQ(quotaFromV2(""), std::nullopt);
  EXPECT_EQ(quotaFromV1("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(quotaFromV1("350000\n", "100000\n"), 4);
  EXPECT_EQ(quotaFromV1("1", "0"), std::nullopt);
}

}  // namespace
}  // namespace omnes::base
