// Groups: several ranks of one thread, refused calls, and the thread that forgot to group.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/thread_ranks.h"

namespace omnes::tests {
namespace {

constexpr std::chrono::seconds kLimit{kSanitized ? 240 : 60};

// All ranks of a communicator, in this thread. Its watchdog is a signal: a thread would be one that
// might use the ranks.
class OneThread : public ::testing::Test {
 protected:
  void SetUp() override { alarm(static_cast<unsigned>(kLimit.count())); }
  void TearDown() override {
    for (omnesComm_t comm : comms_) EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
    alarm(0);
  }
  void make(int nranks) {
    comms_.assign(static_cast<size_t>(nranks), nullptr);
    ASSERT_EQ(describe(omnesCommInitAll(comms_.data(), nranks, nullptr)), "0");
  }
  void drop() {
    for (omnesComm_t& comm : comms_) {
      EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
      comm = nullptr;
    }
    comms_.clear();
  }
  // Every rank brings its number plus one, in one group, in streams[rank] or the NULL stream.
  void sumAll(size_t count, const std::vector<omnesStream_t>& streams = {}) {
    const size_t n = comms_.size();
    in_.assign(n, {});
    out_.assign(n, std::vector<int32_t>(count, -1));
    ASSERT_EQ(describe(omnesGroupStart()), "0");
    for (size_t rank = 0; rank < n; ++rank) {
      in_[rank].assign(count, static_cast<int32_t>(rank) + 1);
      ASSERT_EQ(
          describe(omnesAllReduce(in_[rank].data(), out_[rank].data(), count, omnesInt32, omnesSum,
                                  comms_[rank], streams.empty() ? nullptr : streams[rank])),
          "0");
      // Only noted.
      ASSERT_EQ(out_[rank], std::vector<int32_t>(count, -1));
    }
    ASSERT_EQ(describe(omnesGroupEnd()), "0");
  }
  void expectSums() {
    const int32_t n = static_cast<int32_t>(comms_.size());
    for (const auto& out : out_) ASSERT_EQ(out, std::vector<int32_t>(out.size(), n * (n + 1) / 2));
  }

  std::vector<omnesComm_t> comms_;
  std::vector<std::vector<int32_t>> in_, out_;
};
using Groups = OneThread;

TEST_F(Groups, OneThreadHasAllRanks) {
  for (int nranks = 1; nranks <= 8; ++nranks) {
    make(nranks);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{5000}, size_t{300000}}) {
      sumAll(count);
      expectSums();
    }
    drop();
  }
}

TEST_F(Groups, WithAStreamForEachRank) {
  for (const int nranks : {1, 2, 5, 8}) {
    make(nranks);
    std::vector<omnesStream_t> streams(comms_.size());
    for (omnesStream_t& stream : streams) ASSERT_EQ(omnesStreamCreate(&stream), omnesSuccess);
    for (const size_t count : {size_t{1}, size_t{5000}, size_t{100000}}) {
      sumAll(count, streams);
      for (const omnesStream_t stream : streams)
        ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
      expectSums();
    }
    for (const omnesStream_t stream : streams) EXPECT_EQ(describe(omnesStreamDestroy(stream)), "0");
    drop();
  }
}

// The operations of one group in one stream progress together, or they would wait for each other.
TEST_F(Groups, AllRanksInOneStream) {
  for (const int nranks : {1, 2, 5, 8}) {
    make(nranks);
    omnesStream_t stream = nullptr;
    ASSERT_EQ(omnesStreamCreate(&stream), omnesSuccess);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{5000}, size_t{100000}}) {
      sumAll(count, std::vector<omnesStream_t>(comms_.size(), stream));
      ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
      expectSums();
    }
    EXPECT_EQ(describe(omnesStreamDestroy(stream)), "0");
    drop();
  }
}

// Several operations a rank, some in streams and some not, in different order on the ranks'
// streams.
TEST_F(Groups, MixedGroup) {
  constexpr int kRanks = 4;
  make(kRanks);
  omnesStream_t streams[2];
  for (omnesStream_t& stream : streams) ASSERT_EQ(omnesStreamCreate(&stream), omnesSuccess);
  for (int round = 0; round < 20; ++round) {
    std::vector<int64_t> values(kRanks, 1);
    std::vector<float> all(kRanks * kRanks * 10, 0.0f);
    std::vector<float> own(kRanks * 10);
    ASSERT_EQ(omnesGroupStart(), omnesSuccess);
    for (int rank = 0; rank < kRanks; ++rank) {
      const size_t r = static_cast<size_t>(rank);
      omnesComm_t comm = comms_[r];
      for (size_t i = 0; i < 10; ++i) own[r * 10 + i] = static_cast<float>(rank);
      ASSERT_EQ(describe(omnesAllReduce(&values[r], &values[r], 1, omnesInt64, omnesSum, comm,
                                        streams[rank % 2])),
                "0");
      ASSERT_EQ(describe(omnesAllReduce(&values[r], &values[r], 1, omnesInt64, omnesSum, comm,
                                        rank < 2 ? nullptr : streams[1 - rank % 2])),
                "0");
      ASSERT_EQ(describe(omnesGroupStart()), "0");  // nested: nothing starts at its end
      ASSERT_EQ(describe(omnesAllGather(&own[r * 10], &all[r * kRanks * 10], 10, omnesFloat32, comm,
                                        nullptr)),
                "0");
      ASSERT_EQ(describe(omnesGroupEnd()), "0");
      ASSERT_EQ(all[r * kRanks * 10 + 35], 0.0f);
    }
    ASSERT_EQ(describe(omnesGroupEnd()), "0");
    for (const omnesStream_t stream : streams)
      ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
    EXPECT_EQ(values, std::vector<int64_t>(kRanks, 16));
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(all[i], static_cast<float>(i / 10 % kRanks)) << i;
  }
  for (const omnesStream_t stream : streams) EXPECT_EQ(describe(omnesStreamDestroy(stream)), "0");
}

