// Streams: order, callbacks, waiting and helping, failures, and what may not be done.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/thread_ranks.h"

namespace omnes::tests {
namespace {

constexpr std::chrono::seconds kLimit{kSanitized ? 240 : 60};

omnesStream_t makeStream() {
  omnesStream_t stream = nullptr;
  EXPECT_EQ(describe(omnesStreamCreate(&stream)), "0");
  return stream;
}

void expectDestroyed(omnesStream_t stream) { EXPECT_EQ(describe(omnesStreamDestroy(stream)), "0"); }

omnesResult_t sum(int64_t* value, omnesComm_t comm, omnesStream_t stream) {
  return omnesAllReduce(value, value, 1, omnesInt64, omnesSum, comm, stream);
}

// What a test holds back and lets go; never a sleep.
class Gate {
 public:
  void open() { open_.store(true, std::memory_order_release); }
  void wait() const {
    while (!open_.load(std::memory_order_acquire)) std::this_thread::yield();
  }

 private:
  std::atomic<bool> open_{false};
};

void waitAtGate(omnesStream_t, omnesResult_t, void* gate) { static_cast<Gate*>(gate)->wait(); }

TEST(Streams, OperationsOfOneCommunicatorKeepTheirOrderOverStreams) {
  for (const int nranks : {1, 2, 4}) {
    ThreadRanks ranks(nranks);
    ranks.run([&](int rank, omnesComm_t comm) {
      omnesStream_t streams[3] = {makeStream(), makeStream(), makeStream()};
      constexpr int kCalls = kSanitized ? 60 : 300;
      for (int round = 0; round < 3; ++round) {
        // Each operation takes the result of the one before, which ran in another stream.
        std::vector<int64_t> values(1000, 0);
        int64_t expected = 0;
        for (int call = 0; call < kCalls; ++call) {
          const omnesStream_t stream = streams[(call * 7 + rank) % 3];
          // max(0, x) in place, then sum: n * x, as only every tenth call sums.
          const omnesRedOp_t op = call % 10 == 0 ? omnesSum : omnesMax;
          if (call == 0) {
            values.assign(values.size(), rank + 1);
            expected = nranks * (nranks + 1) / 2;
          } else if (op == omnesSum && call < 100) {
            expected *= nranks;
          }
          const bool sums = op == omnesSum && call < 100;
          ASSERT_EQ(describe(omnesAllReduce(values.data(), values.data(), values.size(), omnesInt64,
                                            sums ? omnesSum : omnesMax, comm, stream)),
                    "0");
        }
        for (const omnesStream_t stream : streams)
          ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
        ASSERT_EQ(values, std::vector<int64_t>(values.size(), expected));
      }
      for (const omnesStream_t stream : streams) expectDestroyed(stream);
    });
  }
}

TEST(Streams, CallWithoutStreamComesBehindPendingOnes) {
  ThreadRanks ranks(3);
  ranks.run([](int rank, omnesComm_t comm) {
    const omnesStream_t stream = makeStream();
    for (int round = 0; round < 20; ++round) {
      int64_t value = rank + 1;
      std::vector<float> big(100000, 1.0f);
      ASSERT_EQ(describe(omnesAllReduce(big.data(), big.data(), big.size(), omnesFloat32, omnesSum,
                                        comm, stream)),
                "0");
      ASSERT_EQ(describe(sum(&value, comm, stream)), "0");
      ASSERT_EQ(describe(sum(&value, comm, nullptr)), "0");
      ASSERT_EQ(value, 18);
      ASSERT_EQ(big[99999], 3.0f);
      ASSERT_EQ(describe(omnesStreamQuery(stream)), "0");
      // Nothing is pending: the next one runs inline again.
      ASSERT_EQ(describe(sum(&value, comm, nullptr)), "0");
      ASSERT_EQ(value, 54);
    }
    expectDestroyed(stream);
  });
}

TEST(Streams, EveryCollectiveEveryKindOfCount) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks);
  ranks.run([](int rank, omnesComm_t comm) {
    const omnesStream_t stream = makeStream();
    double factor = rank + 1;
    omnesRedOp_t scaled = omnesSum;
    ASSERT_EQ(describe(omnesRedOpCreatePreMulSum(&scaled, &factor, omnesFloat64,
                                                 omnesScalarHostImmediate, comm)),
              "0");
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{70000}}) {
      std::vector<double> in(count * kRanks, 2.0), all(count * kRanks, 0.0), part(count, 0.0),
          scaledSum(count, 0.0);
      ASSERT_EQ(describe(omnesReduceScatter(in.data(), part.data(), count, omnesFloat64, omnesSum,
                                            comm, stream)),
                "0");
      ASSERT_EQ(describe(omnesAllReduce(in.data(), scaledSum.data(), count, omnesFloat64, scaled,
                                        comm, stream)),
                "0");
      ASSERT_EQ(describe(omnesBarrier(comm, stream)), "0");
      ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
      std::vector<double> own(count, rank);
      ASSERT_EQ(describe(omnesAllGather(own.data(), all.data(), count, omnesFloat64, comm, stream)),
                "0");
      ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
      EXPECT_EQ(part, std::vector<double>(count, 6.0));
      EXPECT_EQ(scaledSum, std::vector<double>(count, 12.0));
      for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<double>(i / count));
    }
    // The operator may go while an operation with it is pending.
    double in = 1, out = 0;
    ASSERT_EQ(describe(omnesAllReduce(&in, &out, 1, omnesFloat64, scaled, comm, stream)), "0");
    ASSERT_EQ(describe(omnesRedOpDestroy(scaled, comm)), "0");
    expectDestroyed(stream);
    EXPECT_EQ(out, 6.0);
  });
}

