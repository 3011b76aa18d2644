// Collectives in which a rank has only to give, and ends before the others have begun: what it is
// told of those who call something else, and what becomes of what it gave when it leaves.
//
// Ranks are threads of one machine, kept apart by config.hostId or config.transports.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

using Clock = std::chrono::steady_clock;

// The promise is a second; ranks share cores here (docs/CONTRIBUTING.md).
constexpr std::chrono::milliseconds kLimit{5000};

struct Case {
  std::string name;
  std::vector<int> ranksPerHost;
  std::string transports;

  int nranks() const {
    int sum = 0;
    for (const int ranks : ranksPerHost) sum += ranks;
    return sum;
  }
  RanksOptions options() const {
    RanksOptions out;
    out.transports = transports;
    out.hostIds = hostsOf(ranksPerHost);
    if (!transports.empty()) out.hostIds.clear();
    out.timeoutMs = 60000;
    return out;
  }
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> allLayouts() {
  return {{"Shared2", {2}, ""},       {"Tcp2", {2}, "tcp"},        {"Shared4", {4}, ""},
          {"Tcp4", {4}, "tcp"},       {"ThreeAndOne", {3, 1}, ""}, {"OneTwoTwo", {1, 2, 2}, ""},
          {"AllApart", {1, 1, 1}, ""}};
}

class Rooted : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Layouts, Rooted, ::testing::ValuesIn(allLayouts()),
                         [](const auto& entry) { return entry.param.name; });

// What the communicator says by itself, without a call.
omnesResult_t awaitAsyncError(omnesComm_t comm) {
  omnesResult_t async = omnesSuccess;
  while (async == omnesSuccess) {
    std::this_thread::yield();
    EXPECT_EQ(omnesCommGetAsyncError(comm, &async), omnesSuccess);
  }
  return async;
}

