// What sends and receives promise: when they return, what is refused, and what becomes of those
// that do not fit together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

using Clock = std::chrono::steady_clock;

// The promise is a second; ranks share cores here (docs/CONTRIBUTING.md).
constexpr std::chrono::milliseconds kLimit{5000};

struct Layout {
  const char* name;
  std::string transports = {};
  std::vector<int> ranksPerHost = {};

  RanksOptions options() const {
    RanksOptions out;
    out.transports = transports;
    if (!ranksPerHost.empty()) out.hostIds = hostsOf(ranksPerHost);
    out.timeoutMs = 60000;
    return out;
  }
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class Messages : public ::testing::TestWithParam<Layout> {};

INSTANTIATE_TEST_SUITE_P(Layouts, Messages,
                         ::testing::Values(Layout{"Shared"}, Layout{"Tcp", "tcp"},
                                           Layout{"OneAndTwo", "", {1, 2}}),
                         [](const auto& entry) { return entry.param.name; });

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_P(Messages, OfEverySizeArriveInOrder) {
  ThreadRanks ranks(3, GetParam().options());
  ranks.run([&](int rank, omnesComm_t comm) {
    const std::vector<size_t> counts{0, 1, 12, 13, 1000, 65537, 400000};
    for (const size_t count : counts) {
      std::vector<float> data(count + 1, -1.0f);
      if (rank == 0) {
        for (size_t i = 0; i < count; ++i) data[i] = static_cast<float>(i % 1000);
        EXPECT_EQ(describe(omnesSend(data.data(), count, omnesFloat32, 2, comm, nullptr)), "0");
      } else if (rank == 2) {
        EXPECT_EQ(describe(omnesRecv(data.data(), count, omnesFloat32, 0, comm, nullptr)), "0");
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], static_cast<float>(i % 1000)) << i;
        EXPECT_EQ(data[count], -1.0f);
      }
      // Rank 1 has called nothing else, and operations still agree.
      EXPECT_EQ(describe(omnesBarrier(comm, nullptr)), "0");
    }
  });
}

// At every size, also where everything would fit into the link.
TEST_P(Messages, SendReturnsWhenItIsMatched) {
  for (const size_t count : {0, 1, 1000, 1 << 20}) {
    ThreadRanks ranks(3, GetParam().options());
    std::atomic<bool> isCalled{false};
    std::atomic<pid_t> sender{0};
    ranks.run([&](int rank, omnesComm_t comm) {
      std::vector<uint8_t> data(count + 1);
      if (rank == 0) {
        sender.store(gettid(), std::memory_order_release);
        EXPECT_EQ(describe(omnesSend(data.data(), count, omnesUint8, 1, comm, nullptr)), "0");
        EXPECT_TRUE(isCalled.load(std::memory_order_acquire));
      } else if (rank == 1) {
        pid_t id = 0;
        while (id == 0) id = sender.load(std::memory_order_acquire);
        while (!isAsleep(id)) std::this_thread::yield();
        isCalled.store(true, std::memory_order_release);
        EXPECT_EQ(describe(omnesRecv(data.data(), count, omnesUint8, 0, comm, nullptr)), "0");
      }
    });
  }
}

TEST_P(Messages, OtherCountsAndTypesAreTold) {
  struct Odd {
    size_t sent, received;
    omnesDataType_t sentType, receivedType;
    const char* texts[2];
  };
  const Odd cases[] = {{100, 99, omnesFloat32, omnesFloat32, {"100 float", "99 float"}},
                       {100, 100, omnesFloat32, omnesInt32, {"100 float", "100 int32"}},
                       {0, 1, omnesInt8, omnesInt8, {"0 int8", "1 int8"}},
                       {1, 0, omnesInt8, omnesInt8, {"1 int8", "0 int8"}},
                       {300000, 100000, omnesInt8, omnesInt8, {"300000 int8", "100000 int8"}}};
  for (const Odd& odd : cases) {
    ThreadRanks ranks(3, GetParam().options());
    const Clock::time_point start = Clock::now();
    ranks.run([&](int rank, omnesComm_t comm) {
      std::vector<float> data(300000, -1.0f);
      omnesResult_t result = omnesInvalidUsage;
      if (rank == 0) result = omnesSend(data.data(), odd.sent, odd.sentType, 2, comm, nullptr);
      if (rank == 2)
        result = omnesRecv(data.data(), odd.received, odd.receivedType, 0, comm, nullptr);
      EXPECT_EQ(result, omnesInvalidUsage);
      if (rank == 1) {
        result = omnesBarrier(comm, nullptr);
      }
      EXPECT_EQ(result, omnesInvalidUsage);
      for (const std::string part : {odd.texts[0], odd.texts[1], "rank 0", "rank 2"})
        EXPECT_TRUE(contains(omnesGetLastError(comm), part))
            << part << " is not in: " << omnesGetLastError(comm);
    });
    EXPECT_LT(Clock::now() - start, kLimit);
  }
}