// More shapes than the cache of prepared operations holds, all pending at once.
TEST(Streams, PendingOperationsKeepWhatWasPrepared) {
  ThreadRanks ranks(2);
  ranks.run([](int rank, omnesComm_t comm) {
    constexpr size_t kShapes = 700;
    const omnesStream_t stream = makeStream();
    Gate gate;
    ASSERT_EQ(omnesStreamAddCallback(stream, waitAtGate, &gate, 0), omnesSuccess);
    std::vector<std::vector<int32_t>> buffers;
    for (size_t i = 0; i < kShapes; ++i) buffers.emplace_back(i + 1, static_cast<int>(i) + rank);
    for (auto& buffer : buffers)
      ASSERT_EQ(describe(omnesAllReduce(buffer.data(), buffer.data(), buffer.size(), omnesInt32,
                                        omnesSum, comm, stream)),
                "0");
    EXPECT_EQ(omnesStreamQuery(stream), omnesInProgress);
    gate.open();
    ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    for (size_t i = 0; i < kShapes; ++i)
      ASSERT_EQ(buffers[i], std::vector<int32_t>(i + 1, 2 * static_cast<int>(i) + 1));
    expectDestroyed(stream);
  });
}

struct Log {
  std::vector<int> order;
  std::vector<omnesResult_t> statuses;
  std::vector<pid_t> threads;
  int64_t* value = nullptr;
  std::vector<int64_t> seen;
};

void note(omnesStream_t, omnesResult_t status, void* data) {
  auto* log = static_cast<Log*>(data);
  log->order.push_back(static_cast<int>(log->order.size()));
  log->statuses.push_back(status);
  log->threads.push_back(gettid());
  if (log->value != nullptr) log->seen.push_back(*log->value);
}

TEST(Streams, CallbacksComeInOrderOnAThreadOfTheLibrary) {
  ThreadRanks ranks(2);
  ranks.run([](int, omnesComm_t comm) {
    const omnesStream_t stream = makeStream();
    int64_t value = 1;
    Log log;
    log.value = &value;
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(describe(sum(&value, comm, stream)), "0");
      ASSERT_EQ(describe(omnesStreamAddCallback(stream, note, &log, 0)), "0");
    }
    ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    std::vector<int64_t> powers;
    for (int64_t i = 1; i <= 10; ++i) powers.push_back(int64_t{1} << i);
    EXPECT_EQ(log.seen, powers);
    EXPECT_EQ(log.statuses, std::vector<omnesResult_t>(10, omnesSuccess));
    for (const pid_t thread : log.threads) EXPECT_NE(thread, gettid());
    expectDestroyed(stream);
  });
}

struct FromCallback {
  omnesComm_t comm = nullptr;
  int64_t value = 1;
  omnesStream_t made = nullptr;
  std::vector<omnesResult_t> results;
  Log log;
};

void callOmnes(omnesStream_t stream, omnesResult_t, void* data) {
  auto* from = static_cast<FromCallback*>(data);
  const auto add = [from](omnesResult_t result) { from->results.push_back(result); };
  add(sum(&from->value, from->comm, nullptr));
  add(omnesStreamCreate(&from->made));
  add(sum(&from->value, from->comm, from->made));
  add(omnesStreamSynchronize(from->made));
  add(omnesStreamDestroy(from->made));
  add(omnesGroupStart());
  add(sum(&from->value, from->comm, nullptr));
  add(omnesGroupEnd());
  add(omnesStreamAddCallback(stream, note, &from->log, 0));
  add(sum(&from->value, from->comm, stream));  // comes behind this callback
  add(omnesStreamSynchronize(stream));
  add(omnesStreamDestroy(stream));
}

