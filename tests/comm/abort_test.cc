// Abort, whoever is blocked where: every call comes out, in time, and buffers may go at once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
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

enum class Where { kCall, kBehind, kStream, kSynchronize, kGroup, kDestroy };

// Rank 0 blocks, since rank 1 never comes, and another thread aborts rank 0.
void blockAndAbort(Where where, size_t count) {
  ThreadRanks ranks(2);
  ASSERT_TRUE(ranks.isReady());
  const Watchdog watchdog("abort of a blocked call", kLimit);
  const omnesComm_t comm = ranks.release(0);
  omnesStream_t stream = nullptr;
  ASSERT_EQ(omnesStreamCreate(&stream), omnesSuccess);
  auto buffer = std::make_unique<std::vector<float>>(count, 1.0f);
  float* at = buffer->data();
  std::atomic<pid_t> blocked{0};
  omnesResult_t result = omnesSuccess;
  const auto call = [&](omnesStream_t on) {
    return omnesAllReduce(at, at, count, omnesFloat32, omnesSum, comm, on);
  };
  if (where != Where::kCall && where != Where::kGroup) {
    ASSERT_EQ(call(stream), omnesSuccess);
  }
  std::thread thread([&] {
    if (where == Where::kGroup) {
      EXPECT_EQ(omnesGroupStart(), omnesSuccess);
      EXPECT_EQ(call(nullptr), omnesSuccess);
    }
    blocked.store(gettid(), std::memory_order_release);
    switch (where) {
      case Where::kCall:
      case Where::kBehind: result = call(nullptr); break;
      case Where::kStream: result = omnesRemoteError; break;
      case Where::kSynchronize: result = omnesStreamSynchronize(stream); break;
      case Where::kGroup: result = omnesGroupEnd(); break;
      case Where::kDestroy: result = omnesCommDestroy(comm); break;
    }
  });
  pid_t id = 0;
  while (id == 0) id = blocked.load(std::memory_order_acquire);
  if (where != Where::kStream)
    while (!isAsleep(id)) std::this_thread::yield();
  const auto start = Clock::now();
  EXPECT_EQ(describe(omnesCommAbort(comm)), "0");
  // Under Address sanitizer: nobody is inside it.
  buffer.reset();
  EXPECT_LT(Clock::now() - start, kAbortLimit);
  thread.join();
  EXPECT_LT(Clock::now() - start, kAbortLimit);
  EXPECT_EQ(result, where == Where::kDestroy ? omnesInvalidArgument : omnesRemoteError);
  const omnesResult_t later = omnesStreamSynchronize(stream);
  const bool isTold =
      where == Where::kBehind || where == Where::kStream || where == Where::kDestroy;
  EXPECT_EQ(later, isTold ? omnesRemoteError : omnesSuccess);
  EXPECT_EQ(omnesStreamDestroy(stream), omnesSuccess);
  EXPECT_EQ(omnesCommAbort(comm), omnesInvalidArgument);
}

TEST(Abort, EndsEveryBlockedCall) {
  for (const Where where : {Where::kCall, Where::kBehind, Where::kStream, Where::kSynchronize,
                            Where::kGroup, Where::kDestroy})
    for (const size_t count : {size_t{2}, size_t{1} << 20}) {
      SCOPED_TRACE(static_cast<int>(where));
      blockAndAbort(where, count);
    }
}

// A group over two communicators: the abort of one ends its operation, the other goes on.
TEST(Abort, OfOneCommunicatorOfAGroup) {
  ThreadRanks doomed(2), sound(2);
  ASSERT_TRUE(doomed.isReady() && sound.isReady());
  const Watchdog watchdog("abort within a group", kLimit);
  const omnesComm_t comm = doomed.release(0);
  std::atomic<pid_t> blocked{0};
  int64_t first = 1, second = 1;
  omnesResult_t result = omnesSuccess;
  std::thread thread([&] {
    EXPECT_EQ(omnesGroupStart(), omnesSuccess);
    EXPECT_EQ(omnesAllReduce(&first, &first, 1, omnesInt64, omnesSum, comm, nullptr), omnesSuccess);
    EXPECT_EQ(omnesAllReduce(&second, &second, 1, omnesInt64, omnesSum, sound.comm(0), nullptr),
              omnesSuccess);
    blocked.store(gettid(), std::memory_order_release);
    result = omnesGroupEnd();
  });
  pid_t id = 0;
  while (id == 0) id = blocked.load(std::memory_order_acquire);
  while (!isAsleep(id)) std::this_thread::yield();
  EXPECT_EQ(omnesCommDestroy(sound.comm(0)), omnesInvalidUsage);
  const auto start = Clock::now();
  EXPECT_EQ(omnesCommAbort(comm), omnesSuccess);
  EXPECT_LT(Clock::now() - start, kAbortLimit);
  int64_t other = 1;
  EXPECT_EQ(
      describe(omnesAllReduce(&other, &other, 1, omnesInt64, omnesSum, sound.comm(1), nullptr)),
      "0");
  thread.join();
  EXPECT_EQ(result, omnesRemoteError);
  EXPECT_EQ(second, 2);
}