// One of the two is in a collective already.
TEST_P(Messages, CircleWithACollectiveIsTold) {
  for (const bool receives : {true, false}) {
    ThreadRanks ranks(3, GetParam().options());
    const Clock::time_point start = Clock::now();
    ranks.run([&](int rank, omnesComm_t comm) {
      int32_t data = 0;
      omnesResult_t result = omnesBarrier(comm, nullptr);
      // Who is slow to leave it may be told there.
      if (result != omnesSuccess)
        EXPECT_EQ(result, omnesInvalidUsage) << describe(result);
      else if (rank == 0)
        result = receives ? omnesRecv(&data, 1, omnesInt32, 2, comm, nullptr)
                          : omnesSend(&data, 1, omnesInt32, 2, comm, nullptr);
      else
        result = omnesAllReduce(&data, &data, 1, omnesInt32, omnesSum, comm, nullptr);
      EXPECT_EQ(result, omnesInvalidUsage) << describe(result);
      for (const std::string part :
           {receives ? "Recv of 1 int32 from rank 2" : "Send of 1 int32 to rank 2", "AllReduce #2",
            "same order"})
        EXPECT_TRUE(contains(omnesGetLastError(comm), part))
            << part << " is not in: " << omnesGetLastError(comm);
    });
    EXPECT_LT(Clock::now() - start, kLimit);
  }
}

// In a group the messages stand behind the collectives, wherever they were called.
TEST_P(Messages, StandBehindTheCollectivesOfTheirGroup) {
  ThreadRanks ranks(3, GetParam().options());
  ranks.run([&](int rank, omnesComm_t comm) {
    for (int i = 0; i < 20; ++i) {
      int32_t sum = 1, got = -1, own = rank * 100 + i;
      const auto reduce = [&] {
        EXPECT_EQ(describe(omnesAllReduce(&sum, &sum, 1, omnesInt32, omnesSum, comm, nullptr)),
                  "0");
      };
      ASSERT_EQ(omnesGroupStart(), omnesSuccess);
      if (rank == 0) reduce();
      EXPECT_EQ(describe(omnesRecv(&got, 1, omnesInt32, (rank + 2) % 3, comm, nullptr)), "0");
      if (rank == 1) reduce();
      EXPECT_EQ(describe(omnesSend(&own, 1, omnesInt32, (rank + 1) % 3, comm, nullptr)), "0");
      if (rank == 2) reduce();
      EXPECT_EQ(got, -1);
      ASSERT_EQ(describe(omnesGroupEnd()), "0");
      EXPECT_EQ(sum, 3);
      EXPECT_EQ(got, (rank + 2) % 3 * 100 + i);
    }
  });
}

TEST_P(Messages, RankThatHasLeftIsNamed) {
  for (const bool receives : {true, false}) {
    ThreadRanks ranks(3, GetParam().options());
    const omnesComm_t leaver = ranks.release(2);
    EXPECT_EQ(describe(omnesCommDestroy(leaver)), "0");
    const Clock::time_point start = Clock::now();
    ranks.run([&](int rank, omnesComm_t comm) {
      if (rank != 0) return;
      int32_t data[2] = {};
      ASSERT_EQ(omnesGroupStart(), omnesSuccess);
      // It waits for rank 1, too, which may still come.
      EXPECT_EQ(omnesRecv(&data[0], 1, omnesInt32, 1, comm, nullptr), omnesSuccess);
      EXPECT_EQ(receives ? omnesRecv(&data[1], 1, omnesInt32, 2, comm, nullptr)
                         : omnesSend(&data[1], 1, omnesInt32, 2, comm, nullptr),
                omnesSuccess);
      EXPECT_EQ(omnesGroupEnd(), omnesRemoteError);
      EXPECT_TRUE(contains(omnesGetLastError(comm), "rank 2")) << omnesGetLastError(comm);
    });
    EXPECT_LT(Clock::now() - start, kLimit);
  }
}

