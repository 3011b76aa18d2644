// Ranks that meet over a notice board: PMIx without PMIx.
#include "core/bootstrap/pmix_meeting.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

#include "base/event.h"
#include "core/bootstrap/meeting_host.h"
#include "bootstrap_ranks.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

// A board of this process; `refusal` is what it answers instead of doing its work.
class Board {
 public:
  NoticeBoard board() {
    return {[this](const std::string& name, const std::string& bytes) -> Status {
              const std::lock_guard<std::mutex> lock(mutex_);
              if (!refusal.isOk()) return refusal;
              notices[name] = bytes;
              return Status::ok();
            },
            [this](const std::string& name) -> Result<std::optional<std::string>> {
              const std::lock_guard<std::mutex> lock(mutex_);
              ++looks;
              if (!refusal.isOk()) return refusal;
              const auto found = notices.find(name);
              if (found == notices.end()) return std::optional<std::string>();
              return std::optional<std::string>(found->second);
            }};
  }

  std::map<std::string, std::string> notices;
  Status refusal;
  int looks = 0;

 private:
  std::mutex mutex_;
};

const base::Clock& theClock() { return base::Clock::monotonic(); }
WaitLimits within(int64_t ms) { return {base::Deadline::afterMs(theClock(), ms), &theClock()}; }
constexpr int64_t kLongMs = 20000;
const IdOptions kLocal{true, {}, ""};

Result<std::optional<MeetingPoint>> meet(Board& board, bool isRankZero,
                                         const WaitLimits& limits = within(kLongMs)) {
  return meetByBoard(board.board(), "meeting.0", isRankZero, kLocal, limits);
}

TEST(PmixMeeting, RanksMeetWhereRankZeroSays) {
  Board board;
  std::thread other([&] {  // it comes first, and waits
    const auto point = meet(board, false);
    ASSERT_TRUE(point.isOk() && point.value().has_value());
    EXPECT_TRUE(join(*point.value(), {.rank = 1, .nranks = 2}).isOk());
  });
  const auto point = meet(board, true);
  ASSERT_TRUE(point.isOk() && point.value().has_value());
  EXPECT_FALSE(point.value()->isSecretDerived);
  EXPECT_FALSE(point.value()->isHostedByRankZero);
  EXPECT_TRUE(join(*point.value(), {.rank = 0, .nranks = 2}).isOk());
  other.join();
}

TEST(PmixMeeting, BoardThatCannotPublishIsLeftByAllRanks) {
  Board board;
  board.refusal = Status(Code::kNotSupported, "no publishing here");
  const int hosts = MeetingHost::running();
  for (const bool isRankZero : {true, false}) {
    const auto point = meet(board, isRankZero);
    ASSERT_TRUE(point.isOk()) << point.status().message();
    EXPECT_FALSE(point.value().has_value());
  }
  // The host that was to be published ends.
  const auto end = base::Deadline::afterMs(theClock(), kLongMs);
  while (MeetingHost::running() > hosts && !end.hasPassed(theClock()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LE(MeetingHost::running(), hosts);  // less: one of an earlier test has ended meanwhile
}

TEST(PmixMeeting, AnyOtherFailureIsAnError) {
  Board board;
  board.refusal = Status(Code::kSystemError, "the board burns");
  for (const bool isRankZero : {true, false})
    EXPECT_EQ(meet(board, isRankZero).status().code(), Code::kSystemError);
}

TEST(PmixMeeting, FailureOfRankZeroReachesTheOthers) {
  Board board;
  const IdOptions nowhere{false, {.interfaces = "nosuch0"}, ""};
  const auto zero = meetByBoard(board.board(), "meeting.0", true, nowhere, within(kLongMs));
  ASSERT_FALSE(zero.isOk());
  const Status other = meet(board, false).status();
  EXPECT_EQ(other.code(), Code::kRemoteError);
  EXPECT_NE(other.message().find("rank 0 could not open a meeting"), std::string::npos);
  EXPECT_NE(other.message().find("nosuch0"), std::string::npos) << other.message();
}

TEST(PmixMeeting, RankZeroThatNeverComesIsATimeout) {
  Board board;
  const Status status = meet(board, false, within(50)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_NE(status.message().find("rank 0 has not said"), std::string::npos) << status.message();
  EXPECT_GT(board.looks, 1);
}

TEST(PmixMeeting, AbortEndsTheWait) {
  Board board;
  auto abort = base::EventFd::open();
  ASSERT_TRUE(abort.isOk());
  WaitLimits limits = within(kLongMs);
  limits.abortFd = abort.value().fd();
  abort.value().signal();
  EXPECT_EQ(meet(board, false, limits).status().code(), Code::kInvalidUsage);
}

TEST(PmixMeeting, WhatIsNoNoticeIsRefused) {
  Board board;
  for (const std::string& bytes : {std::string(), std::string("i"), std::string(129, 'x'),
                                   std::string(1, 'i') + std::string(128, 'x'), std::string("f")}) {
    board.notices["meeting.0"] = bytes;
    const Status status = meet(board, false).status();
    EXPECT_TRUE(status.code() == Code::kInvalidUsage || status.code() == Code::kInvalidArgument)
        << bytes.size() << ": " << status.message();
  }
}

base::LauncherVariables launcher(std::initializer_list<const char*> variables) {
  std::vector<const char*> list(variables);
  list.push_back(nullptr);
  return base::launcherVariables(list.data());
}

Result<MeetingPoint> find(std::initializer_list<const char*> own,
                          const base::LauncherVariables& variables) {
  std::vector<const char*> list(own);
  list.push_back(nullptr);
  const auto config = base::Config::fromVariables(list.data());
  EXPECT_TRUE(config.isOk());
  return findMeetingPoint(config.value(), variables, {1, 4, "the test"}, within(kLongMs));
}

// The launcher speaks of PMIx, but nobody answers: the job's name serves, and it is one host.
TEST(PmixMeeting, WithoutAServerTheJobNameServes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "loads libpmix, which is not built for it and leaks a few bytes by itself";
#endif
  const auto variables =
      launcher({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4",
                "PMIX_NAMESPACE=omnes-test-no-such-job", "PMIX_RANK=1"});
  const auto point = find({}, variables);
  ASSERT_TRUE(point.isOk()) << point.status().message();
  EXPECT_TRUE(point.value().address.starts_with("unix:@omnes-job-"));
}

TEST(PmixMeeting, OwnAddressIsNotAskedFor) {
  const auto variables = launcher({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4",
                                   "PMIX_NAMESPACE=omnes-test", "PMIX_RANK=1"});
  const auto point = find({"OMNES_COMM_ID=127.0.0.1:5000"}, variables);
  ASSERT_TRUE(point.isOk());
  EXPECT_EQ(point.value().address, "tcp:127.0.0.1:5000");
}

// PMI_FD may be anybody's descriptor by the time that omnes looks.
TEST(PmixMeeting, DescriptorThatIsNoProcessManagersNamesNoJob) {
  for (const char* fd : {"PMI_FD=0", "PMI_FD=99999"}) {
    const auto variables = launcher({"PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALNRANKS=4", fd});
    EXPECT_TRUE(variables.pmiFd.has_value());
    const Status status = find({}, variables).status();
    EXPECT_EQ(status.code(), Code::kInvalidUsage);
    EXPECT_NE(status.message().find("OMNES_COMM_ID"), std::string::npos);
  }
}

}  // namespace
}  // namespace omnes::core::bootstrap