TEST(Streams, CallbacksMayCallButNotWaitForTheirOwnStream) {
  ThreadRanks ranks(2);
  ranks.run([](int, omnesComm_t comm) {
    const omnesStream_t stream = makeStream();
    FromCallback from;
    from.comm = comm;
    ASSERT_EQ(describe(omnesStreamAddCallback(stream, callOmnes, &from, 0)), "0");
    ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    expectDestroyed(stream);
    std::vector<omnesResult_t> expected(12, omnesSuccess);
    expected[10] = expected[11] = omnesInvalidUsage;
    EXPECT_EQ(from.results, expected);
    EXPECT_EQ(from.value, 16);
    EXPECT_EQ(from.log.order.size(), 1u);
  });
}

struct SelfWait {
  omnesComm_t comm = nullptr;
  Gate gate;
  omnesResult_t result = omnesSuccess, finalized = omnesSuccess;
  int64_t value = 1;
};

void waitForWhatIsBehind(omnesStream_t, omnesResult_t, void* data) {
  auto* self = static_cast<SelfWait*>(data);
  self->gate.wait();
  self->result = sum(&self->value, self->comm, nullptr);
  self->finalized = omnesCommFinalize(self->comm);
}

TEST(Streams, CallbackThatWouldWaitForWhatIsBehindItIsRefused) {
  ThreadRanks ranks(2);
  ranks.run([](int, omnesComm_t comm) {
    const omnesStream_t stream = makeStream();
    SelfWait self;
    self.comm = comm;
    int64_t value = 1;
    ASSERT_EQ(omnesStreamAddCallback(stream, waitForWhatIsBehind, &self, 0), omnesSuccess);
    ASSERT_EQ(describe(sum(&value, comm, stream)), "0");
    self.gate.open();
    ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    EXPECT_EQ(self.result, omnesInvalidUsage);
    EXPECT_EQ(self.finalized, omnesInvalidUsage);
    EXPECT_EQ(value, 2);
    EXPECT_EQ(self.value, 1);
    expectDestroyed(stream);
  });
}

void throwOut(omnesStream_t, omnesResult_t, void*) { throw std::runtime_error("from a callback"); }

TEST(Streams, CallbackThatThrowsIsCaught) {
  const Watchdog watchdog("throwing callback", kLimit);
  const omnesStream_t stream = makeStream();
  Log log;
  ASSERT_EQ(omnesStreamAddCallback(stream, throwOut, nullptr, 0), omnesSuccess);
  ASSERT_EQ(omnesStreamAddCallback(stream, note, &log, 0), omnesSuccess);
  EXPECT_EQ(describe(omnesStreamSynchronize(stream)), "0");
  EXPECT_EQ(log.order.size(), 1u);
  expectDestroyed(stream);
}