// What a rank sent before it left is there.
TEST_P(Messages, LastMessageOfALeaverArrives) {
  ThreadRanks ranks(3, GetParam().options());
  const omnesComm_t leaver = ranks.release(2);
  std::thread other([&] {
    std::vector<int32_t> data(50000, 7);
    EXPECT_EQ(describe(omnesSend(data.data(), data.size(), omnesInt32, 0, leaver, nullptr)), "0");
    EXPECT_EQ(describe(omnesCommDestroy(leaver)), "0");
  });
  ranks.run([&](int rank, omnesComm_t comm) {
    if (rank != 0) return;
    std::vector<int32_t> data(50000, 0);
    EXPECT_EQ(describe(omnesRecv(data.data(), data.size(), omnesInt32, 2, comm, nullptr)), "0");
    EXPECT_EQ(data, std::vector<int32_t>(50000, 7));
  });
  other.join();
}

TEST_P(Messages, TimeOutNamesTheMessage) {
  RanksOptions options = GetParam().options();
  options.timeoutMs = 300;
  ThreadRanks ranks(3, options);
  ranks.run([&](int rank, omnesComm_t comm) {
    if (rank != 0) return;
    int32_t data = 0;
    EXPECT_EQ(omnesRecv(&data, 1, omnesInt32, 2, comm, nullptr), omnesTimeout);
    for (const std::string part : {"Recv of 1 int32 from rank 2", "receives: 1", "under way"})
      EXPECT_TRUE(contains(omnesGetLastError(comm), part))
          << part << " is not in: " << omnesGetLastError(comm);
  });
}

// In the middle of a long message, in a call, a group or a stream.
TEST_P(Messages, AbortInTheMiddle) {
  for (const char* way : {"call", "group", "stream"}) {
    ThreadRanks ranks(3, GetParam().options());
    omnesComm_t comms[2] = {ranks.release(0), ranks.release(1)};
    std::vector<std::vector<uint8_t>> data(2, std::vector<uint8_t>(8 << 20));
    std::atomic<int> rounds{0};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank, how = std::string(way)] {
        omnesStream_t stream = nullptr;
        EXPECT_EQ(omnesStreamCreate(&stream), omnesSuccess);
        omnesResult_t result = omnesSuccess;
        std::vector<uint8_t>& own = data[static_cast<size_t>(rank)];
        while (result == omnesSuccess) {
          if (how == "group") {
            EXPECT_EQ(omnesGroupStart(), omnesSuccess);
          }
          const omnesStream_t on = how == "stream" ? stream : nullptr;
          result = rank == 0 ? omnesSend(own.data(), own.size(), omnesInt8, 1, comms[0], on)
                             : omnesRecv(own.data(), own.size(), omnesInt8, 0, comms[1], on);
          if (how == "group") result = omnesGroupEnd();
          if (how == "stream" && result == omnesSuccess) result = omnesStreamSynchronize(stream);
          rounds.fetch_add(1, std::memory_order_relaxed);
        }
        // Rank 1's own handle is gone, rank 0 hears of it.
        const bool lostHandle = result == omnesInvalidArgument || result == omnesInvalidUsage;
        EXPECT_TRUE(result == omnesRemoteError || (rank == 1 && lostHandle)) << describe(result);
        EXPECT_EQ(describe(omnesStreamDestroy(stream)), "0");
      });
    while (rounds.load(std::memory_order_relaxed) < 5) std::this_thread::yield();
    const Clock::time_point start = Clock::now();
    EXPECT_EQ(describe(omnesCommAbort(comms[1])), "0");
    for (std::thread& thread : threads) thread.join();
    EXPECT_LT(Clock::now() - start, kLimit);
    EXPECT_EQ(describe(omnesCommAbort(comms[0])), "0");
  }
}

