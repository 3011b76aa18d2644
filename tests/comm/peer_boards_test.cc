// What ranks tell each other about what they have entered: asked, answered once, compared with all
// that a rank has called before, even when that is over.
#include "core/comm/peer_boards.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/comm/entered.h"
#include "core/comm/flight_record.h"
#include "core/comm/liveness.h"
#include "unit/bootstrap_ranks.h"

namespace omnes::core {
namespace {

using bootstrap::Rendezvous;

constexpr int32_t kRanks = 3;

Call callOf(uint64_t sequence, uint64_t count) {
  Call call;
  call.shape.count = count;
  call.sequence = sequence;
  return call;
}

// One rank as far as its service thread sees it.
struct Rank {
  std::unique_ptr<Rendezvous> rendezvous;
  base::EventFd wake = base::EventFd::open().value();
  Failure failure;
  std::vector<PeerInfo> peers;
  LinkSet links{kRanks};
  base::Board board{};
  FlightRecord record;
  std::shared_ptr<Roster> roster;
  std::unique_ptr<Liveness> liveness;
  uint64_t last = 0;  // fingerprint

  // As the library does it: a fingerprint stands for all that came before, too.
  void call(uint64_t sequence, uint64_t count) {
    const Call call = callOf(sequence, count);
    last = fingerprintOf(call, last);
    board.enter(boardEntryOf(call, last));
    record.begin(call, last, "test");
    finish(sequence);
  }
  void enter(uint64_t sequence, uint64_t count) {
    const Call call = callOf(sequence, count);
    board.enter(boardEntryOf(call, fingerprintOf(call)));
    record.begin(call, fingerprintOf(call), "test");
  }
  void finish(uint64_t sequence) {
    record.finish();
    board.finish(sequence);
  }
};

class PeerBoardsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto meeting = bootstrap::freshId();
    auto joined = bootstrap::joinAll(meeting.point, bootstrap::ranks(kRanks));
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(joined[rank].isOk()) << joined[rank].status().message();
      Rank& made = ranks_[rank];
      made.rendezvous = std::move(joined[rank]).value();
      for (int32_t peer = 0; peer < kRanks; ++peer) {
        made.peers.emplace_back();
        made.peers.back().host = "h" + std::to_string(peer);
      }
      auto roster = Roster::make(
          {.rank = rank, .peers = made.peers, .addresses = std::vector<std::string>(kRanks)});
      ASSERT_TRUE(roster.isOk()) << roster.status().message();
      made.roster = std::move(roster).value();
      auto liveness = Liveness::start({.rendezvous = made.rendezvous.get(),
                                       .failure = &made.failure,
                                       .wake = &made.wake,
                                       .peers = &made.peers,
                                       .links = &made.links,
                                       .board = &made.board,
                                       .record = &made.record,
                                       .roster = made.roster.get()});
      ASSERT_TRUE(liveness.isOk()) << liveness.status().message();
      made.liveness = std::move(liveness).value();
    }
  }
  void TearDown() override {
    for (Rank& rank : ranks_) rank.liveness.reset();
  }

  const base::Board* replica(int32_t of, int32_t at) const {
    return ranks_[at].liveness->boards().of(of);
  }
  bool hasReplica(int32_t of, int32_t at, uint64_t sequence) {
    return bootstrap::eventually([&] {
      const auto entry = replica(of, at)->read();
      return entry && entry->sequence == sequence && ranks_[at].liveness->boards().isHeard(of);
    });
  }

  Rank ranks_[kRanks];
};

TEST_F(PeerBoardsTest, QuestionIsKeptAndAnsweredByTheOneThatIsAsked) {
  ranks_[0].enter(1, 10);
  ranks_[0].finish(1);
  ranks_[0].enter(2, 20);
  ranks_[1].enter(1, 10);
  ranks_[0].liveness->boards().ask(1);
  ASSERT_TRUE(hasReplica(0, 1, 2));
  ASSERT_TRUE(hasReplica(1, 0, 1));
  EXPECT_EQ(replica(0, 1)->finished(), 1u);
  EXPECT_EQ(replica(0, 1)->read()->count, 20u);
  EXPECT_FALSE(ranks_[2].liveness->boards().isHeard(0));
  for (const Rank& rank : ranks_) EXPECT_FALSE(rank.failure.isSet());
}

