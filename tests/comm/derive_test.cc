// Communicators made out of communicators: split, shrink, grow, revoke.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "comm/thread_ranks.h"

namespace omnes::tests {
namespace {

constexpr std::chrono::seconds kLimit{kSanitized ? 240 : 60};

// The sum of 1 << (rank in `world`) over the communicator, so that it says who is in it.
int64_t whoIsIn(omnesComm_t comm, int world) {
  int64_t value = int64_t{1} << world, out = 0;
  EXPECT_EQ(describe(omnesAllReduce(&value, &out, 1, omnesInt64, omnesSum, comm, nullptr)), "0");
  return out;
}

int rankOf(omnesComm_t comm) {
  int rank = -1;
  EXPECT_EQ(omnesCommUserRank(comm, &rank), omnesSuccess);
  return rank;
}

int sizeOf(omnesComm_t comm) {
  int size = -1;
  EXPECT_EQ(omnesCommCount(comm, &size), omnesSuccess);
  return size;
}

omnesResult_t await(omnesComm_t comm) {
  omnesResult_t state = omnesInProgress;
  while (state == omnesInProgress) {
    EXPECT_EQ(omnesCommGetAsyncError(comm, &state), omnesSuccess);
    std::this_thread::yield();
  }
  return state;
}

// What joins the ranks: shared memory, the network, both.
struct Carrier {
  const char* name;
  std::string transports;
  std::vector<std::string> hostIds;
};

class Derive : public ::testing::TestWithParam<Carrier> {
 protected:
  RanksOptions options(int nranks) const {
    RanksOptions made;
    made.transports = GetParam().transports;
    made.hostIds = GetParam().hostIds;
    if (!made.hostIds.empty()) made.hostIds.resize(static_cast<size_t>(nranks), "test-host-1");
    return made;
  }
};

TEST_P(Derive, SplitGroupsByColorAndOrdersByKeyThenRank) {
  constexpr int kRanks = 6;
  ThreadRanks ranks(kRanks, options(kRanks));
  ranks.run([](int rank, omnesComm_t comm) {
    // Colour 7 has ranks 0, 2, 4 in the order 4, 2, 0; colour 3 has 1, 5 with equal keys; rank 3
    // has none.
    const bool isEven = rank % 2 == 0;
    const int color = rank == 3 ? OMNES_SPLIT_NOCOLOR : isEven ? 7 : 3;
    omnesComm_t made = comm;
    ASSERT_EQ(describe(omnesCommSplit(comm, color, isEven ? -rank : 0, &made, nullptr)), "0");
    if (rank == 3) {
      EXPECT_EQ(made, nullptr);
      return;
    }
    EXPECT_EQ(sizeOf(made), isEven ? 3 : 2);
    EXPECT_EQ(rankOf(made), isEven ? (4 - rank) / 2 : rank / 4);
    EXPECT_EQ(whoIsIn(made, rank), isEven ? 0b10101 : 0b100010);
    EXPECT_EQ(omnesCommDestroy(made), omnesSuccess);
  });
  // The parent is as it was.
  ranks.run([](int rank, omnesComm_t comm) { EXPECT_EQ(whoIsIn(comm, rank), 0b111111); });
}

TEST_P(Derive, SplitOutlivesItsParentAndCanBeSplit) {
  constexpr int kRanks = 4;
  ThreadRanks ranks(kRanks, options(kRanks));
  std::vector<omnesComm_t> halves(kRanks);
  ranks.run([&](int rank, omnesComm_t comm) {
    ASSERT_EQ(describe(omnesCommSplit(comm, rank / 2, rank, &halves[rank], nullptr)), "0");
  });
  for (int rank = 0; rank < kRanks; ++rank) omnesCommDestroy(ranks.release(rank));
  runThreads(kRanks, "halves", kLimit, [&](int rank) {
    omnesComm_t one = nullptr;
    ASSERT_EQ(describe(omnesCommSplit(halves[rank], rank, 0, &one, nullptr)), "0");
    EXPECT_EQ(sizeOf(one), 1);
    EXPECT_EQ(whoIsIn(one, rank), 1 << rank);
    EXPECT_EQ(whoIsIn(halves[rank], rank), rank < 2 ? 0b11 : 0b1100);
    omnesCommDestroy(one);
    omnesCommDestroy(halves[rank]);
  });
}

TEST_P(Derive, ShrinkByListLeavesTheParentWorking) {
  constexpr int kRanks = 4;
  ThreadRanks ranks(kRanks, options(kRanks));
  ranks.run([](int rank, omnesComm_t comm) {
    if (rank != 1) {
      const int excluded[] = {1};
      omnesComm_t made = nullptr;
      ASSERT_EQ(describe(omnesCommShrink(comm, excluded, 1, &made, nullptr, OMNES_SHRINK_DEFAULT)),
                "0");
      EXPECT_EQ(rankOf(made), rank == 0 ? 0 : rank - 1);
      EXPECT_EQ(whoIsIn(made, rank), 0b1101);
      omnesCommDestroy(made);
    }
    EXPECT_EQ(whoIsIn(comm, rank), 0b1111);
  });
}

// Rank 0 and another one have ended the communicator; rank 3 does not know and waits in a call.
TEST_P(Derive, ShrinkWithoutTheFailedBringsEverybodyAlong) {
  constexpr int kRanks = 5;
  ThreadRanks ranks(kRanks, options(kRanks));
  std::atomic<int> gone{0};
  ranks.run([&](int rank, omnesComm_t comm) {
    if (rank == 0 || rank == 2) {
      EXPECT_EQ(omnesCommAbort(ranks.release(rank)), omnesSuccess);
      gone.fetch_add(1);
      return;
    }
    if (rank == 3) {
      int64_t value = 1;
      EXPECT_NE(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comm, nullptr),
                omnesSuccess);
    }
    omnesComm_t made = nullptr;
    ASSERT_EQ(describe(omnesCommShrink(comm, nullptr, 0, &made, nullptr, OMNES_SHRINK_FAILED)),
              "0");
    EXPECT_EQ(sizeOf(made), 3);
    EXPECT_EQ(whoIsIn(made, rank), 0b11010);
    int failed[kRanks], n = kRanks;
    EXPECT_EQ(omnesCommGetFailedRanks(comm, failed, &n), omnesSuccess);
    ASSERT_EQ(n, 2);
    EXPECT_EQ(failed[0], 0);
    EXPECT_EQ(failed[1], 2);
    n = 1;
    failed[1] = 77;
    EXPECT_EQ(omnesCommGetFailedRanks(comm, failed, &n), omnesSuccess);
    EXPECT_EQ(n, 2);
    EXPECT_EQ(failed[1], 77);
    omnesCommDestroy(made);
  });
}

TEST_P(Derive, GrowKeepsOldNumbers) {
  constexpr int kRanks = 3, kAll = 5;
  ThreadRanks ranks(kRanks, options(kRanks));
  omnesUniqueId id;
  ASSERT_EQ(describe(omnesCommGetUniqueId(ranks.comm(1), &id)), "0");
  runThreads(kAll, "grow", kLimit, [&](int rank) {
    omnesComm_t made = nullptr;
    omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
    const std::string transports = GetParam().transports;
    config.transports = transports.c_str();
    const bool isOld = rank < kRanks;
    // Only the one that made it passes the id.
    ASSERT_EQ(describe(omnesCommGrow(isOld ? ranks.comm(rank) : nullptr, kAll,
                                     rank == 1 || !isOld ? &id : nullptr, isOld ? -1 : rank, &made,
                                     isOld ? nullptr : &config)),
              "0");
    EXPECT_EQ(sizeOf(made), kAll);
    EXPECT_EQ(rankOf(made), rank);
    EXPECT_EQ(whoIsIn(made, rank), 0b11111);
    omnesCommDestroy(made);
  });
}

TEST_P(Derive, RevokedCommunicatorFailsEverywhereAndCanBeSplit) {
  constexpr int kRanks = 4;
  ThreadRanks ranks(kRanks, options(kRanks));
  ranks.run([](int rank, omnesComm_t comm) {
    int64_t value = 1;
    std::string text;
    if (rank == 2) {
      EXPECT_EQ(describe(omnesCommRevoke(comm, 0)), "0");
      EXPECT_EQ(omnesCommRevoke(comm, 0), omnesInvalidArgument);
    } else {
      // Rank 2 never calls it.
      EXPECT_EQ(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comm, nullptr),
                omnesInvalidUsage);
    }
    EXPECT_EQ(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comm, nullptr),
              omnesInvalidUsage);
    text = omnesGetLastError(comm);
    EXPECT_NE(text.find("rank 2 "), std::string::npos) << text;
    EXPECT_NE(text.find("revoked the communicator"), std::string::npos) << text;
    omnesComm_t made = nullptr;
    ASSERT_EQ(describe(omnesCommSplit(comm, 0, 0, &made, nullptr)), "0");
    EXPECT_EQ(whoIsIn(made, rank), 0b1111);
    omnesCommDestroy(made);
  });
}

