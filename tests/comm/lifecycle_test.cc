// Many ranks, several communicators, many lives: nothing is mixed up and nothing is left behind.
#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "comm/thread_ranks.h"

namespace omnes::tests {
namespace {

int64_t sumOfRanks(omnesComm_t comm, int64_t value) {
  int64_t sum = 0;
  EXPECT_EQ(describe(omnesAllReduce(&value, &sum, 1, omnesInt64, omnesSum, comm, nullptr)), "0");
  return sum;
}

// More ranks than a table of eight or sixteen holds.
TEST(Lifecycle, C53SeventeenAndThirtyThreeRanks) {
  for (const int nranks : {17, 18, 33}) {
    ThreadRanks ranks(nranks);
    ranks.run([&](int rank, omnesComm_t comm) {
      int count = 0, own = -1;
      EXPECT_EQ(omnesCommCount(comm, &count), omnesSuccess);
      EXPECT_EQ(omnesCommUserRank(comm, &own), omnesSuccess);
      EXPECT_EQ(count, nranks);
      EXPECT_EQ(own, rank);
      for (int round = 0; round < 5; ++round) {
        EXPECT_EQ(describe(omnesBarrier(comm, nullptr)), "0");
        EXPECT_EQ(sumOfRanks(comm, rank + round),
                  int64_t{nranks} * (nranks - 1) / 2 + int64_t{round} * nranks);
      }
      std::vector<float> data(20011, static_cast<float>(rank));
      EXPECT_EQ(describe(omnesAllReduce(data.data(), data.data(), data.size(), omnesFloat32,
                                        omnesSum, comm, nullptr)),
                "0");
      EXPECT_EQ(data,
                std::vector<float>(data.size(), static_cast<float>(nranks * (nranks - 1) / 2)));
    });
  }
}

// Destroying a communicator that another thread is using is refused; aborting it ends that call.
TEST(Lifecycle, DestroyIsRefusedWhileAnotherThreadIsInside) {
  ThreadRanks ranks(2);
  ASSERT_TRUE(ranks.isReady());
  const Watchdog watchdog("destroy while inside", std::chrono::seconds(60));
  const omnesComm_t comm = ranks.release(0);
  omnesResult_t ended = omnesSuccess;
  std::atomic<pid_t> entering{0};
  std::thread inside([&] {
    int64_t value = 1;
    entering.store(gettid(), std::memory_order_release);
    // Rank 1 never comes.
    ended = omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comm, nullptr);
  });
  pid_t thread = 0;
  while (thread == 0) thread = entering.load(std::memory_order_acquire);
  while (!isAsleep(thread)) std::this_thread::yield();
  EXPECT_EQ(omnesCommDestroy(comm), omnesInvalidUsage);
  EXPECT_EQ(omnesCommAbort(comm), omnesSuccess);
  inside.join();
  EXPECT_EQ(ended, omnesRemoteError);
  omnesResult_t other = omnesSuccess;
  while (other == omnesSuccess)
    ASSERT_EQ(omnesCommGetAsyncError(ranks.comm(1), &other), omnesSuccess);
  EXPECT_EQ(other, omnesRemoteError);
}

TEST(Lifecycle, TwoCommunicatorsAtOnce) {
  constexpr int kRanks = 3, kCalls = kSanitized ? 100 : 1000;
  ThreadRanks first(kRanks), second(kRanks, {.algo = "ring"});
  ASSERT_TRUE(first.isReady() && second.isReady());
  runThreads(2 * kRanks, "two communicators", std::chrono::seconds(120), [&](int thread) {
    const bool isFirst = thread < kRanks;
    const int rank = thread % kRanks;
    const omnesComm_t comm = (isFirst ? first : second).comm(rank);
    std::vector<int32_t> in(500), out(500);
    for (int call = 0; call < kCalls; ++call) {
      const int32_t value = call * (isFirst ? 1 : -1);
      in.assign(in.size(), value + rank);
      ASSERT_EQ(
          omnesAllReduce(in.data(), out.data(), in.size(), omnesInt32, omnesSum, comm, nullptr),
          omnesSuccess);
      ASSERT_EQ(out[0], value * kRanks + kRanks);
      ASSERT_EQ(out[499], value * kRanks + kRanks);
    }
  });
}

size_t entriesOf(const char* folder) {
  size_t count = 0;
  DIR* directory = opendir(folder);
  if (directory == nullptr) return 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// Threads of the meeting point end by themselves a moment after the last rank has left.
bool comesDownTo(const char* folder, size_t most) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (entriesOf(folder) > most) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(Lifecycle, InitAndDestroyLeaveNoDescriptorAndNoThread) {
  const auto live = [](int times) {
    for (int i = 0; i < times; ++i) {
      ThreadRanks ranks(2);
      ranks.run([](int rank, omnesComm_t comm) { EXPECT_EQ(sumOfRanks(comm, rank), 1); });
    }
  };
  live(3);  // what is opened once stays open
  // Judged against a settled start: earlier threads may still be ending.
  ASSERT_TRUE(comesDownTo("/proc/self/task", 2 + 1 + (kSanitized ? 1 : 0)));
  const size_t descriptors = entriesOf("/proc/self/fd"), threads = entriesOf("/proc/self/task");
  live(kSanitized ? 30 : 200);
  EXPECT_TRUE(comesDownTo("/proc/self/fd", descriptors))
      << descriptors << " before, " << entriesOf("/proc/self/fd") << " after";
  EXPECT_TRUE(comesDownTo("/proc/self/task", threads))
      << threads << " before, " << entriesOf("/proc/self/task") << " after";
}

}  // namespace
}  // namespace omnes::tests