TEST_F(PeerBoardsTest, QuestionToAllReachesAllAndAllAnswer) {
  ranks_[1].enter(1, 10);
  ranks_[1].liveness->boards().ask(-1);
  for (const int32_t other : {0, 2}) {
    ASSERT_TRUE(hasReplica(1, other, 1));
    ASSERT_TRUE(hasReplica(other, 1, 0));
  }
  // Answers are for who has asked.
  EXPECT_FALSE(ranks_[0].liveness->boards().isHeard(2));
}

TEST_F(PeerBoardsTest, RankInNoCallFindsWhatItCalledBefore) {
  for (uint64_t sequence = 1; sequence <= 40; ++sequence) {
    ranks_[2].enter(sequence, 10);
    ranks_[2].finish(sequence);
  }
  for (uint64_t sequence = 1; sequence < 7; ++sequence) ranks_[0].enter(sequence, 10);
  ranks_[0].enter(7, 11);
  ranks_[0].liveness->boards().ask(2);
  for (const Rank& rank : ranks_) {
    ASSERT_TRUE(bootstrap::eventually([&] { return rank.failure.isSet(); }));
    EXPECT_EQ(rank.failure.status().code(), base::Code::kInvalidUsage);
    for (const char* part : {"rank 2 (host h2", "AllReduce #7 of 10 ", "rank 0 (host h0",
                             "AllReduce #7 of 11 ", "same order"})
      EXPECT_NE(std::string(rank.failure.text()).find(part), std::string::npos)
          << rank.failure.text();
  }
}

// Ranks agree about what they call now, and did not 20 operations ago.
TEST_F(PeerBoardsTest, WhatRanksDisagreedAboutIsFoundLater) {
  for (uint64_t sequence = 1; sequence <= 25; ++sequence) {
    ranks_[0].call(sequence, 10);
    ranks_[1].call(sequence, sequence == 5 ? 12 : 10);
  }
  ranks_[0].liveness->boards().ask(1);
  for (const Rank& rank : ranks_) {
    ASSERT_TRUE(bootstrap::eventually([&] { return rank.failure.isSet(); }));
    for (const char* part :
         {"rank 0 (host h0", "AllReduce #5 of 10 ", "rank 1 (host h1", "AllReduce #5 of 12 "})
      EXPECT_NE(std::string(rank.failure.text()).find(part), std::string::npos)
          << rank.failure.text();
  }
}

TEST_F(PeerBoardsTest, ComparisonFindsWhoeverDiffers) {
  for (uint64_t sequence = 1; sequence <= 3; ++sequence)
    for (Rank& rank : ranks_) rank.call(sequence, 10);
  for (Rank& rank : ranks_) rank.liveness->compareLater();
  // Rank 1 is late, and the only one that has something to find: the others look no more.
  for (const int32_t early : {0, 2}) ranks_[early].call(4, 10);
  ASSERT_TRUE(hasReplica(1, 0, 3));
  ASSERT_TRUE(hasReplica(0, 2, 4));
  for (const Rank& rank : ranks_) EXPECT_FALSE(rank.failure.isSet());
  ranks_[1].call(4, 11);
  ranks_[1].liveness->compareLater();
  for (const Rank& rank : ranks_) {
    ASSERT_TRUE(bootstrap::eventually([&] { return rank.failure.isSet(); }));
    for (const char* part : {"AllReduce #4 of 10 ", "rank 1 (host h1", "AllReduce #4 of 11 "})
      EXPECT_NE(std::string(rank.failure.text()).find(part), std::string::npos)
          << rank.failure.text();
  }
}

TEST_F(PeerBoardsTest, EqualCallsLongAgoAreNoMismatch) {
  for (uint64_t sequence = 1; sequence <= 2 * FlightRecord::kLength; ++sequence)
    ranks_[2].enter(sequence, 10);
  ranks_[0].enter(1, 99);  // too long ago for rank 2 to say
  ranks_[0].liveness->boards().ask(2);
  ASSERT_TRUE(hasReplica(2, 0, 2 * FlightRecord::kLength));
  EXPECT_FALSE(ranks_[2].failure.isSet());
}