INSTANTIATE_TEST_SUITE_P(Comm, Derive,
                         ::testing::Values(Carrier{"shm", "", {}}, Carrier{"tcp", "tcp", {}},
                                           Carrier{"mixed", "", {"test-host-0", "test-host-0"}}),
                         [](const auto& entry) { return entry.param.name; });

TEST(DeriveErrors, ArgumentsAreCheckedAtTheCall) {
  ThreadRanks ranks(2);
  omnesComm_t comm = ranks.comm(0), made = nullptr;
  const int own[] = {0}, none[] = {5}, other[] = {1};
  EXPECT_EQ(omnesCommSplit(nullptr, 0, 0, &made, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommSplit(comm, 0, 0, nullptr, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommSplit(comm, -2, 0, &made, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommShrink(comm, nullptr, 1, &made, nullptr, 0), omnesInvalidArgument);
  EXPECT_EQ(omnesCommShrink(comm, other, 0, &made, nullptr, 0), omnesInvalidArgument);
  EXPECT_EQ(omnesCommShrink(comm, own, 1, &made, nullptr, 0), omnesInvalidArgument);
  EXPECT_EQ(omnesCommShrink(comm, none, 1, &made, nullptr, 0), omnesInvalidArgument);
  EXPECT_EQ(omnesCommShrink(comm, other, 1, &made, nullptr, 3), omnesInvalidArgument);
  EXPECT_EQ(omnesCommShrink(comm, other, -1, &made, nullptr, 2), omnesInvalidArgument);
  omnesUniqueId id{};
  EXPECT_EQ(omnesCommGrow(comm, 2, nullptr, -1, &made, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommGrow(comm, 3, nullptr, 0, &made, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommGrow(comm, 3, &id, -1, &made, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommGrow(nullptr, 3, nullptr, 2, &made, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommGetUniqueId(nullptr, &id), omnesInvalidArgument);
  EXPECT_EQ(omnesCommGetUniqueId(comm, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommRevoke(comm, 1), omnesInvalidArgument);
  EXPECT_EQ(omnesCommRevoke(nullptr, 0), omnesSuccess);
  int n = 0;
  EXPECT_EQ(omnesCommGetFailedRanks(nullptr, nullptr, &n), omnesInvalidArgument);
  EXPECT_EQ(omnesCommGetFailedRanks(comm, nullptr, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommGetFailedRanks(comm, nullptr, &n), omnesSuccess);
  EXPECT_EQ(n, 0);
  EXPECT_EQ(made, nullptr);
  // Nothing of that has hurt it.
  ranks.run([](int rank, omnesComm_t one) { EXPECT_EQ(whoIsIn(one, rank), 0b11); });
}

TEST(DeriveErrors, DifferentListsAreNamedOnAllRanks) {
  ThreadRanks ranks(4);
  ranks.run([](int rank, omnesComm_t comm) {
    const int excluded[] = {rank == 2 ? 1 : 3};
    omnesComm_t made = nullptr;
    if (rank == 3 || rank == 1) return;
    EXPECT_EQ(omnesCommShrink(comm, excluded, 1, &made, nullptr, OMNES_SHRINK_DEFAULT),
              omnesInvalidUsage);
    const std::string text = omnesGetLastError(nullptr);
    EXPECT_NE(text.find("without rank 3"), std::string::npos) << text;
    EXPECT_NE(text.find("without rank 1"), std::string::npos) << text;
    EXPECT_EQ(made, nullptr);
  });
}

TEST(DeriveErrors, RankThatDoesNotComeIsNamed) {
  ThreadRanks ranks(3);
  ranks.run([](int rank, omnesComm_t comm) {
    if (rank == 1) return;
    omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
    config.initTimeoutMs = 300;
    omnesComm_t made = nullptr;
    EXPECT_EQ(omnesCommSplit(comm, 0, 0, &made, &config), omnesTimeout);
    const std::string text = omnesGetLastError(nullptr);
    EXPECT_NE(text.find("rank 1 of 3 has not come to omnesCommSplit"), std::string::npos) << text;
  });
}

TEST(DeriveErrors, SplitFromACommunicatorWithADeadRankFailsAtOnce) {
  ThreadRanks ranks(3);
  ranks.run([&](int rank, omnesComm_t comm) {
    if (rank == 1) {
      EXPECT_EQ(omnesCommAbort(ranks.release(rank)), omnesSuccess);
      return;
    }
    omnesComm_t made = nullptr;
    EXPECT_EQ(omnesCommSplit(comm, 0, 0, &made, nullptr), omnesRemoteError);
    const std::string text = omnesGetLastError(nullptr);
    EXPECT_NE(text.find("rank 1 "), std::string::npos) << text;
  });
}

TEST(DeriveErrors, AbortOfTheParentEndsASplit) {
  ThreadRanks ranks(2);
  omnesComm_t comm = ranks.release(0);
  std::atomic<bool> isCalling{false};
  std::thread caller([&] {
    omnesComm_t made = nullptr;
    isCalling.store(true);
    EXPECT_NE(omnesCommSplit(comm, 0, 0, &made, nullptr), omnesSuccess);
    EXPECT_EQ(made, nullptr);
  });
  while (!isCalling.load()) std::this_thread::yield();
  EXPECT_EQ(describe(omnesCommAbort(comm)), "0");
  caller.join();
}

TEST(DeriveErrors, GrowWithoutAnIdIsAnErrorOnAllRanks) {
  ThreadRanks ranks(2);
  ranks.run([](int, omnesComm_t comm) {
    omnesComm_t made = nullptr;
    EXPECT_EQ(omnesCommGrow(comm, 3, nullptr, -1, &made, nullptr), omnesInvalidUsage);
  });
}

TEST(DeriveWays, InTheBackground) {
  constexpr int kRanks = 4;
  ThreadRanks ranks(kRanks);
  const Watchdog watchdog("background splits", kLimit);
  omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
  config.blocking = 0;
  // One thread, all ranks, two splits on each before any of them is made.
  std::vector<omnesComm_t> first(kRanks), second(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(omnesCommSplit(ranks.comm(rank), rank % 2, 0, &first[rank], &config),
              omnesInProgress);
    ASSERT_EQ(omnesCommSplit(ranks.comm(rank), 0, -rank, &second[rank], &config), omnesInProgress);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(await(first[rank]), omnesSuccess);
    ASSERT_EQ(await(second[rank]), omnesSuccess);
    EXPECT_EQ(rankOf(first[rank]), rank / 2);
    EXPECT_EQ(sizeOf(first[rank]), 2);
    EXPECT_EQ(rankOf(second[rank]), kRanks - 1 - rank);
  }
  runThreads(kRanks, "use", kLimit, [&](int rank) {
    EXPECT_EQ(whoIsIn(first[rank], rank), rank % 2 == 0 ? 0b101 : 0b1010);
    EXPECT_EQ(whoIsIn(second[rank], rank), 0b1111);
    omnesCommDestroy(first[rank]);
    omnesCommDestroy(second[rank]);
  });
}

TEST(DeriveWays, InAGroupOfOneThread) {
  constexpr int kRanks = 4;
  ThreadRanks ranks(kRanks);
  const Watchdog watchdog("grouped splits", kLimit);
  std::vector<omnesComm_t> made(kRanks, nullptr);
  ASSERT_EQ(omnesGroupStart(), omnesSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {
    const int color = rank == 3 ? OMNES_SPLIT_NOCOLOR : 1;
    ASSERT_EQ(omnesCommSplit(ranks.comm(rank), color, 0, &made[rank], nullptr), omnesSuccess);
  }
  ASSERT_EQ(describe(omnesGroupEnd()), "0");
  EXPECT_EQ(made[3], nullptr);
  runThreads(3, "use", kLimit, [&](int rank) {
    EXPECT_EQ(whoIsIn(made[rank], rank), 0b111);
    omnesCommDestroy(made[rank]);
  });
}

// Whoever runs in whatever order: each has threads of its own.
TEST(DeriveWays, TwoCommunicatorsOfTwoThreadsNeverDeadlock) {
  constexpr int kRanks = 3, kRounds = kSanitized ? 20 : 100;
  ThreadRanks ranks(kRanks);
  std::vector<omnesComm_t> other(kRanks);
  ranks.run([&](int rank, omnesComm_t comm) {
    ASSERT_EQ(describe(omnesCommSplit(comm, 0, 0, &other[rank], nullptr)), "0");
  });
  runThreads(2 * kRanks, "two communicators", kLimit, [&](int thread) {
    const int rank = thread / 2;
    omnesComm_t comm = thread % 2 == 0 ? ranks.comm(rank) : other[rank];
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_EQ(whoIsIn(comm, rank), 0b111);
      if (round % 20 != 0) continue;
      omnesComm_t made = nullptr;
      ASSERT_EQ(describe(omnesCommSplit(comm, rank == 0, 0, &made, nullptr)), "0");
      EXPECT_EQ(whoIsIn(made, rank), rank == 0 ? 0b1 : 0b110);
      omnesCommDestroy(made);
    }
  });
  for (omnesComm_t comm : other) omnesCommDestroy(comm);
}

TEST(DeriveWays, SettingsAreInheritedUnlessGiven) {
  RanksOptions options;
  options.timeoutMs = 400;
  ThreadRanks ranks(2, options);
  ranks.run([](int rank, omnesComm_t comm) {
    omnesComm_t made = nullptr;
    ASSERT_EQ(describe(omnesCommSplit(comm, 0, 0, &made, nullptr)), "0");
    int64_t value = 1;
    // The other rank never calls: the deadline of the parent ends the wait.
    if (rank == 0) {
      EXPECT_EQ(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, made, nullptr),
                omnesTimeout);
    } else {
      omnesResult_t state = omnesSuccess;
      while (state == omnesSuccess) omnesCommGetAsyncError(made, &state);
      EXPECT_EQ(state, omnesTimeout);
    }
    omnesCommDestroy(made);
  });
}

}  // namespace
}  // namespace omnes::tests