TEST(MessageArguments, AreCheckedAtTheCall) {
  ThreadRanks ranks(2);
  ranks.run([&](int rank, omnesComm_t comm) {
    int32_t data = 0;
    const auto refused = [&](omnesResult_t result, const char* part) {
      EXPECT_EQ(result, omnesInvalidArgument);
      EXPECT_TRUE(contains(omnesGetLastError(nullptr), part)) << omnesGetLastError(nullptr);
    };
    refused(omnesSend(&data, 1, omnesInt32, 2, comm, nullptr), "peer is 2");
    refused(omnesRecv(&data, 1, omnesInt32, -1, comm, nullptr), "peer is -1");
    refused(omnesSend(nullptr, 1, omnesInt32, 0, comm, nullptr), "sendbuff is NULL");
    refused(omnesRecv(nullptr, 1, omnesInt32, 0, comm, nullptr), "recvbuff is NULL");
    refused(omnesSend(&data, SIZE_MAX, omnesInt32, 0, comm, nullptr), "count is");
    refused(omnesSend(&data, 1, static_cast<omnesDataType_t>(50), 0, comm, nullptr), "datatype");
    refused(omnesSend(&data, 1, omnesInt32, 0, nullptr, nullptr), "NULL");
    // And all of it leaves the communicator usable.
    data = rank;
    if (rank == 0) {
      EXPECT_EQ(describe(omnesSend(&data, 1, omnesInt32, 1, comm, nullptr)), "0");
    } else {
      EXPECT_EQ(describe(omnesRecv(&data, 1, omnesInt32, 0, comm, nullptr)), "0");
    }
    EXPECT_EQ(data, 0);
  });
}

TEST(MessagesToOneself, NeedTheirCounterpart) {
  for (const int nranks : {1, 2}) {
    ThreadRanks ranks(nranks);
    ranks.run([&](int rank, omnesComm_t comm) {
      int32_t from[4] = {1, 2, 3, 4}, to[4] = {};
      const auto send = [&](size_t count) {
        return omnesSend(from, count, omnesInt32, rank, comm, nullptr);
      };
      const auto receive = [&](int32_t* at, size_t count) {
        return omnesRecv(at, count, omnesInt32, rank, comm, nullptr);
      };
      EXPECT_EQ(send(2), omnesInvalidUsage);
      EXPECT_TRUE(contains(omnesGetLastError(nullptr), "Send of 2 int32"))
          << omnesGetLastError(nullptr);
      EXPECT_EQ(receive(to, 2), omnesInvalidUsage);
      struct Pair {
        size_t sent, received;
        int32_t* at;
        omnesResult_t result;
      };
      for (const Pair& pair :
           {Pair{2, 3, to, omnesInvalidUsage}, Pair{3, 3, from + 1, omnesInvalidArgument},
            Pair{3, 3, from, omnesSuccess}, Pair{0, 0, to, omnesSuccess},
            Pair{4, 4, to, omnesSuccess}}) {
        ASSERT_EQ(omnesGroupStart(), omnesSuccess);
        EXPECT_EQ(receive(pair.at, pair.received), omnesSuccess);
        EXPECT_EQ(send(pair.sent), omnesSuccess);
        EXPECT_EQ(to[0], 0);
        EXPECT_EQ(omnesGroupEnd(), pair.result) << omnesGetLastError(nullptr);
      }
      EXPECT_EQ(to[3], 4);
      EXPECT_EQ(describe(omnesBarrier(comm, nullptr)), "0");
    });
  }
}

// One thread has all ranks of two communicators, and everything is one group.
TEST(MessageGroups, OneThreadHasAllRanks) {
  const Watchdog watchdog("messages of one thread", std::chrono::seconds(60));
  for (int n = 1; n <= 5; ++n) {
    std::vector<omnesComm_t> comms(2 * static_cast<size_t>(n));
    ASSERT_EQ(describe(omnesCommInitAll(comms.data(), n, nullptr)), "0");
    ASSERT_EQ(describe(omnesCommInitAll(comms.data() + n, n, nullptr)), "0");
    std::vector<std::vector<int32_t>> sent(comms.size()), got(comms.size());
    ASSERT_EQ(omnesGroupStart(), omnesSuccess);
    for (size_t i = 0; i < comms.size(); ++i) {
      const int rank = static_cast<int>(i) % n;
      sent[i].assign(60000, static_cast<int32_t>(i));
      got[i].assign(60000, -1);
      EXPECT_EQ(
          describe(omnesSend(sent[i].data(), 60000, omnesInt32, (rank + 1) % n, comms[i], nullptr)),
          "0");
      EXPECT_EQ(describe(omnesRecv(got[i].data(), 60000, omnesInt32, (rank + n - 1) % n, comms[i],
                                   nullptr)),
                "0");
    }
    ASSERT_EQ(describe(omnesGroupEnd()), "0");
    for (size_t i = 0; i < comms.size(); ++i) {
      const int rank = static_cast<int>(i) % n;
      const size_t from = i - static_cast<size_t>(rank) + static_cast<size_t>((rank + n - 1) % n);
      EXPECT_EQ(got[i], sent[from]);
    }
    for (const omnesComm_t comm : comms) EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
  }
}

