// Councils between threads: who takes part is agreed on whatever each of them believes at first.
#include "core/bootstrap/council.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/event.h"
#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;

class CouncilTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kRanks = 5;

  void SetUp() override {
    ASSERT_TRUE(initCrypto().isOk());
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      Result<ListeningSocket> socket = listenOn(randomUnixAddress());
      ASSERT_TRUE(socket.isOk()) << socket.status().message();
      addresses_.push_back(socket.value().address);
      listeners_.push_back(std::move(socket.value().fd));
    }
  }

  // Nobody listens for it any more.
  void kill(uint32_t rank) { listeners_[rank].reset(); }

  using Results = std::vector<std::optional<Result<CouncilResult>>>;
  // Ranks whose socket is open hold one; `prepare` may change what a rank believes.
  Results hold(const std::function<void(uint32_t, CouncilParty*, CouncilAgenda*)>& prepare,
               int64_t limitMs = 30'000) {
    Results results(kRanks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      if (!listeners_[rank].isOpen()) continue;
      threads.emplace_back([&, rank] {
        CouncilParty party;
        party.commId = 42;
        party.rank = rank;
        party.addresses = addresses_;
        party.isGone = [](uint32_t) { return false; };
        party.nameOf = [](uint32_t other) { return "rank " + std::to_string(other); };
        CouncilAgenda agenda{.what = "the test", .purpose = "test", .excludesDead = true};
        agenda.blob = "blob of " + std::to_string(rank);
        prepare(rank, &party, &agenda);
        const base::Clock& clock = base::Clock::monotonic();
        results[rank] = holdCouncil(party, agenda, &listeners_[rank],
                                    {base::Deadline::afterMs(clock, limitMs), &clock});
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  // That each of `members` has the same result, without all others.
  void expectAgreed(const Results& results, const std::vector<uint32_t>& members) {
    for (const uint32_t member : members) {
      ASSERT_TRUE(results[member].has_value());
      const Result<CouncilResult>& result = *results[member];
      ASSERT_TRUE(result.isOk()) << "rank " << member << ": " << result.status().message();
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        const bool isMember = std::find(members.begin(), members.end(), rank) != members.end();
        EXPECT_EQ(result.value().isExcluded[rank], !isMember) << rank << " at " << member;
        EXPECT_EQ(result.value().blobs[rank], isMember ? "blob of " + std::to_string(rank) : "");
      }
      EXPECT_EQ(result.value().nonce, results[members.front()]->value().nonce);
      EXPECT_TRUE(listeners_[member].isOpen());  // given back
    }
  }

  std::vector<std::string> addresses_;
  std::vector<base::UniqueFd> listeners_;
};

const auto kAsItIs = [](uint32_t, CouncilParty*, CouncilAgenda*) {};

TEST_F(CouncilTest, AllHearAllAndCanMeetAgain) {
  const Results first = hold(kAsItIs);
  expectAgreed(first, {0, 1, 2, 3, 4});
  const Results second = hold(kAsItIs);
  expectAgreed(second, {0, 1, 2, 3, 4});
  EXPECT_NE(first[0]->value().nonce, second[0]->value().nonce);
}

TEST_F(CouncilTest, DeadRanksThatNobodyKnowsOfAreFoundOut) {
  kill(0);
  kill(1);
  kill(3);
  expectAgreed(hold(kAsItIs), {2, 4});
}

TEST_F(CouncilTest, DifferentBeliefsAreUnited) {
  kill(0);
  kill(2);
  expectAgreed(hold([](uint32_t rank, CouncilParty* party, CouncilAgenda* agenda) {
                 if (rank == 1) party->isGone = [](uint32_t other) { return other == 0; };
                 if (rank == 4) agenda->excluded = {2};
               }),
               {1, 3, 4});
}

// Rank 4 has lost its connection to rank 0, which lives and would preside.
TEST_F(CouncilTest, RankThatOneTakesForDeadIsOutForAllAndTold) {
  const Results results = hold([](uint32_t rank, CouncilParty* party, CouncilAgenda*) {
    if (rank == 4) party->isGone = [](uint32_t other) { return other == 0; };
  });
  expectAgreed(results, {1, 2, 3, 4});
  ASSERT_FALSE(results[0]->isOk());
  EXPECT_EQ(results[0]->status().code(), Code::kRemoteError);
}

TEST_F(CouncilTest, RankThatDoesNotComeIsNamedByAll) {
  // It listens, and never calls.
  const base::UniqueFd silent = std::move(listeners_[3]);
  const Results results = hold(kAsItIs, 800);
  for (const uint32_t rank : {0u, 1u, 2u, 4u}) {
    ASSERT_FALSE(results[rank]->isOk());
    EXPECT_EQ(results[rank]->status().code(), Code::kTimeout);
    EXPECT_NE(results[rank]->status().message().find("rank 3 of 5 has not come"), std::string::npos)
        << results[rank]->status().message();
  }
}

TEST_F(CouncilTest, WithoutExcludingADeathIsAnErrorForAll) {
  kill(2);
  const Results results =
      hold([](uint32_t, CouncilParty*, CouncilAgenda* agenda) { agenda->excludesDead = false; });
  for (const uint32_t rank : {0u, 1u, 3u, 4u}) {
    ASSERT_FALSE(results[rank]->isOk());
    EXPECT_EQ(results[rank]->status().code(), Code::kRemoteError);
    EXPECT_NE(results[rank]->status().message().find("rank 2"), std::string::npos)
        << results[rank]->status().message();
  }
}

TEST_F(CouncilTest, DifferentPurposesAreNamedOnAll) {
  const Results results = hold([](uint32_t rank, CouncilParty*, CouncilAgenda* agenda) {
    if (rank == 3) agenda->purpose = "something else";
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result->isOk());
    EXPECT_EQ(result->status().code(), Code::kInvalidUsage);
    EXPECT_NE(result->status().message().find("'something else' and 'test'"), std::string::npos)
        << result->status().message();
  }
}

TEST_F(CouncilTest, OneAborts) {
  Result<base::EventFd> abort = base::EventFd::open();
  ASSERT_TRUE(abort.isOk());
  abort.value().signal();
  CouncilParty party;
  party.addresses = addresses_;
  party.rank = 1;
  party.isGone = [](uint32_t) { return false; };
  party.nameOf = [](uint32_t other) { return "rank " + std::to_string(other); };
  const CouncilAgenda agenda{.what = "the test", .purpose = "test"};
  const auto result =
      holdCouncil(party, agenda, &listeners_[1],
                  {.clock = &base::Clock::monotonic(), .abortFd = abort.value().fd()});
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.status().code(), Code::kInvalidUsage);
  EXPECT_TRUE(listeners_[1].isOpen());
}

TEST(CouncilWords, SurviveTheJourney) {
  const CouncilReport report{"purpose", {1, 4, 5}, "blob"};
  const auto read = CouncilReport::decode(report.encode(), 6);
  ASSERT_TRUE(read.isOk());
  EXPECT_EQ(read.value().purpose, "purpose");
  EXPECT_EQ(read.value().excluded, report.excluded);
  EXPECT_EQ(read.value().blob, "blob");
  CouncilDecision decision;
  decision.nonce[31] = 7;
  decision.excluded = {0, 3};
  const auto decided = CouncilDecision::decode(decision.encode(), 4);
  ASSERT_TRUE(decided.isOk());
  EXPECT_EQ(decided.value().nonce, decision.nonce);
  EXPECT_EQ(decided.value().excluded, decision.excluded);
}

TEST(CouncilWords, NonsenseIsRefused) {
  const std::string report = CouncilReport{"p", {1, 2}, ""}.encode();
  for (size_t bytes = 0; bytes < report.size(); ++bytes)
    EXPECT_FALSE(CouncilReport::decode(report.substr(0, bytes), 3).isOk()) << bytes;
  EXPECT_FALSE(CouncilReport::decode(report, 2).isOk());  // rank 2 does not exist
  EXPECT_FALSE(CouncilReport::decode(CouncilReport{"p", {2, 1}, ""}.encode(), 3).isOk());
  EXPECT_FALSE(CouncilReport::decode(CouncilReport{"p", {1, 1}, ""}.encode(), 3).isOk());
  EXPECT_FALSE(CouncilReport::decode(std::string(4, '\xff'), 3).isOk());
  const std::string decision = CouncilDecision{{}, {1}}.encode();
  for (size_t bytes = 0; bytes < decision.size(); ++bytes)
    EXPECT_FALSE(CouncilDecision::decode(decision.substr(0, bytes), 3).isOk()) << bytes;
  EXPECT_FALSE(CouncilDecision::decode(decision + "x", 3).isOk());
}

TEST(Sealed, OnlyTheSameKeyAndPurposeOpenIt) {
  ASSERT_TRUE(initCrypto().isOk());
  const Secret key = Secret::derive("test", bytesOf("a")),
               other = Secret::derive("test", bytesOf("b"));
  std::string sealed = seal(key, "purpose", bytesOf("hidden"));
  EXPECT_EQ(sealed.find("hidden"), std::string::npos);
  ASSERT_TRUE(unseal(key, "purpose", sealed).isOk());
  EXPECT_EQ(unseal(key, "purpose", sealed).value(), "hidden");
  EXPECT_FALSE(unseal(other, "purpose", sealed).isOk());
  EXPECT_FALSE(unseal(key, "another", sealed).isOk());
  EXPECT_FALSE(unseal(key, "purpose", sealed.substr(1)).isOk());
  EXPECT_FALSE(unseal(key, "purpose", "").isOk());
  sealed.back() = static_cast<char>(sealed.back() ^ 1);
  EXPECT_FALSE(unseal(key, "purpose", sealed).isOk());
}

}  // namespace
}  // namespace omnes::core::bootstrap