void expectMentions(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

// The root has returned; then the others call an all-reduce.
TEST_P(Rooted, TheRootLearnsWhatTheOthersCalledInstead) {
  const int nranks = GetParam().nranks();
  for (const int root : {0, nranks - 1}) {
    SCOPED_TRACE(root);
    ThreadRanks ranks(nranks, GetParam().options());
    ASSERT_TRUE(ranks.isReady());
    std::barrier rootIsDone(nranks);
    std::vector<Clock::time_point> ends(static_cast<size_t>(nranks));
    Clock::time_point start;
    ranks.run([&](int rank, omnesComm_t comm) {
      std::vector<float> in(1000, 1.0f), out(1000, -1.0f);
      if (rank == root) {
        EXPECT_EQ(describe(omnesBroadcast(in.data(), out.data(), in.size(), omnesFloat32, root,
                                          comm, nullptr)),
                  "0");
        start = Clock::now();
        rootIsDone.arrive_and_wait();
        EXPECT_EQ(awaitAsyncError(comm), omnesInvalidUsage);
      } else {
        rootIsDone.arrive_and_wait();
        const omnesResult_t result =
            omnesAllReduce(in.data(), out.data(), in.size(), omnesFloat32, omnesSum, comm, nullptr);
        EXPECT_EQ(result, omnesInvalidUsage) << describe(result);
        EXPECT_EQ(out, std::vector<float>(1000, -1.0f));
      }
      ends[rank] = Clock::now();
      EXPECT_EQ(omnesBarrier(comm, nullptr), omnesInvalidUsage);
      expectMentions(omnesGetLastError(comm),
                     {"Broadcast #1 of 1000 float, root " + std::to_string(root),
                      "AllReduce #1 of 1000 float, sum"});
    });
    for (const Clock::time_point end : ends) EXPECT_LT(end - start, kLimit);
  }
}

// Each of two ranks takes itself for the root: nobody waits for anything.
TEST_P(Rooted, TwoRootsAreFoundWithoutAnotherCall) {
  const int nranks = GetParam().nranks();
  ThreadRanks ranks(nranks, GetParam().options());
  ASSERT_TRUE(ranks.isReady());
  const Clock::time_point start = Clock::now();
  ranks.run([&](int rank, omnesComm_t comm) {
    std::vector<float> data(100, 1.0f);
    const int root = rank == nranks - 1 ? nranks - 1 : 0;
    const omnesResult_t result =
        omnesBcast(data.data(), data.size(), omnesFloat32, root, comm, nullptr);
    EXPECT_TRUE(result == omnesSuccess || result == omnesInvalidUsage) << describe(result);
    EXPECT_EQ(awaitAsyncError(comm), omnesInvalidUsage);
    expectMentions(omnesGetLastError(comm),
                   {"Broadcast #1 of 100 float, root 0",
                    "Broadcast #1 of 100 float, root " + std::to_string(nranks - 1)});
  });
  EXPECT_LT(Clock::now() - start, kLimit);
}

// The call that comes next finds the chunk that nobody wanted; it blames the call that did not
// match, not the one that is right.
TEST_P(Rooted, TheNextCallBlamesTheOneThatDiffered) {
  const int nranks = GetParam().nranks();
  ThreadRanks ranks(nranks, GetParam().options());
  ASSERT_TRUE(ranks.isReady());
  const Clock::time_point start = Clock::now();
  ranks.run([&](int rank, omnesComm_t comm) {
    std::vector<float> data(100, 1.0f);
    float one = 1, sum = 0;
    EXPECT_EQ(describe(omnesAllReduce(&one, &sum, 1, omnesFloat32, omnesSum, comm, nullptr)), "0");
    // A reduce to somebody else: who is not the root has only to give.
    const int root = rank == nranks - 1 ? 0 : nranks - 1;
    omnesResult_t result = omnesReduce(data.data(), data.data(), data.size(), omnesFloat32,
                                       omnesSum, root, comm, nullptr);
    for (int round = 0; round < 10 && result == omnesSuccess; ++round)
      result = omnesAllReduce(&one, &sum, 1, omnesFloat32, omnesSum, comm, nullptr);
    EXPECT_EQ(result, omnesInvalidUsage) << describe(result);
    expectMentions(omnesGetLastError(comm),
                   {"Reduce #2 of 100 float, sum, root 0",
                    "Reduce #2 of 100 float, sum, root " + std::to_string(nranks - 1)});
  });
  EXPECT_LT(Clock::now() - start, kLimit);
}

// A root that runs ahead meets a rank that disagrees only when it has gone on.
TEST_P(Rooted, AnEarlierDisagreementIsFoundWhenTheLateRankCalls) {
  const int nranks = GetParam().nranks();
  ThreadRanks ranks(nranks, GetParam().options());
  ASSERT_TRUE(ranks.isReady());
  std::barrier othersAreDone(nranks);
  Clock::time_point start;
  ranks.run([&](int rank, omnesComm_t comm) {
    std::vector<float> data(10, 1.0f);
    const auto bcast = [&](size_t count, int root) {
      return omnesBcast(data.data(), count, omnesFloat32, root, comm, nullptr);
    };
    const int last = nranks - 1;
    if (rank == last) {
      othersAreDone.arrive_and_wait();
      // Later than the comparison that follows the others' calls.
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      start = Clock::now();
      const omnesResult_t result = bcast(10, last);
      EXPECT_TRUE(result == omnesSuccess || result == omnesInvalidUsage) << describe(result);
    } else {
      EXPECT_EQ(describe(bcast(10, 0)), "0");
      EXPECT_EQ(describe(bcast(5, 0)), "0");
      othersAreDone.arrive_and_wait();
    }
    EXPECT_EQ(awaitAsyncError(comm), omnesInvalidUsage);
    expectMentions(omnesGetLastError(comm),
                   {"Broadcast #1 of 10 float, root 0",
                    "Broadcast #1 of 10 float, root " + std::to_string(last)});
  });
  EXPECT_LT(Clock::now() - start, kLimit);
}

// Ranks that agree, and rest, are left alone by the comparison.
TEST_P(Rooted, RanksThatAgreeHearNothing) {
  const int nranks = GetParam().nranks();
  ThreadRanks ranks(nranks, GetParam().options());
  ASSERT_TRUE(ranks.isReady());
  ranks.run([&](int rank, omnesComm_t comm) {
    std::vector<int32_t> data(300);
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(1500);
    bool isOver = false;
    for (int round = 0; !isOver; ++round) {
      const int root = round % nranks;
      data.assign(data.size(), rank == root ? round : -1);
      ASSERT_EQ(describe(omnesBcast(data.data(), data.size(), omnesInt32, root, comm, nullptr)),
                "0");
      ASSERT_EQ(data.back(), round);
      // Rank 0 says when it is over.
      int32_t stop = Clock::now() >= end ? 1 : 0;
      ASSERT_EQ(describe(omnesBcast(&stop, 1, omnesInt32, 0, comm, nullptr)), "0");
      isOver = stop == 1;
    }
    omnesResult_t async = omnesInternalError;
    EXPECT_EQ(omnesCommGetAsyncError(comm, &async), omnesSuccess);
    EXPECT_EQ(async, omnesSuccess);
  });
}

// A rank that has given may destroy its communicator before the others take.
TEST_P(Rooted, WhatWasGivenOutlivesTheGiver) {
  const int nranks = GetParam().nranks();
  for (const int root : {0, nranks - 1}) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{10000}}) {
      SCOPED_TRACE("root " + std::to_string(root) + " count " + std::to_string(count));
      ThreadRanks ranks(nranks, GetParam().options());
      ASSERT_TRUE(ranks.isReady());
      std::barrier rootHasLeft(nranks);
      ranks.run([&](int rank, omnesComm_t comm) {
        std::vector<int32_t> data(count, rank == root ? 7 : -1);
        const auto bcast = [&] {
          return describe(omnesBcast(data.data(), count, omnesInt32, root, comm, nullptr));
        };
        if (rank == root) {
          // What does not fit in a link's slots is waited for, which would be a deadlock here.
          EXPECT_EQ(bcast(), "0");
          EXPECT_EQ(describe(omnesCommDestroy(ranks.release(rank))), "0");
          rootHasLeft.arrive_and_wait();
          return;
        }
        rootHasLeft.arrive_and_wait();
        EXPECT_EQ(bcast(), "0");
        EXPECT_EQ(data, std::vector<int32_t>(count, 7));
      });
    }
  }
}

