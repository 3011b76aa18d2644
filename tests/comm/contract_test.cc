// What the C API promises about arguments, empty calls, operators, config and the end of
// communicators.
#include <gtest/gtest.h>

#include <climits>

#include "comm/any_value.h"
#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

// The communicator still works: called by all ranks.
void expectUsable(int rank, int nranks, omnesComm_t comm) {
  int64_t value = rank + 1, sum = 0;
  EXPECT_EQ(describe(omnesAllReduce(&value, &sum, 1, omnesInt64, omnesSum, comm, nullptr)), "0");
  EXPECT_EQ(sum, int64_t{nranks} * (nranks + 1) / 2);
  omnesResult_t async = omnesInternalError;
  EXPECT_EQ(omnesCommGetAsyncError(comm, &async), omnesSuccess);
  EXPECT_EQ(async, omnesSuccess);
}

void expectRefused(omnesResult_t result, const char* word) {
  EXPECT_EQ(result, omnesInvalidArgument) << word;
  EXPECT_NE(std::string(omnesGetLastError(nullptr)).find(word), std::string::npos)
      << omnesGetLastError(nullptr);
}

TEST(Contract, C67BadArgumentsAreRefusedAndChangeNothing) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks);
  ranks.run([](int rank, omnesComm_t comm) {
    std::vector<float> a(64, 1.0f), b(64, -5.0f);
    // 263 shares its low byte with float32, 256 with sum.
    for (const int bad : {12, 63, 66, 127, -1, 263, 1 << 30})
      expectRefused(anyAllReduce(a.data(), b.data(), 8, bad, omnesSum, comm), "datatype");
    for (const int bad : {5, 63, 67, 128, 255, 256, 1023, 1024, 5000, -1})
      expectRefused(anyAllReduce(a.data(), b.data(), 8, omnesFloat32, bad, comm), "op");
    expectRefused(omnesAllReduce(a.data(), b.data(), 8, omnesFloat32, omnesBand, comm, nullptr),
                  "not defined");
    expectRefused(omnesAllReduce(nullptr, b.data(), 8, omnesFloat32, omnesSum, comm, nullptr),
                  "sendbuff");
    expectRefused(omnesAllReduce(a.data(), nullptr, 8, omnesFloat32, omnesSum, comm, nullptr),
                  "recvbuff");
    expectRefused(
        omnesAllReduce(a.data(), b.data(), SIZE_MAX / 2, omnesFloat32, omnesSum, comm, nullptr),
        "count");
    expectRefused(omnesAllGather(a.data(), b.data(), SIZE_MAX / 16, omnesFloat64, comm, nullptr),
                  "count");
    expectRefused(
        omnesReduceScatter(a.data(), b.data(), SIZE_MAX, omnesInt8, omnesSum, comm, nullptr),
        "count");
    expectRefused(omnesAllReduce(a.data(), b.data(), 8, omnesFloat32, omnesSum, nullptr, nullptr),
                  "comm");
    expectRefused(
        omnesReduceScatter(a.data(), b.data(), 8, omnesFloat32, omnesSum, nullptr, nullptr),
        "comm");
    expectRefused(omnesAllGather(a.data(), b.data(), 8, omnesFloat32, nullptr, nullptr), "comm");
    expectRefused(omnesBarrier(nullptr, nullptr), "comm");
    expectRefused(omnesCommCount(comm, nullptr), "count");
    expectRefused(omnesCommUserRank(comm, nullptr), "rank");
    expectRefused(omnesCommGetAsyncError(comm, nullptr), "asyncError");
    int number = 0;
    expectRefused(omnesCommCount(nullptr, &number), "comm");
    auto* stream = reinterpret_cast<omnesStream_t>(a.data());
    EXPECT_EQ(omnesAllReduce(a.data(), b.data(), 8, omnesFloat32, omnesSum, comm, stream),
              omnesInvalidArgument);
    EXPECT_EQ(b, std::vector<float>(64, -5.0f));
    // Nothing has broken the communicator: its text is that of the last refused call.
    EXPECT_NE(std::string(omnesGetLastError(comm)).find("stream"), std::string::npos);
    expectUsable(rank, kRanks, comm);
  });
}

