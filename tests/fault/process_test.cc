// What the process around a rank does: forks, takes signals, exits without a word.
#include <gtest/gtest.h>

#include "fault/fault_job.h"

namespace omnes::tests {
namespace {

struct ProcessCase {
  Carrier carrier;
  const char* scenario;
};

std::string nameOf(const ProcessCase& one) {
  std::string name = std::string(one.carrier.name) + "_" + one.scenario;
  for (char& c : name)
    if (c == '-' || c == ' ') c = '_';
  return name;
}

std::ostream& operator<<(std::ostream& out, const ProcessCase& one) { return out << nameOf(one); }

struct Ends : ::testing::TestWithParam<ProcessCase> {
  void playAndExpectSuccess() {
    const ProcessCase& one = GetParam();
    ProcessGroup group;
    group.mark();
    startJob(&group, one.carrier, one.carrier.onFirstHost == 0 ? 3 : 4, one.scenario);
    expectAll(group.waitForAll(2 * kStartLimit), {0, {}, 2 * kStartLimit});
  }
};

struct C40Signals : Ends {};
TEST_P(C40Signals, ATimerOfAMillisecondHasNoEffect) { playAndExpectSuccess(); }
INSTANTIATE_TEST_SUITE_P(Fault, C40Signals,
                         ::testing::Values(ProcessCase{kShm, "timer"}, ProcessCase{kTcp, "timer"},
                                           ProcessCase{kMixed22, "timer"},
                                           ProcessCase{kShm, "timer stream"}),
                         [](const auto& entry) { return nameOf(entry.param); });

struct C59Children : Ends {};
TEST_P(C59Children, AreRefusedAndHarmless) { playAndExpectSuccess(); }
INSTANTIATE_TEST_SUITE_P(
    Fault, C59Children,
    ::testing::Values(ProcessCase{kShm, "children"}, ProcessCase{kShm, "children stream"},
                      ProcessCase{kTcp, "children"}, ProcessCase{kMixed31, "children"},
                      ProcessCase{kShm, "child-joins"}, ProcessCase{kShm, "callback-forks"}),
    [](const auto& entry) { return nameOf(entry.param); });

struct Exit : Ends {};
TEST_P(Exit, WithoutDestroyNeitherCrashesNorHangs) { playAndExpectSuccess(); }
INSTANTIATE_TEST_SUITE_P(
    Fault, Exit,
    ::testing::Values(ProcessCase{kShm, "no-destroy"}, ProcessCase{kShm, "busy-exit"},
                      ProcessCase{kShm, "stream-exit"}, ProcessCase{kTcp, "no-destroy"},
                      ProcessCase{kTcp, "busy-exit"}, ProcessCase{kMixed22, "stream-exit"}),
    [](const auto& entry) { return nameOf(entry.param); });

// The rank that finds a failure, and hosts the meeting, ends at once: the others still learn what
// it found, and do not take its end for the cause.
TEST(Fault, FirstCauseOutlivesTheProcessThatFoundIt) {
  for (int round = 0; round < 5; ++round) {
    ProcessGroup group;
    const std::string address = freshTcpAddress();
    for (int rank = 0; rank < 3; ++rank)
      group.start({OMNES_RANK_PROGRAM, "absent-keeps"},
                  {{"OMNES_COMM_ID", address},
                   {"OMNES_NRANKS", "3"},
                   {"OMNES_RANK", std::to_string(rank)},
                   {"OMNES_TRANSPORTS", "tcp"},
                   {"OMNES_TIMEOUT_MS", rank == 0 ? "300" : "0"}});
    group.mark();
    expectAll(group.waitForAll(kStartLimit), {8, {"rank 2"}, kStartLimit});
  }
}

}  // namespace
}  // namespace omnes::tests