TEST(Streams, BadHandlesAreRefused) {
  const Watchdog watchdog("bad handles", kLimit);
  std::vector<char> noStream(4096, 'x');
  auto* bad = reinterpret_cast<omnesStream_t>(noStream.data());
  EXPECT_EQ(omnesStreamCreate(nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesStreamDestroy(nullptr), omnesSuccess);
  EXPECT_EQ(omnesStreamDestroy(bad), omnesInvalidArgument);
  EXPECT_EQ(omnesStreamSynchronize(bad), omnesInvalidArgument);
  EXPECT_EQ(omnesStreamSynchronize(nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesStreamQuery(bad), omnesInvalidArgument);
  EXPECT_EQ(omnesStreamQuery(nullptr), omnesInvalidArgument);
  const omnesStream_t stream = makeStream();
  EXPECT_EQ(omnesStreamAddCallback(stream, nullptr, nullptr, 0), omnesInvalidArgument);
  EXPECT_EQ(omnesStreamAddCallback(stream, note, nullptr, 1), omnesInvalidArgument);
  EXPECT_EQ(omnesStreamAddCallback(nullptr, note, nullptr, 0), omnesInvalidArgument);
  EXPECT_EQ(omnesStreamAddCallback(bad, note, nullptr, 0), omnesInvalidArgument);
  EXPECT_EQ(describe(omnesStreamQuery(stream)), "0");
  expectDestroyed(stream);
  EXPECT_EQ(omnesStreamDestroy(stream), omnesInvalidArgument);
  EXPECT_EQ(omnesStreamSynchronize(stream), omnesInvalidArgument);
  ThreadRanks ranks(1);
  int64_t value = 1;
  EXPECT_EQ(sum(&value, ranks.comm(0), stream), omnesInvalidArgument);
  EXPECT_EQ(describe(sum(&value, ranks.comm(0), nullptr)), "0");
}

// Several threads wait for one stream; one of them drives, and the stream's thread comes back.
TEST(Streams, ManyThreadsHelp) {
  constexpr int kRanks = 2, kWaiters = 3, kCalls = kSanitized ? 50 : 300;
  ThreadRanks ranks(kRanks);
  ranks.run([](int, omnesComm_t comm) {
    const omnesStream_t stream = makeStream();
    std::vector<int32_t> values(3000, 1);
    std::atomic<bool> ended{false};
    std::vector<std::thread> waiters;
    for (int i = 0; i < kWaiters; ++i)
      waiters.emplace_back([&] {
        while (!ended.load(std::memory_order_acquire))
          EXPECT_EQ(describe(omnesStreamSynchronize(stream)), "0");
      });
    for (int call = 0; call < kCalls; ++call)
      EXPECT_EQ(describe(omnesAllReduce(values.data(), values.data(), values.size(), omnesInt32,
                                        omnesMax, comm, stream)),
                "0");
    EXPECT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    ended.store(true, std::memory_order_release);
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_EQ(values, std::vector<int32_t>(3000, 1));
    expectDestroyed(stream);
  });
}

// One stream, two threads, each with all ranks of a communicator of its own: what one enqueues
// comes between what the other does.
TEST(Streams, TwoThreadsShareAStream) {
  constexpr int kRanks = 2, kCalls = kSanitized ? 100 : 500;
  ThreadRanks first(kRanks), second(kRanks);
  ASSERT_TRUE(first.isReady() && second.isReady());
  const omnesStream_t stream = makeStream();
  runThreads(2, "two threads and one stream", kLimit, [&](int thread) {
    ThreadRanks& ranks = thread == 0 ? first : second;
    std::vector<int64_t> values(kRanks * kCalls, thread + 1);
    for (size_t call = 0; call < kCalls; ++call) {
      ASSERT_EQ(describe(omnesGroupStart()), "0");
      for (int rank = 0; rank < kRanks; ++rank)
        ASSERT_EQ(describe(sum(&values[call * kRanks + static_cast<size_t>(rank)], ranks.comm(rank),
                               stream)),
                  "0");
      ASSERT_EQ(describe(omnesGroupEnd()), "0");
    }
    ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    EXPECT_EQ(values, std::vector<int64_t>(values.size(), kRanks * (thread + 1)));
  });
  expectDestroyed(stream);
}

// A failed operation is told once, by the stream that had it; its communicator stays failed, others
// on the stream go on.
TEST(Streams, FailureIsToldOnceAndOthersGoOn) {
  constexpr int kRanks = 2;
  ThreadRanks broken(kRanks), sound(kRanks);
  ASSERT_TRUE(broken.isReady() && sound.isReady());
  runThreads(kRanks, "failure on a stream", kLimit, [&](int rank) {
    const omnesStream_t stream = makeStream();
    const omnesComm_t bad = broken.comm(rank), good = sound.comm(rank);
    Log log;
    int64_t one = 1, two = rank + 1;
    // The counts differ.
    std::vector<int64_t> odd(3, 1);
    ASSERT_EQ(omnesAllReduce(odd.data(), odd.data(), 2u + static_cast<unsigned>(rank), omnesInt64,
                             omnesSum, bad, stream),
              omnesSuccess);
    ASSERT_EQ(omnesStreamAddCallback(stream, note, &log, 0), omnesSuccess);
    const omnesResult_t behind = sum(&one, bad, stream);
    EXPECT_TRUE(behind == omnesSuccess || behind == omnesInvalidUsage) << behind;
    ASSERT_EQ(describe(sum(&two, good, stream)), "0");
    ASSERT_EQ(omnesStreamAddCallback(stream, note, &log, 0), omnesSuccess);
    omnesResult_t state;
    while ((state = omnesStreamQuery(stream)) == omnesInProgress) std::this_thread::yield();
    EXPECT_EQ(state, omnesInvalidUsage);
    EXPECT_EQ(omnesStreamSynchronize(stream), omnesInvalidUsage);
    EXPECT_NE(std::string(omnesGetLastError(nullptr)).find(" called "), std::string::npos);
    EXPECT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    EXPECT_EQ(describe(omnesStreamQuery(stream)), "0");
    EXPECT_EQ(one, 1);
    EXPECT_EQ(two, 3);
    ASSERT_EQ(log.statuses.size(), 2u);
    EXPECT_EQ(log.statuses[0], omnesInvalidUsage);
    // Of the operation in between, if it was taken.
    EXPECT_EQ(log.statuses[1], behind == omnesSuccess ? omnesInvalidUsage : omnesSuccess);
    EXPECT_EQ(sum(&one, bad, stream), omnesInvalidUsage);
    EXPECT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    expectDestroyed(stream);
  });
}

TEST(Streams, DeadlineEndsTheWait) {
  omnesUniqueId id;
  ASSERT_EQ(omnesGetUniqueId(&id), omnesSuccess);
  Gate others;
  runThreads(2, "deadline of a stream", kLimit, [&](int rank) {
    omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
    config.timeoutMs = rank == 0 ? 200 : 0;
    omnesComm_t comm = nullptr;
    ASSERT_EQ(describe(omnesCommInitRankConfig(&comm, 2, id, rank, &config)), "0");
    const omnesStream_t stream = makeStream();
    int64_t value = 1;
    if (rank == 0) {
      ASSERT_EQ(describe(sum(&value, comm, stream)), "0");
      EXPECT_EQ(omnesStreamSynchronize(stream), omnesTimeout);
      EXPECT_NE(std::string(omnesGetLastError(comm)).find("rank 1"), std::string::npos);
      others.open();
    }
    others.wait();
    expectDestroyed(stream);
    EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
  });
}

TEST(Streams, DestroyAndFinalizeWaitForWhatIsPending) {
  ThreadRanks ranks(2);
  ranks.run([&](int rank, omnesComm_t comm) {
    const omnesStream_t stream = makeStream();
    std::vector<float> values(200000, 1.0f);
    for (int i = 0; i < 5; ++i)
      ASSERT_EQ(describe(omnesAllReduce(values.data(), values.data(), values.size(), omnesFloat32,
                                        omnesSum, comm, stream)),
                "0");
    if (rank == 0) {
      ASSERT_EQ(describe(omnesCommFinalize(comm)), "0");
      EXPECT_EQ(values[0], 32.0f);
      int64_t value = 1;
      EXPECT_EQ(sum(&value, comm, stream), omnesInvalidUsage);
      EXPECT_EQ(sum(&value, comm, nullptr), omnesInvalidUsage);
    }
    ASSERT_EQ(describe(omnesCommDestroy(ranks.release(rank))), "0");
    EXPECT_EQ(values, std::vector<float>(200000, 32.0f));
    EXPECT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    expectDestroyed(stream);
  });
}

// Operations that have not begun end with the abort, though their stream cannot get to them.
TEST(Streams, AbortCompletesWhatStandsBehindABlockedCallback) {
  ThreadRanks ranks(2), others(2);
  ASSERT_TRUE(ranks.isReady() && others.isReady());
  runThreads(2, "abort with pending operations", kLimit, [&](int rank) {
    const omnesStream_t stream = makeStream();
    const omnesComm_t comm = ranks.release(rank);
    Gate gate;
    auto buffer = std::make_unique<std::vector<float>>(100000, 1.0f);
    int64_t value = 1;
    ASSERT_EQ(omnesStreamAddCallback(stream, waitAtGate, &gate, 0), omnesSuccess);
    omnesResult_t enqueued = omnesAllReduce(buffer->data(), buffer->data(), buffer->size(),
                                            omnesFloat32, omnesSum, comm, stream);
    ASSERT_EQ(omnesCommAbort(comm), omnesSuccess);
    buffer.reset();
    EXPECT_EQ(omnesCommAbort(comm), omnesInvalidArgument);
    gate.open();
    const omnesResult_t ended = omnesStreamSynchronize(stream);
    // The other rank's abort may have come before the call.
    EXPECT_EQ(enqueued == omnesSuccess ? ended : enqueued, omnesRemoteError);
    // The stream is as good as ever.
    ASSERT_EQ(describe(sum(&value, others.comm(rank), stream)), "0");
    ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    EXPECT_EQ(value, 2);
    expectDestroyed(stream);
  });
}

}  // namespace
}  // namespace omnes::tests