// The same the other way round: all but the root of a reduce and a gather leave before it calls.
TEST_P(Rooted, TheRootTakesFromThoseWhoHaveLeft) {
  const int nranks = GetParam().nranks();
  for (const int root : {0, nranks - 1}) {
    SCOPED_TRACE(root);
    ThreadRanks ranks(nranks, GetParam().options());
    ASSERT_TRUE(ranks.isReady());
    std::barrier othersHaveLeft(nranks);
    ranks.run([&](int rank, omnesComm_t comm) {
      const std::vector<int32_t> in(500, rank + 1);
      std::vector<int32_t> sum(500, -1), all(500 * static_cast<size_t>(nranks), -1);
      const auto give = [&] {
        EXPECT_EQ(describe(omnesReduce(in.data(), sum.data(), 500, omnesInt32, omnesSum, root, comm,
                                       nullptr)),
                  "0");
        EXPECT_EQ(
            describe(omnesGather(in.data(), all.data(), 500, omnesInt32, root, comm, nullptr)),
            "0");
      };
      if (rank != root) {
        give();
        EXPECT_EQ(describe(omnesCommDestroy(ranks.release(rank))), "0");
        othersHaveLeft.arrive_and_wait();
        return;
      }
      othersHaveLeft.arrive_and_wait();
      give();
      EXPECT_EQ(sum, std::vector<int32_t>(500, nranks * (nranks + 1) / 2));
      for (int r = 0; r < nranks; ++r) EXPECT_EQ(all[500 * static_cast<size_t>(r)], r + 1);
    });
  }
}

}  // namespace
}  // namespace omnes::tests