// One thread calls without a pause while another aborts: the first gets an error, never a crash.
TEST(Abort, RacesWithCallsAndQueries) {
  constexpr int kRounds = kSanitized ? 10 : 50;
  for (int round = 0; round < kRounds; ++round) {
    ThreadRanks ranks(2);
    ASSERT_TRUE(ranks.isReady());
    omnesComm_t comms[2] = {ranks.release(0), ranks.release(1)};
    std::atomic<int> calls{0};
    runThreads(4, "abort against calls", kLimit, [&](int thread) {
      if (thread < 2) {
        std::vector<float> values(2000, 1.0f);
        omnesResult_t result;
        do {
          result = omnesAllReduce(values.data(), values.data(), values.size(), omnesFloat32,
                                  omnesMax, comms[thread], nullptr);
          calls.fetch_add(1, std::memory_order_relaxed);
        } while (result == omnesSuccess);
        EXPECT_TRUE(result == omnesRemoteError || result == omnesInvalidArgument) << result;
      } else if (thread == 2) {
        omnesResult_t state = omnesSuccess;
        int count = 0;
        while (omnesCommGetAsyncError(comms[0], &state) == omnesSuccess) {
          const omnesResult_t counted = omnesCommCount(comms[0], &count);
          EXPECT_TRUE(counted == omnesInvalidArgument || count == 2);
        }
      } else {
        while (calls.load(std::memory_order_relaxed) < 20 * round) std::this_thread::yield();
        EXPECT_EQ(omnesCommAbort(comms[0]), omnesSuccess);
      }
    });
    EXPECT_EQ(omnesCommAbort(comms[1]), omnesSuccess);
  }
}

// Both communicators blocked, aborted in either order and twice at once.
TEST(Abort, TwoCommunicatorsInAnyOrderAndTwiceAtOnce) {
  for (const int order : {0, 1}) {
    ThreadRanks a(2), b(2);
    ASSERT_TRUE(a.isReady() && b.isReady());
    const Watchdog watchdog("abort of two communicators", kLimit);
    omnesComm_t comms[2] = {a.release(0), b.release(0)};
    omnesStream_t stream = nullptr;
    ASSERT_EQ(omnesStreamCreate(&stream), omnesSuccess);
    int64_t values[2] = {1, 1};
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(omnesAllReduce(&values[i], &values[i], 1, omnesInt64, omnesSum, comms[i], stream),
                omnesSuccess);
    for (const int i : {order, 1 - order}) {
      const auto start = Clock::now();
      omnesResult_t results[2];
      std::thread twin([&] { results[1] = omnesCommAbort(comms[i]); });
      results[0] = omnesCommAbort(comms[i]);
      twin.join();
      EXPECT_LT(Clock::now() - start, kAbortLimit);
      EXPECT_EQ(results[0] + results[1], int{omnesSuccess} + int{omnesInvalidArgument});
    }
    EXPECT_EQ(omnesStreamSynchronize(stream), omnesRemoteError);
    EXPECT_EQ(omnesStreamDestroy(stream), omnesSuccess);
  }
}

// A long copy of one rank is cut, so that an abort need not wait for its end.
TEST(Abort, OfALongCopyOfOneRank) {
  constexpr size_t kBytes = size_t{kSanitized ? 256 : 1024} << 20;
  ThreadRanks ranks(1);
  ASSERT_TRUE(ranks.isReady());
  const Watchdog watchdog("abort of a copy", kLimit);
  const omnesComm_t comm = ranks.release(0);
  std::vector<uint8_t> in(kBytes, 1), out(kBytes, 0);
  omnesStream_t stream = nullptr;
  ASSERT_EQ(omnesStreamCreate(&stream), omnesSuccess);
  // Enough that one is under way, whenever the abort comes.
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(omnesAllReduce(in.data(), out.data(), kBytes, omnesUint8, omnesSum, comm, stream),
              omnesSuccess);
  const auto start = Clock::now();
  EXPECT_EQ(omnesCommAbort(comm), omnesSuccess);
  EXPECT_LT(Clock::now() - start, kAbortLimit);
  EXPECT_EQ(omnesStreamSynchronize(stream), omnesRemoteError);
  EXPECT_EQ(omnesStreamDestroy(stream), omnesSuccess);
}

}  // namespace
}  // namespace omnes::tests
