// Aborts: they return within a second, whatever state the peers are in, and leave no access to the
// caller's buffers behind. The rank program measures the time of the call itself.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>

#include "fault/fault_job.h"

namespace omnes::tests {
namespace {

using std::chrono::milliseconds;

// Each "abort CODE after N ms" of the output.
struct Abort {
  int code;
  long ms;
};

std::vector<Abort> abortsOf(const ProcessResult& result) {
  std::vector<Abort> all;
  for (size_t at = result.output.find("abort "); at != std::string::npos;
       at = result.output.find("abort ", at + 1)) {
    Abort one;
    if (std::sscanf(result.output.c_str() + at, "abort %d after %ld ms", &one.code, &one.ms) == 2)
      all.push_back(one);
  }
  return all;
}

void expectAborts(const ProcessResult& result, int rank, size_t count) {
  const std::vector<Abort> all = abortsOf(result);
  EXPECT_EQ(all.size(), count) << "rank " << rank << ": " << result.output;
  for (const Abort& one : all) {
    EXPECT_EQ(one.code, 0) << "rank " << rank << ": " << result.output;
    EXPECT_LT(one.ms, kAbortLimit.count()) << "rank " << rank << ": " << result.output;
  }
}

struct PeerCase {
  int peer;  // 0 hosts the meeting
  const char* scenario;
};

struct Aborts : ::testing::TestWithParam<Carrier> {
  int nranks() const { return GetParam().onFirstHost == 0 ? 3 : 4; }
  int last() const { return nranks() - 1; }
  void abortBesideStopped(std::initializer_list<PeerCase> cases) const;
  // Ends what the scenario is to do anyway when its call has failed.
  void signalAll(ProcessGroup* group, int except = -1) const {
    for (int rank = 0; rank < nranks(); ++rank)
      if (rank != except) group->kill(rank, SIGUSR1);
  }
};

// One rank does not call, the others are inside a call.
TEST_P(Aborts, OfAnIdleRankEndAllOthers) {
  ProcessGroup group;
  startJob(&group, GetParam(), nranks(), "abort-idle");
  ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
  group.mark();
  group.kill(last(), SIGUSR1);
  const auto& results = group.waitForAll(kAbortLimit + kBeyond);
  for (int rank = 0; rank < last(); ++rank)
    expectEnd(results[rank], rank, {6, {rankText(last()) + ".* aborted"}, kAbortLimit});
  expectEnd(results[last()], last(), {0, {"aborted"}, kAbortLimit});
  expectAborts(results[last()], last(), 1);
}

// A peer is killed and the others abort at once, whether they have noticed or not.
TEST_P(Aborts, C28BesideADeadPeer) {
  for (const PeerCase& one : {PeerCase{0, "abort"}, PeerCase{last(), "abort-big"}}) {
    SCOPED_TRACE(one.scenario + std::string(" dead ") + std::to_string(one.peer));
    ProcessGroup group;
    startJob(&group, GetParam(), nranks(), one.scenario);
    ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
    group.mark();
    group.kill(one.peer, SIGKILL);
    signalAll(&group, one.peer);
    const auto& results = group.waitForAll(GetParam().deathLimit + kAbortLimit + kBeyond);
    for (int rank = 0; rank < nranks(); ++rank) {
      if (rank == one.peer) continue;
      expectEnd(results[rank], rank, {6, {}, GetParam().deathLimit + kAbortLimit});
      expectAborts(results[rank], rank, 1);
    }
  }
}

// A stopped peer answers nothing. Buffers are freed as soon as the abort has returned; the peer is
// then resumed and must end with an error, and not by touching what is gone.
void Aborts::abortBesideStopped(std::initializer_list<PeerCase> cases) const {
  for (const PeerCase& one : cases) {
    SCOPED_TRACE(one.scenario + std::string(" stopped ") + std::to_string(one.peer));
    ProcessGroup group;
    startJob(&group, GetParam(), nranks(), one.scenario);
    ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
    group.kill(one.peer, SIGSTOP);
    group.mark();
    signalAll(&group, one.peer);
    EXPECT_TRUE(group.waitForText("result", kAbortLimit + kBeyond, one.peer));
    group.kill(one.peer, SIGCONT);
    const auto& results = group.waitForAll(kAbortLimit + GetParam().deathLimit + kBeyond);
    for (int rank = 0; rank < nranks(); ++rank) {
      expectEnd(results[rank], rank, {6, {"rank"}, kAbortLimit + GetParam().deathLimit});
      if (rank != one.peer) expectAborts(results[rank], rank, 1);
    }
  }
}

TEST_P(Aborts, BesideAStoppedPeer) {
  abortBesideStopped({{0, "abort"}, {0, "abort-big"}, {last(), "abort-big"}});
}

TEST_P(Aborts, OfAStreamBesideAStoppedPeer) { abortBesideStopped({{last(), "abort stream"}}); }

// One of the others aborts while the host of the meeting is stopped. Through shared memory the rest
// hear of it at once; over TCP news of ranks that a call does not wait for go through the host, so
// that they may come when that is resumed, and no later.
TEST_P(Aborts, ReachTheOthersPastAStoppedHost) {
  ProcessGroup group;
  startJob(&group, GetParam(), nranks(), "abort");
  ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
  group.kill(0, SIGSTOP);
  group.mark();
  group.kill(last(), SIGUSR1);
  if (GetParam().onFirstHost == 0 && GetParam().transports == nullptr) {
    EXPECT_TRUE(group.waitForText("ended", kAbortLimit, 0));
  } else {
    EXPECT_TRUE(group.waitForTextOf(last(), "abort 0", kAbortLimit + kBeyond));
  }
  group.kill(0, SIGCONT);
  const auto& results = group.waitForAll(kAbortLimit + GetParam().deathLimit + kBeyond);
  for (int rank = 0; rank < nranks(); ++rank)
    expectEnd(results[rank], rank, {6, {}, kAbortLimit + GetParam().deathLimit});
}

TEST_P(Aborts, TwiceIsRefusedAndHarmless) {
  ProcessGroup group;
  startJob(&group, GetParam(), nranks(), "abort-twice");
  ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
  group.kill(0, SIGSTOP);
  signalAll(&group, 0);
  EXPECT_TRUE(group.waitForText("result", kAbortLimit + kBeyond, 0));
  group.kill(0, SIGCONT);
  const auto& results = group.waitForAll(kStartLimit);
  for (int rank = 1; rank < nranks(); ++rank) {
    const std::vector<Abort> all = abortsOf(results[rank]);
    ASSERT_EQ(all.size(), 2u) << results[rank].output;
    EXPECT_EQ(all[0].code, 0) << results[rank].output;
    EXPECT_EQ(all[1].code, 4) << results[rank].output;
  }
}

TEST_P(Aborts, C28OfTwoCommunicatorsInBothOrdersAfterADeath) {
  for (const char* scenario : {"abort-first-second", "abort-second-first"}) {
    SCOPED_TRACE(scenario);
    ProcessGroup group;
    startJob(&group, GetParam(), nranks(), scenario);
    ASSERT_TRUE(group.waitForText("running", kStartLimit)) << group.results()[0].output;
    group.mark();
    group.kill(1, SIGKILL);
    signalAll(&group, 1);
    const milliseconds limit = GetParam().deathLimit + 2 * kAbortLimit;
    const auto& results = group.waitForAll(limit + kBeyond);
    for (int rank = 0; rank < nranks(); ++rank) {
      if (rank == 1) continue;
      expectEnd(results[rank], rank, {6, {}, limit});
      expectAborts(results[rank], rank, 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, Aborts, ::testing::Values(kShm, kTcp, kMixed22, kMixed31),
                         [](const auto& entry) { return entry.param.name; });

TEST(Fault, AbortDuringInitReturnsAtOnce) {
  ProcessGroup group;
  group.start(playing("abort-init"), {});
  group.mark();
  const auto& results = group.waitForAll(kStartLimit + kBeyond);
  expectEnd(results[0], 0, {0, {"all were ended"}, kStartLimit});
  expectAborts(results[0], 0, 4);
}

}  // namespace
}  // namespace omnes::tests
