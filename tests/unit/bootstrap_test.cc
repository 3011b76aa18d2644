// Ranks meet: what works, and what each of them is told when it cannot work.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "bootstrap_ranks.h"
#include "core/bootstrap/meeting.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Status;
using Kind = ControlEvent::Kind;

void expectAll(const std::vector<JoinResult>& results, Code code,
               std::initializer_list<const char*> parts) {
  for (const JoinResult& result : results) {
    ASSERT_FALSE(result.isOk());
    expectStatus(result.status(), code, parts);
  }
}

void expectExchange(const std::vector<JoinResult>& joined, const std::string& tag) {
  std::vector<std::thread> threads;
  for (const JoinResult& result : joined) {
    threads.emplace_back([&tag, rendezvous = result.value().get()] {
      // Rank-dependent lengths, the empty blob and the largest one among them.
      const auto blobOf = [&](uint32_t rank) {
        return rank == 1   ? std::string()
               : rank == 2 ? std::string(kMaxBlobBytes, 'x')
                           : tag + std::to_string(rank);
      };
      const auto blobs = rendezvous->exchange(blobOf(rendezvous->rank()), inMs(kPatientMs));
      ASSERT_TRUE(blobs.isOk()) << blobs.status().message();
      ASSERT_EQ(blobs.value().size(), rendezvous->nranks());
      for (uint32_t rank = 0; rank < rendezvous->nranks(); ++rank)
        EXPECT_EQ(blobs.value()[rank], blobOf(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Waits for the next event of one rank.
ControlEvent nextEvent(Rendezvous& rendezvous) {
  const base::Deadline deadline = inMs(kPatientMs);
  for (;;) {
    std::optional<ControlEvent> event = rendezvous.receiveControl();
    if (event.has_value()) return *event;
    const Status ready =
        waitFor(rendezvous.controlFd(), POLLIN, {deadline, &realClock()}, "testing");
    if (!ready.isOk()) {
      ADD_FAILURE() << ready.message();
      return {};
    }
  }
}

class Meet : public ::testing::TestWithParam<std::tuple<uint32_t, const char*>> {
 protected:
  void SetUp() override {
    const std::string how = std::get<1>(GetParam());
    if (how == "id") meetable_ = freshId();
    if (how == "tcp") meetable_ = freshId("tcp:127.0.0.1:0");
    if (how == "address") meetable_.point = freshAddress();
  }
  Meetable meetable_;
};

TEST_P(Meet, ExchangesSeveralTimesAndLeavesNothing) {
  const uint32_t nranks = std::get<0>(GetParam());
  {
    const auto joined = joinAll(meetable_.point, ranks(nranks));
    for (const JoinResult& result : joined) ASSERT_TRUE(result.isOk()) << result.status().message();
    expectExchange(joined, "first ");
    expectExchange(joined, "second ");
    for (const JoinResult& result : joined) {
      EXPECT_EQ(result.value()->ranksInProcessOf(0).size(), nranks);
    }
  }
  EXPECT_TRUE(allHostsEnd());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Meet,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 5, 6, 7, 8),
                                            ::testing::Values("id", "address", "tcp")));

TEST(Bootstrap, ListsTheRanksThatAreMissing) {
  const Meetable meetable = freshId();
  std::vector<RankSetup> setups;
  for (const uint32_t rank : {0u, 1u, 3u, 4u})
    setups.push_back({.rank = rank, .nranks = 8, .timeoutMs = 300});
  const auto start = realClock().now();
  expectAll(joinAll(meetable.point, setups), Code::kTimeout, {"ranks 2, 5-7 of 8 have not joined"});
  EXPECT_LT(realClock().now() - start, std::chrono::seconds(5));
}

TEST(Bootstrap, ListsMissingRankZeroAtAnAddress) {
  const auto results = joinAll(freshAddress(), {{.rank = 1, .nranks = 2, .timeoutMs = 100}});
  expectAll(results, Code::kTimeout, {"rank 1 could not reach", "is rank 0 running there?"});
}

TEST(Bootstrap, ASilentHostEndsAtTheDeadline) {
  ASSERT_TRUE(initCrypto().isOk());
  auto silent = listenOn(randomUnixAddress());  // accepts by its backlog, answers nothing
  ASSERT_TRUE(silent.isOk());
  auto point = MeetingPoint::fromCommId(silent.value().address, {});
  ASSERT_TRUE(point.isOk());
  expectAll(joinAll(point.value(), {{.rank = 1, .nranks = 2, .timeoutMs = 100}}), Code::kTimeout,
            {"does not answer"});
}

TEST(Bootstrap, RefusesTwoProcessesThatClaimOneRank) {
  const Meetable meetable = freshId();
  auto setups = ranks(3);
  setups[2].rank = 1;
  expectAll(joinAll(meetable.point, setups), Code::kInvalidUsage,
            {"two processes claim rank 1 of 3"});
}

TEST(Bootstrap, RefusesDifferentNumbersOfRanks) {
  const Meetable meetable = freshId();
  auto setups = ranks(3);
  setups[2].nranks = 4;
  expectAll(joinAll(meetable.point, setups), Code::kInvalidUsage,
            {"ranks disagree on their number", "3", "4"});
}

TEST(Bootstrap, NamesTheSettingThatDiffers) {
  auto setups = ranks(3);
  setups[1].settings = "OMNES_ALGO=ring\nOMNES_SLOT_BYTES=65536\n";
  expectAll(joinAll(freshAddress(), setups), Code::kInvalidUsage,
            {"OMNES_SLOT_BYTES differs", "'0'", "'65536'", "rank 1"});
}

TEST(Bootstrap, NamesASettingThatOneSideLacks) {
  EXPECT_EQ(describeDifference("a=1\nb=2\n", "a=1\n", "x", "y"),
            "the setting b differs: '2' on x, '' on y; set it alike on all ranks");
  EXPECT_EQ(describeDifference("a=1\n", "a=1\nb=2\n", "x", "y"),
            "the setting b differs: '' on x, '2' on y; set it alike on all ranks");
  EXPECT_EQ(describeDifference("a=1\n", "a=1\n", "x", "y"), "");
}

TEST(Bootstrap, PrintsBothVersions) {
  const MeetingPoint point = freshAddress();
  MeetingPoint newer = point;
  newer.wireVersion = kWireVersion + 1;
  JoinResult other = Status();
  std::thread thread([&] { other = join(newer, {.rank = 1, .nranks = 2}); });
  const JoinResult first = join(point, {.rank = 0, .nranks = 2});
  thread.join();
  expectStatus(other.status(), Code::kInvalidUsage, {"wire version 2 here, 1 on the other side"});
  expectStatus(first.status(), Code::kInvalidUsage,
               {"rank 1 has another version", "wire version 1 here, 2"});
}

TEST(Bootstrap, RefusesAnotherSecret) {
  const Meetable meetable = freshId();
  MeetingPoint wrong = meetable.point;
  wrong.secret = Secret::derive("test", bytesOf("other"));
  expectAll(joinAll(wrong, {{.rank = 0, .nranks = 2}}), Code::kInvalidUsage,
            {"the secrets differ"});
  EXPECT_EQ(joinAll(meetable.point, ranks(2)).at(1).status().message(),
            "");  // and nobody else is disturbed
}

TEST(Bootstrap, SaysThatAnIdIsSpent) {
  const Meetable meetable = freshId();
  {
    const auto joined = joinAll(meetable.point, ranks(2));
    ASSERT_TRUE(joined[0].isOk() && joined[1].isOk());
    // While its communicator lives, and below when the host has ended.
    expectAll(joinAll(meetable.point, ranks(2)), Code::kInvalidUsage, {"spent"});
  }
  ASSERT_TRUE(allHostsEnd());
  expectAll(joinAll(meetable.point, ranks(2)), Code::kInvalidUsage, {"spent"});
}

TEST(Bootstrap, AnAddressServesOneMeetingAfterAnother) {
  const MeetingPoint point = freshAddress();
  const auto first = joinAll(point, ranks(3));
  const auto second = joinAll(point, ranks(3));  // the first still lives
  for (const auto* joined : {&first, &second}) {
    for (const JoinResult& result : *joined)
      EXPECT_TRUE(result.isOk()) << result.status().message();
  }
}

TEST(Bootstrap, AnAddressServesASecondAttempt) {
  const MeetingPoint point = freshAddress();
  auto setups = ranks(2);
  setups[1].settings = "OMNES_ALGO=tree\n";
  expectAll(joinAll(point, setups), Code::kInvalidUsage, {"OMNES_ALGO"});
  // Until the failed meeting has ended, a rank that comes before rank 0 hears why that one failed.
  EXPECT_TRUE(allHostsEnd());
  for (const JoinResult& result : joinAll(point, ranks(2))) {
    EXPECT_TRUE(result.isOk()) << result.status().message();
  }
}

TEST(Bootstrap, LateComersHearWhyAMeetingFailed) {
  const Meetable meetable = freshId();
  auto setups = ranks(3);
  setups.pop_back();
  setups[1].rank = 0;
  expectAll(joinAll(meetable.point, setups), Code::kInvalidUsage, {"two processes claim rank 0"});
  expectAll(joinAll(meetable.point, {{.rank = 2, .nranks = 3}}), Code::kInvalidUsage,
            {"two processes claim rank 0"});
}

// Whoever hosts the meeting may end its process with the error; so rank 0 stays for a moment, until
// late ranks have heard it.
TEST(Bootstrap, TheHostOfAFailedMeetingAwaitsLateComers) {
  const MeetingPoint point = freshAddress();
  const auto start = realClock().now();
  base::Duration stayed{0};
  std::thread rankZero([&] {
    expectStatus(join(point, {.rank = 0, .nranks = 3}).status(), Code::kInvalidUsage, {"disagree"});
    stayed = realClock().now() - start;
  });
  expectStatus(join(point, {.rank = 1, .nranks = 4}).status(), Code::kInvalidUsage, {"disagree"});
  rankZero.join();
  EXPECT_GE(stayed, std::chrono::milliseconds(400));
  EXPECT_LT(stayed, std::chrono::seconds(5));
}

TEST(Bootstrap, AnAddressInUseFailsAtOnce) {
  const Meetable occupied = freshId("tcp:127.0.0.1:0");
  const std::string address = occupied.host->address().substr(4);
  auto point = MeetingPoint::fromCommId(address, {});
  ASSERT_TRUE(point.isOk());
  const auto start = realClock().now();
  expectAll(joinAll(point.value(), {{.rank = 0, .nranks = 2}}), Code::kSystemError,
            {address.c_str(), "Address already in use"});
  EXPECT_LT(realClock().now() - start, std::chrono::seconds(1));
  occupied.host->stop();
  EXPECT_TRUE(allHostsEnd());
}

TEST(Bootstrap, ARankThatDiesWhileJoiningIsNamed) {
  const Meetable meetable = freshId();
  // A rank that proves itself, and is then gone.
  auto attempt = connectOnce(meetable.point.address, {inMs(kPatientMs), &realClock()});
  ASSERT_TRUE(attempt.isOk() && attempt.value().error == 0);
  ProofInitiator proof(meetable.point.secret,
                       {meetable.point.commId, 3, 2, kNoRank, LinkKind::kMeeting});
  ASSERT_TRUE(runProof(attempt.value().fd.get(), proof, {inMs(kPatientMs), &realClock()}).isOk());
  attempt.value().fd.reset();
  auto setups = ranks(3);
  setups.pop_back();
  expectAll(joinAll(meetable.point, setups), Code::kRemoteError,
            {"rank 2 died or broke off while joining"});
}

TEST(Bootstrap, AbortEndsJoinAndExchange) {
  const auto abort = base::EventFd::open();
  ASSERT_TRUE(abort.isOk());
  const Meetable meetable = freshId();
  JoinResult alone = Status();
  std::thread joiner([&] {
    alone = join(meetable.point, {.rank = 0, .nranks = 2, .abortFd = abort.value().fd()});
  });
  base::TimePoint start = realClock().now();
  abort.value().signal();
  joiner.join();
  EXPECT_LT(realClock().now() - start, std::chrono::milliseconds(500));
  expectStatus(alone.status(), Code::kInvalidUsage, {"aborted"});
  meetable.host
      ->stop();  // the abort may have come before the rank did; then the id still waits for it
  abort.value().drain();

  const Meetable other = freshId();
  auto setups = ranks(2);
  setups[0].abortFd = abort.value().fd();
  const auto joined = joinAll(other.point, setups);
  ASSERT_TRUE(joined[0].isOk() && joined[1].isOk());
  base::Result<std::vector<std::string>> blobs = Status();
  std::thread exchanger([&] { blobs = joined[0].value()->exchange("", inMs(kPatientMs)); });
  start = realClock().now();
  abort.value().signal();
  exchanger.join();
  EXPECT_LT(realClock().now() - start, std::chrono::milliseconds(500));
  expectStatus(blobs.status(), Code::kInvalidUsage, {"aborted"});
}

TEST(Bootstrap, AnExchangeListsTheRanksThatDoNotCome) {
  const auto joined = joinAll(freshAddress(), ranks(3));
  ASSERT_TRUE(joined[0].isOk() && joined[1].isOk() && joined[2].isOk());
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) {
    threads.emplace_back([&joined, rank] {
      const auto blobs = joined[rank].value()->exchange("blob", inMs(200));
      expectStatus(blobs.status(), Code::kTimeout, {"rank 1 of 3 has not come to the exchange"});
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Bootstrap, AnExchangeEndsWhenARankLeaves) {
  auto joined = joinAll(freshAddress(), ranks(3));
  ASSERT_TRUE(joined[0].isOk() && joined[1].isOk() && joined[2].isOk());
  std::thread leaver([&] { joined[1].value()->goodbye(); });
  const auto blobs = joined[0].value()->exchange("blob", inMs(kPatientMs));
  leaver.join();
  expectStatus(blobs.status(), Code::kRemoteError, {"rank 1"});
}

TEST(Bootstrap, TheControlStarSpreadsTheFirstCause) {
  auto joined = joinAll(freshAddress(), ranks(4));
  for (const JoinResult& result : joined) ASSERT_TRUE(result.isOk()) << result.status().message();
  const Status cause(Code::kTimeout, "all-reduce 17: rank 2 is late");
  ASSERT_TRUE(joined[3].value()->sendControl(3, cause, inMs(kPatientMs)).isOk());
  for (const int rank : {0, 1, 2}) {
    const ControlEvent event = nextEvent(*joined[rank].value());
    EXPECT_EQ(event.kind, Kind::kError);
    EXPECT_EQ(event.rank, 3u);
    expectStatus(event.status, Code::kTimeout, {"all-reduce 17: rank 2 is late"});
  }
  EXPECT_FALSE(joined[3].value()->receiveControl().has_value());
}

TEST(Bootstrap, GoodbyesAndDeathsAreToldApart) {
  auto joined = joinAll(freshAddress(), ranks(3));
  for (const JoinResult& result : joined) ASSERT_TRUE(result.isOk()) << result.status().message();
  joined[1].value()->goodbye();
  const ControlEvent left = nextEvent(*joined[0].value());
  EXPECT_EQ(left.kind, Kind::kLeft);
  EXPECT_EQ(left.rank, 1u);
  ::shutdown(joined[2].value()->controlFd(), SHUT_RDWR);  // as a dying process leaves it
  const ControlEvent gone = nextEvent(*joined[0].value());
  EXPECT_EQ(gone.kind, Kind::kGone);
  EXPECT_EQ(gone.rank, 2u);
  expectStatus(gone.status, Code::kRemoteError, {"rank 2", "is gone"});
}

TEST(Bootstrap, ALostHostIsTheDeathOfItsRanks) {
  const Meetable meetable = freshId();
  auto joined = joinAll(meetable.point, ranks(2));
  ASSERT_TRUE(joined[0].isOk() && joined[1].isOk());
  meetable.host->stop();
  for (const uint32_t rank : {0u, 1u}) {  // each of them: a shrink leaves out whom it knows
    const ControlEvent gone = nextEvent(*joined[0].value());
    EXPECT_EQ(gone.kind, Kind::kGone);
    EXPECT_EQ(gone.rank, rank);
    expectStatus(gone.status, Code::kRemoteError, {"ranks 0, 1 are gone", "hosted the meeting"});
  }
  EXPECT_TRUE(joined[0].value()->isEnded());
  EXPECT_FALSE(joined[0].value()->receiveControl().has_value());
}

TEST(Bootstrap, ChecksItsArguments) {
  const MeetingPoint point = freshAddress();
  expectAll(joinAll(point, {{.rank = 2, .nranks = 2}}), Code::kInvalidArgument, {"rank 2 of 2"});
  expectAll(joinAll(point, {{.rank = 0, .nranks = 0}}), Code::kInvalidArgument, {"0 ranks"});
  const std::string tooLong(kMaxSettingsBytes + 1, 's');
  expectAll(joinAll(point, {{.rank = 0, .nranks = 1, .settings = tooLong}}), Code::kInvalidArgument,
            {"16384"});
  const auto joined = joinAll(point, ranks(1));
  ASSERT_TRUE(joined[0].isOk());
  const auto blobs =
      joined[0].value()->exchange(std::string(kMaxBlobBytes + 1, 'b'), inMs(kPatientMs));
  expectStatus(blobs.status(), Code::kInvalidArgument, {"65536"});
}

TEST(Bootstrap, TwoHundredJoinsLeaveNoDescriptor) {
  ASSERT_TRUE(allHostsEnd());
  joinAll(freshAddress(), ranks(2));
  ASSERT_TRUE(allHostsEnd());
  const size_t before = openDescriptors();
  for (int i = 0; i < 200; ++i) {
    for (const JoinResult& result :
         joinAll(i % 2 == 0 ? freshId().point : freshAddress(), ranks(2))) {
      ASSERT_TRUE(result.isOk()) << "join " << i << ": " << result.status().message();
    }
  }
  ASSERT_TRUE(allHostsEnd());
  EXPECT_TRUE(eventually([before] { return openDescriptors() == before; }, 2000))
      << openDescriptors() << " " << before;
}

void onAlarm(int) {}

// Case C40: a timer whose signals interrupt calls must have no effect.
TEST(Bootstrap, IgnoresInterruptions) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = onAlarm;  // without SA_RESTART
  sigaction(SIGALRM, &action, &before);
  const itimerval everyMs{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &everyMs, nullptr);
  for (int i = 0; i < 100; ++i) {
    const auto joined = joinAll(i % 2 == 0 ? freshId().point : freshAddress(), ranks(3));
    for (const JoinResult& result : joined) ASSERT_TRUE(result.isOk()) << result.status().message();
    expectExchange(joined, "tick ");
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

}  // namespace
}  // namespace omnes::core::bootstrap