TEST(MessageGroups, UngroupedMessageOfTheOnlyThreadIsRefused) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "Thread sanitizer has a thread of its own, which might use the other rank";
#endif
  alarm(60);  // a watchdog without a thread
  omnesComm_t comms[2] = {};
  ASSERT_EQ(describe(omnesCommInitAll(comms, 2, nullptr)), "0");
  int32_t value = 1;
  EXPECT_EQ(omnesSend(&value, 1, omnesInt32, 1, comms[0], nullptr), omnesInvalidUsage);
  EXPECT_TRUE(contains(omnesGetLastError(nullptr), "omnesGroupStart"))
      << omnesGetLastError(nullptr);
  for (const omnesComm_t comm : comms) EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
  alarm(0);
}

TEST(MessageGroups, RefusedMessageStartsNothing) {
  ThreadRanks ranks(2);
  ranks.run([&](int rank, omnesComm_t comm) {
    int32_t own = rank, got = -1;
    ASSERT_EQ(omnesGroupStart(), omnesSuccess);
    EXPECT_EQ(omnesSend(&own, 1, omnesInt32, 1 - rank, comm, nullptr), omnesSuccess);
    EXPECT_EQ(omnesRecv(&got, 1, omnesInt32, 5, comm, nullptr), omnesInvalidArgument);
    EXPECT_EQ(omnesGroupEnd(), omnesInvalidArgument);
    ASSERT_EQ(omnesGroupStart(), omnesSuccess);
    EXPECT_EQ(omnesSend(&own, 1, omnesInt32, 1 - rank, comm, nullptr), omnesSuccess);
    EXPECT_EQ(omnesRecv(&got, 1, omnesInt32, 1 - rank, comm, nullptr), omnesSuccess);
    EXPECT_EQ(describe(omnesGroupEnd()), "0");
    EXPECT_EQ(got, 1 - rank);
  });
}

long residentPages() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  long all = 0, resident = 0;
  const int read = file == nullptr ? 0 : std::fscanf(file, "%ld %ld", &all, &resident);
  if (file != nullptr) std::fclose(file);
  return read == 2 ? resident : -1;
}

// OMNES_TEST_OPERATIONS says how many; ten millions were asked for.
TEST(MessageGroups, MemoryStaysFlat) {
#if OMNES_TEST_SANITIZED
  GTEST_SKIP() << "sanitizers keep memory that was freed";
#endif
  const char* text = std::getenv("OMNES_TEST_OPERATIONS");
  const uint64_t operations = text == nullptr ? 100'000 : std::strtoull(text, nullptr, 10);
  omnesComm_t comms[2] = {};
  ASSERT_EQ(describe(omnesCommInitAll(comms, 2, nullptr)), "0");
  omnesStream_t stream = nullptr;
  ASSERT_EQ(omnesStreamCreate(&stream), omnesSuccess);
  int32_t sent[2] = {5, 6}, got[2] = {}, sums[2] = {};
  const auto exchange = [&](omnesStream_t on) {
    ASSERT_EQ(omnesGroupStart(), omnesSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(omnesSend(&sent[rank], 1, omnesInt32, 1 - rank, comms[rank], on), omnesSuccess);
      ASSERT_EQ(omnesRecv(&got[rank], 1, omnesInt32, 1 - rank, comms[rank], on), omnesSuccess);
      ASSERT_EQ(omnesAllReduce(&sent[rank], &sums[rank], 1, omnesInt32, omnesSum, comms[rank], on),
                omnesSuccess);
    }
    ASSERT_EQ(omnesGroupEnd(), omnesSuccess);
  };
  long before = 0;
  const uint64_t warm = operations / 10;
  for (uint64_t i = 0; i < operations; ++i) {
    if (i == warm) before = residentPages();
    const bool inStream = i % 16 == 0;
    exchange(inStream ? stream : nullptr);
    if (inStream) {
      ASSERT_EQ(omnesStreamSynchronize(stream), omnesSuccess);
    }
    ASSERT_EQ(got[0], 6);
    ASSERT_EQ(sums[1], 11);
  }
  const long after = residentPages();
  ASSERT_GT(before, 0);
  // 1 MiB: a leak of one byte an operation would show in ten million.
  EXPECT_LE(after, before + 256) << "pages before: " << before;
  EXPECT_EQ(describe(omnesStreamDestroy(stream)), "0");
  for (const omnesComm_t comm : comms) EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
}

}  // namespace
}  // namespace omnes::tests