TEST_F(Groups, CreatedOperators) {
  constexpr int kRanks = 3;
  make(kRanks);
  std::vector<omnesRedOp_t> ops(kRanks);
  std::vector<float> in(kRanks, 10.0f), out(kRanks, 0.0f);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    float factor = static_cast<float>(rank) + 0.5f;
    ASSERT_EQ(describe(omnesRedOpCreatePreMulSum(&ops[rank], &factor, omnesFloat32,
                                                 omnesScalarDevice, comms_[rank])),
              "0");
  }
  ASSERT_EQ(omnesGroupStart(), omnesSuccess);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(describe(omnesAllReduce(&in[rank], &out[rank], 1, omnesFloat32, ops[rank],
                                      comms_[rank], nullptr)),
              "0");
    ASSERT_EQ(describe(omnesRedOpDestroy(ops[rank], comms_[rank])), "0");
  }
  ASSERT_EQ(describe(omnesGroupEnd()), "0");
  EXPECT_EQ(out, std::vector<float>(kRanks, 45.0f));
}

TEST_F(Groups, EmptyNestedAndUnopened) {
  EXPECT_EQ(omnesGroupEnd(), omnesInvalidUsage);
  EXPECT_EQ(describe(omnesGroupStart()), "0");
  EXPECT_EQ(describe(omnesGroupStart()), "0");
  EXPECT_EQ(describe(omnesGroupEnd()), "0");
  EXPECT_EQ(describe(omnesGroupEnd()), "0");
  EXPECT_EQ(omnesGroupEnd(), omnesInvalidUsage);
}

TEST_F(Groups, RefusedCallStartsNothing) {
  make(2);
  int64_t values[2] = {1, 2};
  ASSERT_EQ(omnesGroupStart(), omnesSuccess);
  EXPECT_EQ(
      describe(omnesAllReduce(&values[0], &values[0], 1, omnesInt64, omnesSum, comms_[0], nullptr)),
      "0");
  EXPECT_EQ(omnesAllReduce(nullptr, &values[1], 1, omnesInt64, omnesSum, comms_[1], nullptr),
            omnesInvalidArgument);
  EXPECT_EQ(
      describe(omnesAllReduce(&values[1], &values[1], 1, omnesInt64, omnesSum, comms_[1], nullptr)),
      "0");
  EXPECT_EQ(omnesGroupEnd(), omnesInvalidArgument);
  EXPECT_NE(std::string(omnesGetLastError(nullptr)).find("sendbuff"), std::string::npos);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 2);
  sumAll(10);  // and all are usable, with sequence numbers that agree
  expectSums();
}