TEST(Contract, C67BadRootsAreRefusedByEveryRank) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks);
  ranks.run([](int rank, omnesComm_t comm) {
    std::vector<float> a(64, 1.0f), b(64, -5.0f);
    for (const int root : {-1, kRanks, 1 << 30, INT_MIN}) {
      const std::string word = "root is " + std::to_string(root);
      expectRefused(omnesReduce(a.data(), b.data(), 8, omnesFloat32, omnesSum, root, comm, nullptr),
                    word.c_str());
      expectRefused(omnesBroadcast(a.data(), b.data(), 8, omnesFloat32, root, comm, nullptr),
                    word.c_str());
      expectRefused(omnesBcast(b.data(), 8, omnesFloat32, root, comm, nullptr), word.c_str());
      expectRefused(omnesGather(a.data(), b.data(), 8, omnesFloat32, root, comm, nullptr),
                    word.c_str());
      expectRefused(omnesScatter(a.data(), b.data(), 8, omnesFloat32, root, comm, nullptr),
                    word.c_str());
    }
    // Also with nothing to do.
    expectRefused(omnesBcast(nullptr, 0, omnesFloat32, kRanks, comm, nullptr), "root is 3");
    EXPECT_EQ(b, std::vector<float>(64, -5.0f));
    expectUsable(rank, kRanks, comm);
  });
}

TEST(Contract, BuffersAreCheckedWhereTheyMatter) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks);
  ranks.run([](int rank, omnesComm_t comm) {
    std::vector<float> m(64, 1.0f);
    float* at = m.data();
    if (rank == 1) {
      expectRefused(omnesReduce(at, nullptr, 8, omnesFloat32, omnesSum, 1, comm, nullptr),
                    "recvbuff");
      expectRefused(omnesGather(at, nullptr, 8, omnesFloat32, 1, comm, nullptr), "recvbuff");
      expectRefused(omnesBroadcast(nullptr, at, 8, omnesFloat32, 1, comm, nullptr), "sendbuff");
      expectRefused(omnesScatter(nullptr, at, 8, omnesFloat32, 1, comm, nullptr), "sendbuff");
      expectRefused(omnesReduce(at, at + 1, 8, omnesFloat32, omnesSum, 1, comm, nullptr),
                    "overlap");
      expectRefused(omnesBroadcast(at, at + 1, 8, omnesFloat32, 1, comm, nullptr), "overlap");
      // In place at the root's own block only.
      expectRefused(omnesGather(at, at, 8, omnesFloat32, 1, comm, nullptr), "overlap");
      expectRefused(omnesScatter(at, at + 16, 8, omnesFloat32, 1, comm, nullptr), "overlap");
    } else {
      expectRefused(omnesReduce(nullptr, at, 8, omnesFloat32, omnesSum, 1, comm, nullptr),
                    "sendbuff");
      expectRefused(omnesGather(nullptr, at, 8, omnesFloat32, 1, comm, nullptr), "sendbuff");
      expectRefused(omnesBroadcast(at, nullptr, 8, omnesFloat32, 1, comm, nullptr), "recvbuff");
      expectRefused(omnesScatter(at, nullptr, 8, omnesFloat32, 1, comm, nullptr), "recvbuff");
    }
    expectRefused(omnesAlltoAll(at, at, 8, omnesFloat32, comm, nullptr), "never in place");
    expectRefused(omnesAlltoAll(at, at + 23, 8, omnesFloat32, comm, nullptr), "never in place");
    expectRefused(omnesAlltoAll(nullptr, at, 8, omnesFloat32, comm, nullptr), "sendbuff");
    expectRefused(omnesAlltoAll(at, nullptr, 8, omnesFloat32, comm, nullptr), "recvbuff");
    expectRefused(omnesAlltoAll(at, at + 24, SIZE_MAX / 8, omnesFloat32, comm, nullptr), "count");
    expectRefused(omnesGather(at, at, 8, static_cast<omnesDataType_t>(12), 1, comm, nullptr),
                  "datatype");
    // What has no use for a buffer does not look at it: here both are one.
    EXPECT_EQ(describe(omnesBroadcast(at, at, 8, omnesFloat32, 1, comm, nullptr)), "0");
    EXPECT_EQ(describe(omnesReduce(at, rank == 1 ? at : at + 1, 8, omnesFloat32, omnesMax, 1, comm,
                                   nullptr)),
              "0");
    expectUsable(rank, kRanks, comm);
  });
}

