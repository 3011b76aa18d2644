// config.blocking 0: the ranks meet in the background; abort and destroy end that at any time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "comm/thread_ranks.h"

namespace omnes::tests {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kLimit{kSanitized ? 240 : 60};
// Ranks share cores here: the promised second times five (docs/CONTRIBUTING.md).
constexpr milliseconds kAbortLimit{1000 * 5};

omnesResult_t initLater(omnesComm_t* comm, int nranks, const omnesUniqueId& id, int rank) {
  omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
  config.blocking = 0;
  return omnesCommInitRankConfig(comm, nranks, id, rank, &config);
}

// The state once it is no longer in progress.
omnesResult_t await(omnesComm_t comm) {
  omnesResult_t state = omnesInProgress;
  while (state == omnesInProgress) {
    EXPECT_EQ(omnesCommGetAsyncError(comm, &state), omnesSuccess);
    std::this_thread::yield();
  }
  return state;
}

TEST(BackgroundInit, OneThreadMakesAllRanks) {
  const Watchdog watchdog("background init", kLimit);
  constexpr int kRanks = 4;
  omnesUniqueId id;
  ASSERT_EQ(omnesGetUniqueId(&id), omnesSuccess);
  std::vector<omnesComm_t> comms(kRanks, nullptr);
  for (int rank = 0; rank < kRanks; ++rank) {
    omnesComm_t& comm = comms[static_cast<size_t>(rank)];
    ASSERT_EQ(initLater(&comm, kRanks, id, rank), omnesInProgress);
    ASSERT_NE(comm, nullptr);
    int count = 0, own = -1;
    EXPECT_EQ(omnesCommCount(comm, &count), omnesSuccess);
    EXPECT_EQ(omnesCommUserRank(comm, &own), omnesSuccess);
    EXPECT_EQ(count, kRanks);
    EXPECT_EQ(own, rank);
    // Cannot be over while ranks are missing.
    if (rank + 1 == kRanks) continue;
    omnesResult_t state = omnesSuccess;
    EXPECT_EQ(omnesCommGetAsyncError(comm, &state), omnesSuccess);
    EXPECT_EQ(state, omnesInProgress);
    int64_t value = 1;
    EXPECT_EQ(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comm, nullptr),
              omnesInvalidUsage);
    EXPECT_EQ(omnesCommFinalize(comm), omnesInvalidUsage);
  }
  for (const omnesComm_t comm : comms) ASSERT_EQ(await(comm), omnesSuccess);
  std::vector<int64_t> values(kRanks, 1);
  ASSERT_EQ(omnesGroupStart(), omnesSuccess);
  for (size_t rank = 0; rank < kRanks; ++rank)
    ASSERT_EQ(describe(omnesAllReduce(&values[rank], &values[rank], 1, omnesInt64, omnesSum,
                                      comms[rank], nullptr)),
              "0");
  ASSERT_EQ(describe(omnesGroupEnd()), "0");
  EXPECT_EQ(values, std::vector<int64_t>(kRanks, kRanks));
  for (const omnesComm_t comm : comms) EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
}

// The other ranks never come, or come and are told.
TEST(BackgroundInit, AbortEndsItOnAllRanks) {
  const Watchdog watchdog("abort of a background init", kLimit);
  for (const int coming : {1, 2, 3}) {
    for (const bool destroys : {false, true}) {
      constexpr int kRanks = 4;
      omnesUniqueId id;
      ASSERT_EQ(omnesGetUniqueId(&id), omnesSuccess);
      std::vector<omnesComm_t> comms(static_cast<size_t>(coming), nullptr);
      for (int rank = 0; rank < coming; ++rank)
        ASSERT_EQ(initLater(&comms[static_cast<size_t>(rank)], kRanks, id, rank), omnesInProgress);
      const auto start = Clock::now();
      EXPECT_EQ(destroys ? omnesCommDestroy(comms[0]) : omnesCommAbort(comms[0]), omnesSuccess);
      EXPECT_LT(Clock::now() - start, kAbortLimit);
      EXPECT_EQ(omnesCommAbort(comms[0]), omnesInvalidArgument);
      for (size_t rank = 1; rank < comms.size(); ++rank) {
        const auto otherStart = Clock::now();
        EXPECT_EQ(omnesCommAbort(comms[rank]), omnesSuccess);
        EXPECT_LT(Clock::now() - otherStart, kAbortLimit);
      }
    }
  }
}

// An abort at any moment of the joining, while the others are in a blocking init: all end, and
// nobody is left with a communicator that the others do not have.
TEST(BackgroundInit, AbortAtAnyMomentEndsBlockingInitsToo) {
  constexpr int kRanks = 3, kRounds = kSanitized ? 15 : 60;
  for (int round = 0; round < kRounds; ++round) {
    omnesUniqueId id;
    ASSERT_EQ(omnesGetUniqueId(&id), omnesSuccess);
    const auto start = Clock::now();
    runThreads(kRanks, "abort while joining", kLimit, [&](int rank) {
      omnesComm_t comm = nullptr;
      if (rank == 1) {
        ASSERT_EQ(initLater(&comm, kRanks, id, rank), omnesInProgress);
        const auto moment = std::chrono::microseconds(100 * round);
        while (Clock::now() - start < moment) std::this_thread::yield();
        // From two threads at once: one of them does it.
        omnesResult_t results[2];
        std::thread other([&] { results[1] = omnesCommAbort(comm); });
        results[0] = omnesCommAbort(comm);
        other.join();
        EXPECT_EQ(results[0] + results[1], int{omnesSuccess} + int{omnesInvalidArgument});
        return;
      }
      const omnesResult_t result = omnesCommInitRank(&comm, kRanks, id, rank);
      if (result == omnesSuccess) {
        int64_t value = 1;
        EXPECT_EQ(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comm, nullptr),
                  omnesRemoteError)
            << omnesGetLastError(comm);
        EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
        return;
      }
      EXPECT_EQ(comm, nullptr);
      EXPECT_TRUE(result == omnesRemoteError || result == omnesInvalidUsage) << describe(result);
    });
    EXPECT_LT(Clock::now() - start, 2 * kAbortLimit);
  }
}

TEST(BackgroundInit, FailureIsTold) {
  const Watchdog watchdog("failing background init", kLimit);
  omnesUniqueId id;
  ASSERT_EQ(omnesGetUniqueId(&id), omnesSuccess);
  omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.initTimeoutMs = 200;
  omnesComm_t comm = nullptr;
  ASSERT_EQ(omnesCommInitRankConfig(&comm, 2, id, 0, &config), omnesInProgress);
  EXPECT_EQ(await(comm), omnesTimeout);
  EXPECT_NE(std::string(omnesGetLastError(comm)).find("rank 1"), std::string::npos)
      << omnesGetLastError(comm);
  int64_t value = 1;
  EXPECT_EQ(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comm, nullptr), omnesTimeout);
  EXPECT_EQ(omnesCommFinalize(comm), omnesTimeout);
  EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
  // Arguments are checked at the call.
  comm = nullptr;
  EXPECT_EQ(initLater(&comm, 0, id, 0), omnesInvalidArgument);
  EXPECT_EQ(comm, nullptr);
}

}  // namespace
}  // namespace omnes::tests