TEST_F(PeerBoardsTest, NonsenseIsIgnored) {
  for (const std::string& bytes : {std::string(), std::string(55, 'x'), std::string(100, '\xff')})
    EXPECT_TRUE(ranks_[0].rendezvous->sendEntered(1, bytes));
  EXPECT_FALSE(ranks_[0].rendezvous->sendEntered(1, std::string(1000, 'x')));
  ranks_[0].enter(3, 5);
  ranks_[0].liveness->boards().ask(1);
  ASSERT_TRUE(hasReplica(0, 1, 3));
  EXPECT_FALSE(ranks_[1].failure.isSet());
}

// A member that does not read, perhaps since it is stopped, must not be taken for one that is gone.
TEST_F(PeerBoardsTest, ManyQuestionsToARankThatDoesNotReadCostItNothing) {
  ranks_[1].liveness.reset();
  ranks_[0].enter(1, 10);
  for (int i = 0; i < 20000; ++i) ranks_[0].liveness->boards().ask(1);
  // What matters still gets through.
  const auto deadline = bootstrap::inMs(bootstrap::kPatientMs);
  ASSERT_TRUE(
      ranks_[2]
          .rendezvous
          ->sendControl(2, base::Status(base::Code::kRemoteError, "the first cause"), deadline)
          .isOk());
  bool isTold = false;
  ASSERT_TRUE(bootstrap::eventually([&] {
    while (auto event = ranks_[1].rendezvous->receiveControl()) {
      EXPECT_NE(event->kind, bootstrap::ControlEvent::Kind::kHostEnded);
      isTold = isTold || event->status.message() == "the first cause";
    }
    return isTold;
  }));
  EXPECT_FALSE(ranks_[1].rendezvous->isEnded());
}

TEST(Entered, EncodedAndDecodedIsTheSame) {
  Entered news;
  news.entry = {~0ull - 1, 0x123456789abcdef0ull, 77, 1, 2, 3, -1};
  news.finished = 5;
  news.isAnswer = true;
  const auto back = Entered::decode(news.encode());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->entry.sequence, news.entry.sequence);
  EXPECT_EQ(back->entry.fingerprint, news.entry.fingerprint);
  EXPECT_EQ(back->entry.count, 77u);
  EXPECT_EQ(back->entry.collective, 1u);
  EXPECT_EQ(back->entry.type, 2u);
  EXPECT_EQ(back->entry.op, 3u);
  EXPECT_EQ(back->entry.root, -1);
  EXPECT_EQ(back->finished, 5u);
  EXPECT_TRUE(back->isAnswer);
}

// The service thread reads while the driver overwrites: never a mixture of two calls.
TEST(FlightRecord, FoundWhileItIsWritten) {
  constexpr uint64_t kWanted = 2000;
  FlightRecord record;
  std::atomic<uint64_t> written{0};  // a hint where to look; relaxed will do
  std::atomic<bool> isEnough{false};
  std::thread reader([&] {
    for (uint64_t found = 0; found < kWanted;) {
      // The oldest that is kept is the next to be overwritten.
      const uint64_t last = written.load(std::memory_order_relaxed);
      const uint64_t at = last < FlightRecord::kLength ? 1 : last + 1 - FlightRecord::kLength;
      const auto entry = record.find(at);
      if (!entry) continue;
      ++found;
      EXPECT_EQ(entry->sequence, at);
      EXPECT_EQ(entry->count, 3 * at);
      EXPECT_EQ(entry->fingerprint, fingerprintOf(callOf(at, 3 * at)));
    }
    isEnough.store(true, std::memory_order_relaxed);
  });
  uint64_t sequence = 0;
  while (!isEnough.load(std::memory_order_relaxed)) {
    ++sequence;
    const Call call = callOf(sequence, 3 * sequence);
    record.begin(call, fingerprintOf(call), "test");
    record.finish();
    written.store(sequence, std::memory_order_relaxed);
    if (sequence % 1024 == 0) std::this_thread::yield();
  }
  reader.join();
  EXPECT_TRUE(record.find(sequence).has_value());
  EXPECT_FALSE(record.find(sequence + 1).has_value());
  EXPECT_FALSE(record.find(0).has_value());
}

}  // namespace
}  // namespace omnes::core