TEST(Contract, C67DestroyAndFinalizeTwice) {
  constexpr int kRanks = 2;
  ThreadRanks ranks(kRanks);
  ranks.run([&](int rank, omnesComm_t comm) {
    expectUsable(rank, kRanks, comm);
    EXPECT_EQ(describe(omnesCommFinalize(comm)), "0");
    expectRefused(omnesCommFinalize(comm), "finalized before");
    EXPECT_EQ(describe(omnesCommDestroy(ranks.release(rank))), "0");
    expectRefused(omnesCommDestroy(comm), "destroyed before");
    expectRefused(omnesCommAbort(comm), "destroyed");
    expectRefused(omnesCommFinalize(comm), "not a live");
  });
  EXPECT_EQ(omnesCommDestroy(nullptr), omnesSuccess);
  EXPECT_EQ(omnesCommAbort(nullptr), omnesSuccess);
  EXPECT_EQ(omnesCommFinalize(nullptr), omnesSuccess);
}

TEST(Contract, C67BadRanks) {
  omnesUniqueId id;
  ASSERT_EQ(omnesGetUniqueId(&id), omnesSuccess);
  omnesComm_t comm = nullptr;
  expectRefused(omnesCommInitRank(&comm, 0, id, 0), "nranks");
  expectRefused(omnesCommInitRank(&comm, -1, id, 0), "nranks");
  expectRefused(omnesCommInitRank(&comm, 2, id, 2), "rank");
  expectRefused(omnesCommInitRank(&comm, 2, id, -1), "rank");
  expectRefused(omnesCommInitRank(nullptr, 2, id, 0), "comm");
  expectRefused(omnesCommInitAll(nullptr, 2, nullptr), "comms");
  expectRefused(omnesCommInitAll(&comm, 0, nullptr), "nranks");
  expectRefused(omnesGetUniqueId(nullptr), "uniqueId");
  EXPECT_EQ(comm, nullptr);
  // The id is not spent by calls that were refused.
  ASSERT_EQ(describe(omnesCommInitRank(&comm, 1, id, 0)), "0");
  EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
}

// Empty calls died of NULL pointers or of a division by zero; and order must be kept around them.
TEST(Contract, C65EmptyCallsBetweenFullOnes) {
  for (const int nranks : {1, 2, 5}) {
    ThreadRanks ranks(nranks);
    ranks.run([&](int rank, omnesComm_t comm) {
      for (const DataType type : base::kAllDataTypes)
        for (const ReduceOp op : builtInOps(type)) {
          EXPECT_EQ(describe(omnesAllReduce(nullptr, nullptr, 0, apiType(type), apiOp(op), comm,
                                            nullptr)),
                    "0");
          EXPECT_EQ(describe(omnesReduceScatter(nullptr, nullptr, 0, apiType(type), apiOp(op), comm,
                                                nullptr)),
                    "0");
          EXPECT_EQ(describe(omnesAllGather(nullptr, nullptr, 0, apiType(type), comm, nullptr)),
                    "0");
          const int root = static_cast<int>(op) % nranks;
          EXPECT_EQ(describe(omnesReduce(nullptr, nullptr, 0, apiType(type), apiOp(op), root, comm,
                                         nullptr)),
                    "0");
          EXPECT_EQ(describe(omnesBcast(nullptr, 0, apiType(type), root, comm, nullptr)), "0");
          EXPECT_EQ(describe(omnesAlltoAll(nullptr, nullptr, 0, apiType(type), comm, nullptr)),
                    "0");
          EXPECT_EQ(describe(omnesGather(nullptr, nullptr, 0, apiType(type), root, comm, nullptr)),
                    "0");
          EXPECT_EQ(describe(omnesScatter(nullptr, nullptr, 0, apiType(type), root, comm, nullptr)),
                    "0");
          int64_t here = (rank + 1) * (static_cast<int64_t>(type) + 1), sum = 0;
          EXPECT_EQ(describe(omnesAllReduce(&here, &sum, 1, omnesInt64, omnesSum, comm, nullptr)),
                    "0");
          EXPECT_EQ(sum, (static_cast<int64_t>(type) + 1) * nranks * (nranks + 1) / 2);
        }
      EXPECT_EQ(describe(omnesBarrier(comm, nullptr)), "0");
    });
  }
}