TEST_F(Groups, DestroyedCommunicatorIsDropped) {
  make(2);
  int64_t values[2] = {1, 2};
  ASSERT_EQ(omnesGroupStart(), omnesSuccess);
  for (size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(describe(omnesAllReduce(&values[rank], &values[rank], 1, omnesInt64, omnesSum,
                                      comms_[rank], nullptr)),
              "0");
  EXPECT_EQ(describe(omnesCommDestroy(comms_[1])), "0");
  comms_[1] = nullptr;
  EXPECT_EQ(omnesGroupEnd(), omnesInvalidUsage);
  EXPECT_EQ(values[0], 1);
}

TEST_F(Groups, InitCallsOfOneThread) {
  constexpr int kRanks = 3;
  omnesUniqueId first, second;
  ASSERT_EQ(omnesGetUniqueId(&first), omnesSuccess);
  ASSERT_EQ(omnesGetUniqueId(&second), omnesSuccess);
  comms_.assign(kRanks, nullptr);
  std::vector<omnesComm_t> pair(2, nullptr);
  ASSERT_EQ(omnesGroupStart(), omnesSuccess);
  for (int rank = 0; rank < kRanks; ++rank)
    ASSERT_EQ(describe(omnesCommInitRank(&comms_[static_cast<size_t>(rank)], kRanks, first, rank)),
              "0");
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_EQ(describe(omnesCommInitRank(&pair[static_cast<size_t>(rank)], 2, second, rank)), "0");
  EXPECT_EQ(comms_[0], nullptr);
  ASSERT_EQ(describe(omnesGroupEnd()), "0");
  sumAll(100);
  expectSums();
  for (const omnesComm_t comm : pair) {
    int count = 0;
    EXPECT_EQ(omnesCommCount(comm, &count), omnesSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
  }
}

// All or none: the two ranks that could have met are not left behind.
// The others of the group do not wait for a rank that will not come.
TEST_F(Groups, InitCallOfWhichOneIsRefused) {
  omnesUniqueId id;
  ASSERT_EQ(omnesGetUniqueId(&id), omnesSuccess);
  omnesConfig_t damaged = OMNES_CONFIG_INITIALIZER;
  damaged.magic = 3;
  omnesComm_t made[2] = {nullptr, nullptr};
  const std::function<omnesResult_t()> refused[] = {
      [&] { return omnesCommInitRank(&made[1], 2, id, 7); },
      [&] { return omnesCommInitRank(nullptr, 2, id, 1); },
      [&] { return omnesCommInitRankConfig(&made[1], 2, id, 1, &damaged); }};
  for (const auto& call : refused) {
    ASSERT_EQ(omnesGroupStart(), omnesSuccess);
    EXPECT_EQ(omnesCommInitRank(&made[0], 2, id, 0), omnesSuccess);
    EXPECT_EQ(call(), omnesInvalidArgument);
    EXPECT_EQ(omnesGroupEnd(), omnesInvalidArgument);
    EXPECT_EQ(made[0], nullptr);
    EXPECT_EQ(made[1], nullptr);
  }
}

TEST_F(Groups, InitCallsOfWhichOneFails) {
  omnesUniqueId first, second;
  ASSERT_EQ(omnesGetUniqueId(&first), omnesSuccess);
  ASSERT_EQ(omnesGetUniqueId(&second), omnesSuccess);
  omnesComm_t comms[3] = {};
  omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
  config.initTimeoutMs = 300;
  ASSERT_EQ(omnesGroupStart(), omnesSuccess);
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_EQ(describe(omnesCommInitRank(&comms[rank], 2, first, rank)), "0");
  // Rank 1 of this one never comes.
  ASSERT_EQ(describe(omnesCommInitRankConfig(&comms[2], 2, second, 0, &config)), "0");
  EXPECT_EQ(omnesGroupEnd(), omnesTimeout);
  for (const omnesComm_t comm : comms) EXPECT_EQ(comm, nullptr);
}

// Nobody else could call for rank 1: an error, and not a wait for the deadline.
TEST_F(Groups, UngroupedCallOfTheOnlyThreadIsRefused) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "Thread sanitizer has a thread of its own, which might use the other rank";
#endif
  make(2);
  int64_t value = 1;
  EXPECT_EQ(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comms_[0], nullptr),
            omnesInvalidUsage);
  EXPECT_NE(std::string(omnesGetLastError(nullptr)).find("omnesGroupStart"), std::string::npos)
      << omnesGetLastError(nullptr);
}

TEST_F(Groups, GroupThatLacksARankIsRefused) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "Thread sanitizer has a thread of its own, which might use the other rank";
#endif
  make(3);
  int64_t values[2] = {1, 1};
  ASSERT_EQ(omnesGroupStart(), omnesSuccess);
  for (size_t rank = 0; rank < 2; ++rank)
    ASSERT_EQ(describe(omnesAllReduce(&values[rank], &values[rank], 1, omnesInt64, omnesSum,
                                      comms_[rank], nullptr)),
              "0");
  EXPECT_EQ(omnesGroupEnd(), omnesInvalidUsage);
}

// There is another thread, but it is old and has never used a rank; this one has used both.
TEST_F(Groups, UngroupedCallIsRefusedByHistory) {
  std::atomic<bool> ended{false};
  std::thread bystander([&] { ended.wait(false, std::memory_order_acquire); });
  make(2);
  // Ages are known to a hundredth of a second only.
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(300))
    std::this_thread::yield();
  sumAll(10);
  int64_t value = 1;
  EXPECT_EQ(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comms_[0], nullptr),
            omnesInvalidUsage);
  ended.store(true, std::memory_order_release);
  ended.notify_all();
  bystander.join();
}

// A warm-up of all ranks by one thread, then a thread a rank: the one that comes first waits for
// the others, whenever they are started.
TEST_F(Groups, ThreadsThatTakeOverRanksAreWaitedFor) {
  make(2);
  sumAll(10);
  const pid_t self = gettid();
  int64_t other = 2;
  omnesResult_t result = omnesInternalError;
  std::thread starter([&] {
    while (!isAsleep(self)) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    // Longer than the grace that a thread of unknown intent has.
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(2500))
      std::this_thread::yield();
    std::thread worker([&] {
      result = omnesAllReduce(&other, &other, 1, omnesInt64, omnesSum, comms_[1], nullptr);
    });
    worker.join();
  });
  int64_t value = 1;
  EXPECT_EQ(describe(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comms_[0], nullptr)),
            "0");
  starter.join();
  EXPECT_EQ(result, omnesSuccess);
  EXPECT_EQ(value, 3);
  EXPECT_EQ(other, 3);
}

}  // namespace
}  // namespace omnes::tests