TEST(Contract, OverlapIsRefusedUnlessInPlace) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks);
  ranks.run([](int rank, omnesComm_t comm) {
    constexpr size_t kCount = 16;
    std::vector<int32_t> m(4 * kRanks * kCount, 1);
    int32_t* at = m.data();
    for (const size_t shift : {size_t{1}, kCount - 1}) {
      expectRefused(omnesAllReduce(at, at + shift, kCount, omnesInt32, omnesSum, comm, nullptr),
                    "overlap");
      expectRefused(omnesAllReduce(at + shift, at, kCount, omnesInt32, omnesSum, comm, nullptr),
                    "overlap");
    }
    // In place only at the own block; any other place inside the larger buffer is an overlap.
    for (int other = 0; other < kRanks; ++other) {
      if (other == rank) continue;
      const size_t block = kCount * static_cast<size_t>(other);
      expectRefused(omnesReduceScatter(at, at + block, kCount, omnesInt32, omnesSum, comm, nullptr),
                    "overlap");
      expectRefused(omnesAllGather(at + block, at, kCount, omnesInt32, comm, nullptr), "overlap");
    }
    const size_t own = kCount * static_cast<size_t>(rank);
    expectRefused(omnesReduceScatter(at, at + own + 1, kCount, omnesInt32, omnesSum, comm, nullptr),
                  "overlap");
    // Neighbours that only touch do not overlap.
    EXPECT_EQ(
        describe(omnesAllReduce(at, at + kCount, kCount, omnesInt32, omnesSum, comm, nullptr)),
        "0");
    expectUsable(rank, kRanks, comm);
  });
}

TEST(Contract, InPlaceFormsOfReduceScatterAndAllGather) {
  for (const int nranks : {1, 2, 5}) {
    ThreadRanks ranks(nranks);
    ranks.run([&](int rank, omnesComm_t comm) {
      for (const size_t count : {size_t{1}, size_t{73}, size_t{20000}}) {
        std::vector<int32_t> m(count * static_cast<size_t>(nranks));
        for (size_t i = 0; i < m.size(); ++i) m[i] = static_cast<int32_t>(i) * (rank + 1);
        int32_t* own = m.data() + count * static_cast<size_t>(rank);
        EXPECT_EQ(
            describe(omnesReduceScatter(m.data(), own, count, omnesInt32, omnesSum, comm, nullptr)),
            "0");
        EXPECT_EQ(describe(omnesAllGather(own, m.data(), count, omnesInt32, comm, nullptr)), "0");
        for (size_t i = 0; i < m.size(); ++i)
          ASSERT_EQ(m[i], static_cast<int32_t>(i) * nranks * (nranks + 1) / 2)
              << i << " of " << m.size();
      }
    });
  }
}

TEST(Contract, BadConfigIsRefusedByName) {
  omnesUniqueId id;
  ASSERT_EQ(omnesGetUniqueId(&id), omnesSuccess);
  omnesComm_t comm = nullptr;
  const auto tryWith = [&](auto change) {
    omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
    change(&config);
    const omnesResult_t result = omnesCommInitRankConfig(&comm, 1, id, 0, &config);
    EXPECT_EQ(comm, nullptr);
    return result;
  };
  expectRefused(tryWith([](omnesConfig_t* c) { std::memset(c, 0, sizeof *c); }),
                "OMNES_CONFIG_INITIALIZER");
  expectRefused(tryWith([](omnesConfig_t* c) { c->size = 8; }), "OMNES_CONFIG_INITIALIZER");
  expectRefused(tryWith([](omnesConfig_t* c) { c->blocking = 7; }), "blocking");
  expectRefused(tryWith([](omnesConfig_t* c) { c->deterministic = 7; }), "deterministic");
  expectRefused(tryWith([](omnesConfig_t* c) { c->timeoutMs = -1; }), "timeoutMs");
  expectRefused(tryWith([](omnesConfig_t* c) { c->transports = "pigeons"; }), "shm");
  expectRefused(tryWith([](omnesConfig_t* c) { c->algo = "nope"; }), "nope");
  for (const plan::Collective collective :
       {plan::Collective::kAllReduce, plan::Collective::kReduceScatter})
    for (const std::string& name : algorithmNames(collective))
      EXPECT_NE(std::string(omnesGetLastError(nullptr)).find(name), std::string::npos)
          << omnesGetLastError(nullptr);
  omnesConfig_t good = OMNES_CONFIG_INITIALIZER;
  good.blocking = 1;
  good.commName = "a name";
  ASSERT_EQ(describe(omnesCommInitRankConfig(&comm, 1, id, 0, &good)), "0");
  EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
}

TEST(Contract, CodesHaveTexts) {
  EXPECT_STREQ(omnesGetErrorString(omnesSuccess), "success");
  const std::string unknown = omnesGetErrorString(static_cast<omnesResult_t>(33));
  EXPECT_EQ(unknown, "unknown result code");
  for (const int value : {0, 1, 2, 3, 4, 5, 6, 7, 8, 64}) {
    const char* text = omnesGetErrorString(static_cast<omnesResult_t>(value));
    ASSERT_NE(text, nullptr);
    EXPECT_NE(text, unknown) << value;
    EXPECT_NE(std::string(text), "") << value;
  }
  // 256 and 260 share their low byte with a code, and are none.
  for (const int value : {9, 63, 65, 100, 127, -1, 256, 260, 1 << 30})
    EXPECT_EQ(anyErrorString(value), unknown) << value;
  int version = 0;
  EXPECT_EQ(omnesGetVersion(&version), omnesSuccess);
  EXPECT_EQ(version, OMNES_VERSION_CODE);
  expectRefused(omnesGetVersion(nullptr), "version");
}

TEST(Contract, CreatedOperatorsBelongToTheirTypeAndLife) {
  constexpr int kRanks = 2;
  ThreadRanks ranks(kRanks);
  ranks.run([](int rank, omnesComm_t comm) {
    float factor = 2.0f, in = 3.0f, out = -1.0f;
    omnesRedOp_t op = omnesSum, second = omnesSum;
    expectRefused(
        omnesRedOpCreatePreMulSum(nullptr, &factor, omnesFloat32, omnesScalarDevice, comm), "op");
    expectRefused(omnesRedOpCreatePreMulSum(&op, nullptr, omnesFloat32, omnesScalarDevice, comm),
                  "scalar");
    expectRefused(omnesRedOpCreatePreMulSum(&op, &factor, static_cast<omnesDataType_t>(12),
                                            omnesScalarDevice, comm),
                  "datatype");
    expectRefused(omnesRedOpCreatePreMulSum(&op, &factor, omnesFloat32, omnesScalarDevice, nullptr),
                  "comm");
    EXPECT_EQ(op, omnesSum);
    ASSERT_EQ(
        describe(omnesRedOpCreatePreMulSum(&op, &factor, omnesFloat32, omnesScalarDevice, comm)),
        "0");
    ASSERT_EQ(describe(omnesRedOpCreatePreMulSum(&second, &factor, omnesFloat32, omnesScalarDevice,
                                                 comm)),
              "0");
    EXPECT_GE(static_cast<int>(op), 1024);
    EXPECT_NE(op, second);
    factor = 99.0f;  // was read during the call
    expectRefused(omnesAllReduce(&in, &out, 1, omnesInt32, op, comm, nullptr), "");
    EXPECT_EQ(describe(omnesAllReduce(&in, &out, 1, omnesFloat32, op, comm, nullptr)), "0");
    EXPECT_EQ(out, 12.0f);
    EXPECT_EQ(describe(omnesRedOpDestroy(op, comm)), "0");
    expectRefused(omnesRedOpDestroy(op, comm), "");
    expectRefused(omnesAllReduce(&in, &out, 1, omnesFloat32, op, comm, nullptr), "");
    for (const omnesRedOp_t builtIn : {omnesSum, omnesAvg, omnesBxor})
      expectRefused(omnesRedOpDestroy(builtIn, comm), "built in");
    expectRefused(omnesRedOpDestroy(static_cast<omnesRedOp_t>(4000), comm), "");
    EXPECT_EQ(describe(omnesAllReduce(&in, &out, 1, omnesFloat32, second, comm, nullptr)), "0");
    expectUsable(rank, kRanks, comm);
  });
}

}  // namespace
}  // namespace omnes::tests
