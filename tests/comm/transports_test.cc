// Communicators whose ranks are joined by several transports, or by the network alone: the same
// numbers as over shared memory.
//
// Ranks are threads of one machine, kept apart by config.hostId or config.transports.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

using plan::Collective;

struct Layout {
  std::string name;
  std::vector<int> ranksPerHost;
  std::string transports = {};

  int nranks() const {
    int sum = 0;
    for (const int ranks : ranksPerHost) sum += ranks;
    return sum;
  }
  RanksOptions options(const std::string& algo = {}) const {
    RanksOptions out;
    out.algo = algo;
    out.transports = transports;
    if (transports.empty()) out.hostIds = hostsOf(ranksPerHost);
    return out;
  }
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }
std::string nameOf(const ::testing::TestParamInfo<Layout>& info) { return info.param.name; }

// `n` ranks of one host that may only use the network.
Layout overTcp(int n) { return {"Tcp" + std::to_string(n), {n}, "tcp"}; }

// Sanitizers look at how threads meet, which more hosts of the same kind do not change.
std::vector<Layout> mixedLayouts() {
  if (kSanitized) return {{"ThreeAndOne", {3, 1}}, {"OneTwoTwo", {1, 2, 2}}, overTcp(4)};
  return {{"TwoAndTwo", {2, 2}},     {"ThreeAndOne", {3, 1}}, {"OneTwoTwo", {1, 2, 2}},
          {"FourTwoTwo", {4, 2, 2}}, {"AllApart", {1, 1, 1}}, overTcp(4)};
}

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat8e4m3,
                               DataType::kInt8, DataType::kFloat64};

struct Shape {
  DataType type;
  size_t count;
};

// The longest ones go beyond many slices, on few ranks.
std::vector<Shape> shapesFor(int nranks) {
  const size_t most = (kSanitized ? 60007u : 1200007u) / static_cast<size_t>(nranks);
  std::vector<Shape> out;
  for (const DataType type : kTypes)
    for (const size_t count : {size_t{0}, size_t{1}, size_t{17}, size_t{5003}, most})
      out.push_back({type, count});
  return out;
}

Bytes inputOf(const Shape& shape, int rank, size_t blocks) {
  return randomNumbers(
      shape.type, shape.count * blocks,
      shape.count * 1000 + static_cast<size_t>(rank) * 16 + static_cast<size_t>(shape.type));
}

std::vector<Bytes> inputsOf(const Shape& shape, int nranks, size_t blocks) {
  std::vector<Bytes> out;
  for (int rank = 0; rank < nranks; ++rank) out.push_back(inputOf(shape, rank, blocks));
  return out;
}

// What every rank got, by rank and shape.
using Outputs = std::vector<std::vector<Bytes>>;

Bytes call(Collective collective, const Shape& shape, int rank, int nranks, omnesComm_t comm) {
  const size_t n = static_cast<size_t>(nranks), width = base::sizeOf(shape.type);
  const size_t bytes = shape.count * width;
  GuardedBuffer send(collective == Collective::kReduceScatter ? n * bytes : bytes);
  GuardedBuffer recv(collective == Collective::kAllGather ? n * bytes : bytes);
  send.fill(inputOf(shape, rank, collective == Collective::kReduceScatter ? n : 1));
  omnesResult_t result = omnesInternalError;
  const omnesDataType_t type = apiType(shape.type);
  if (collective == Collective::kAllReduce)
    result = omnesAllReduce(send.data(), recv.data(), shape.count, type, omnesSum, comm, nullptr);
  if (collective == Collective::kReduceScatter)
    result =
        omnesReduceScatter(send.data(), recv.data(), shape.count, type, omnesSum, comm, nullptr);
  if (collective == Collective::kAllGather)
    result = omnesAllGather(send.data(), recv.data(), shape.count, type, comm, nullptr);
  EXPECT_EQ(describe(result), "0");
  EXPECT_TRUE(send.isIntact() && recv.isIntact());
  return Bytes(recv.data(), recv.data() + recv.size());
}

Outputs callAll(Collective collective, const Layout& layout, const std::string& algo,
                bool deterministic = false) {
  const int nranks = layout.nranks();
  RanksOptions options = layout.options(algo);
  if (deterministic) options.deterministic = 1;
  ThreadRanks ranks(nranks, options);
  Outputs outputs(static_cast<size_t>(nranks));
  if (!ranks.isReady()) return {};
  ranks.run([&](int rank, omnesComm_t comm) {
    for (const Shape& shape : shapesFor(nranks)) {
      outputs[rank].push_back(call(collective, shape, rank, nranks, comm));
      // Ranks leave each call at different times: the next one must not mind.
      if (shape.count == 17) {
        EXPECT_EQ(describe(omnesBarrier(comm, nullptr)), "0");
      }
    }
  });
  return outputs;
}

Bytes blockOf(const Bytes& whole, int rank, int nranks) {
  const auto size = static_cast<ptrdiff_t>(whole.size()) / nranks;
  return Bytes(whole.begin() + rank * size, whole.begin() + (rank + 1) * size);
}

// The output of all ranks together when sums run over the ranks in order.
Bytes expected(Collective collective, const Shape& shape, int nranks) {
  const bool scatters = collective == Collective::kReduceScatter;
  const auto inputs = inputsOf(shape, nranks, scatters ? static_cast<size_t>(nranks) : 1);
  if (collective != Collective::kAllGather)
    return reducedInRankOrder(shape.type, ReduceOp::kSum, inputs);
  Bytes out;
  for (const Bytes& input : inputs) out.insert(out.end(), input.begin(), input.end());
  return out;
}

// All-gathers, and sums that run in the order of the ranks, are known; of the others each rank must
// have the same.
void expectRight(Collective collective, const std::string& algo, const Outputs& outputs) {
  const int nranks = static_cast<int>(outputs.size());
  const bool isKnown = collective == Collective::kAllGather || addsInRankOrder(collective, algo);
  if (!isKnown && collective != Collective::kAllReduce) return;
  const auto shapes = shapesFor(nranks);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Bytes whole = isKnown ? expected(collective, shapes[i], nranks) : outputs[0][i];
    for (int rank = 0; rank < nranks; ++rank) {
      const bool scatters = collective == Collective::kReduceScatter;
      const Bytes right = scatters ? blockOf(whole, rank, nranks) : whole;
      ASSERT_EQ(difference(outputs[rank][i], right), "")
          << algo << " " << base::nameOf(shapes[i].type) << " x " << shapes[i].count << " rank "
          << rank;
    }
  }
}

class Mixed : public ::testing::TestWithParam<Layout> {};

TEST_P(Mixed, EveryAlgorithmGivesTheRightBits) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather})
    for (const std::string& algo : algorithmNames(collective)) {
      SCOPED_TRACE(algo);
      const Outputs outputs = callAll(collective, GetParam(), algo);
      ASSERT_EQ(outputs.size(), static_cast<size_t>(GetParam().nranks()));
      expectRight(collective, algo, outputs);
    }
}

TEST_P(Mixed, SmallSumsAreExactWithEveryAlgorithm) {
  const int nranks = GetParam().nranks();
  for (const std::string& algo : algorithmNames(Collective::kAllReduce)) {
    ThreadRanks ranks(nranks, GetParam().options(algo));
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kInt64}) {
      constexpr size_t kCount = kSanitized ? 10007 : 100003;
      std::vector<Bytes> inputs;
      for (int rank = 0; rank < nranks; ++rank) inputs.push_back(smallIntegers(type, kCount, rank));
      const Bytes sum = reducedInRankOrder(type, ReduceOp::kSum, inputs);
      ranks.run([&](int rank, omnesComm_t comm) {
        Bytes out(sum.size());
        EXPECT_EQ(describe(omnesAllReduce(inputs[rank].data(), out.data(), kCount, apiType(type),
                                          omnesSum, comm, nullptr)),
                  "0");
        EXPECT_EQ(difference(out, sum), "") << algo << " rank " << rank;
      });
    }
  }
}

TEST_P(Mixed, SmallScatteredSumsAreExactWithEveryAlgorithm) {
  const int nranks = GetParam().nranks();
  const auto n = static_cast<size_t>(nranks);
  for (const std::string& algo : algorithmNames(Collective::kReduceScatter)) {
    ThreadRanks ranks(nranks, GetParam().options(algo));
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt64}) {
      constexpr size_t kCount = kSanitized ? 2003 : 30011;
      std::vector<Bytes> inputs;
      for (int rank = 0; rank < nranks; ++rank)
        inputs.push_back(smallIntegers(type, kCount * n, rank));
      const Bytes sum = reducedInRankOrder(type, ReduceOp::kSum, inputs);
      ranks.run([&](int rank, omnesComm_t comm) {
        Bytes out(sum.size() / n);
        EXPECT_EQ(describe(omnesReduceScatter(inputs[rank].data(), out.data(), kCount,
                                              apiType(type), omnesSum, comm, nullptr)),
                  "0");
        EXPECT_EQ(difference(out, blockOf(sum, rank, nranks)), "") << algo << " rank " << rank;
      });
    }
  }
}

TEST_P(Mixed, AllToAllIsExactWithEveryAlgorithm) {
  const int nranks = GetParam().nranks();
  const auto n = static_cast<size_t>(nranks);
  for (const std::string& algo : algorithmNames(Collective::kAllToAll)) {
    ThreadRanks ranks(nranks, GetParam().options(algo));
    ASSERT_TRUE(ranks.isReady());
    ranks.run([&](int rank, omnesComm_t comm) {
      for (const size_t count :
           {size_t{0}, size_t{1}, size_t{17}, size_t{5003}, size_t{kSanitized ? 10007 : 200003}}) {
        const auto valueOf = [&](size_t from, size_t to, size_t i) {
          return static_cast<uint32_t>((from * n + to) * 1000003 + i * 7);
        };
        std::vector<uint32_t> in(n * count), out(n * count, ~0u), expected(n * count);
        const auto own = static_cast<size_t>(rank);
        for (size_t peer = 0; peer < n; ++peer)
          for (size_t i = 0; i < count; ++i) {
            in[peer * count + i] = valueOf(own, peer, i);
            expected[peer * count + i] = valueOf(peer, own, i);
          }
        EXPECT_EQ(describe(omnesAlltoAll(in.data(), out.data(), count, omnesUint32, comm, nullptr)),
                  "0");
        EXPECT_TRUE(out == expected) << algo << " rank " << rank << " x " << count;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Mixed, ::testing::ValuesIn(mixedLayouts()), nameOf);

class RankCounts : public ::testing::TestWithParam<int> {};

// What the library chooses may differ between the two, and with it the order in which floats are
// added; integers are the same anyway, and gathered bytes.
TEST_P(RankCounts, OverTcpAsOverSharedMemory) {
  const int nranks = GetParam();
  const auto shapes = shapesFor(nranks);
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    const Outputs shared = callAll(collective, {"Shared", {nranks}}, "");
    const Outputs network = callAll(collective, overTcp(nranks), "");
    ASSERT_EQ(shared.size(), network.size());
    // Each of them gives all ranks of an all-reduce the same.
    expectRight(collective, "", shared);
    expectRight(collective, "", network);
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (collective != Collective::kAllGather && base::isFloat(shapes[i].type)) continue;
      for (size_t rank = 0; rank < shared.size(); ++rank)
        ASSERT_EQ(difference(network[rank][i], shared[rank][i]), "")
            << plan::nameOf(collective) << " shape " << i << " rank " << rank;
    }
  }
}

// Every type, bit by bit: the sum in the order of the ranks, whatever carries the bytes.
TEST_P(RankCounts, DeterministicSumsAreThoseInRankOrder) {
  const int nranks = GetParam();
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter})
    for (const Layout& layout : {Layout{"Shared", {nranks}}, overTcp(nranks)}) {
      SCOPED_TRACE(std::string(plan::nameOf(collective)) + " " + layout.name);
      const Outputs outputs = callAll(collective, layout, "", true);
      ASSERT_EQ(outputs.size(), static_cast<size_t>(nranks));
      // "direct" is one that adds in this order.
      ASSERT_TRUE(addsInRankOrder(collective, "direct"));
      expectRight(collective, "direct", outputs);
    }
}

INSTANTIATE_TEST_SUITE_P(Transports, RankCounts,
                         ::testing::ValuesIn(kSanitized ? std::vector<int>{1, 2, 3, 5}
                                                        : std::vector<int>{1, 2, 3, 5, 8, 17}));

// Cuts and algorithms follow from who shares a host, not from what carries the bytes.
TEST(Transports, SameBitsOverTcpWithEveryAlgorithm) {
  for (const std::string& algo : algorithmNames(Collective::kAllReduce)) {
    const Outputs shared = callAll(Collective::kAllReduce, {"Shared", {5}}, algo);
    const Outputs network = callAll(Collective::kAllReduce, overTcp(5), algo);
    ASSERT_EQ(shared.size(), network.size());
    for (size_t rank = 0; rank < shared.size(); ++rank)
      ASSERT_EQ(shared[rank], network[rank]) << algo << " rank " << rank;
  }
}

// Barriers between calls of different lengths, by ranks of different speed.
TEST(Transports, BarrierHoldsEveryRankBack) {
  for (const Layout& layout : mixedLayouts()) {
    const int nranks = layout.nranks();
    ThreadRanks ranks(nranks, layout.options());
    std::vector<std::atomic<int>> entered(static_cast<size_t>(nranks));
    ranks.run([&](int rank, omnesComm_t comm) {
      for (int round = 1; round <= 50; ++round) {
        entered[rank].store(round, std::memory_order_release);  // pairs with the load below
        ASSERT_EQ(describe(omnesBarrier(comm, nullptr)), "0");
        for (int peer = 0; peer < nranks; ++peer)
          ASSERT_GE(entered[peer].load(std::memory_order_acquire), round) << layout.name;
      }
    });
  }
}

// A rank that has its result may leave while the others still send each other theirs.
TEST(Transports, LeavingAtOnceTakesNothingFromOthers) {
  for (const Layout& layout : mixedLayouts())
    for (int round = 0; round < (kSanitized ? 3 : 15); ++round) {
      const int nranks = layout.nranks();
      ThreadRanks ranks(nranks, layout.options());
      ASSERT_TRUE(ranks.isReady());
      ranks.run([&](int rank, omnesComm_t comm) {
        constexpr size_t kCount = 60000;
        std::vector<int32_t> in(kCount, rank + 1), out(kCount);
        EXPECT_EQ(describe(omnesAllReduce(in.data(), out.data(), kCount, omnesInt32, omnesSum, comm,
                                          nullptr)),
                  "0");
        EXPECT_EQ(out, std::vector<int32_t>(kCount, nranks * (nranks + 1) / 2));
        EXPECT_EQ(describe(omnesCommDestroy(ranks.release(rank))), "0");
      });
    }
}

// ---- settings --------------------------------------------------------------------------------

std::vector<std::string> joinWith(int nranks, const std::function<void(int, omnesConfig_t*)>& set) {
  omnesUniqueId id;
  EXPECT_EQ(describe(omnesGetUniqueId(&id)), "0");
  std::vector<std::string> results(static_cast<size_t>(nranks));
  runThreads(nranks, "omnesCommInitRankConfig", std::chrono::seconds(60), [&](int rank) {
    omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
    set(rank, &config);
    omnesComm_t comm = nullptr;
    results[rank] = describe(omnesCommInitRankConfig(&comm, nranks, id, rank, &config));
    EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
  });
  return results;
}

TEST(Transports, HostsWithoutANetworkAreRefusedByName) {
  const auto results = joinWith(3, [](int rank, omnesConfig_t* config) {
    config->transports = "shm";
    config->hostId = rank == 2 ? "b" : "a";
  });
  for (const std::string& result : results) {
    EXPECT_EQ(result.substr(0, 2), "5 ") << result;
    for (const char* part : {"rank 0 (host ", "rank 2 (host ", "OMNES_HOST_ID a", "OMNES_HOST_ID b",
                             "OMNES_TRANSPORTS", "tcp"})
      EXPECT_NE(result.find(part), std::string::npos) << part << " is not in: " << result;
  }
}

TEST(Transports, DifferentListsAreRefusedOnBothRanks) {
  const auto results = joinWith(2, [](int rank, omnesConfig_t* config) {
    config->transports = rank == 1 ? "^shm" : "shm,tcp";
  });
  for (const std::string& result : results) {
    EXPECT_EQ(result.substr(0, 2), "5 ") << result;
    EXPECT_NE(result.find("OMNES_TRANSPORTS differs"), std::string::npos) << result;
  }
}

TEST(Transports, ListsThatMeanTheSameAgree) {
  const char* const lists[] = {"tcp", "^shm", "TCP"};
  for (const std::string& result :
       joinWith(3, [&](int rank, omnesConfig_t*config) { config->transports = lists[rank]; }))
    EXPECT_EQ(result, "0");
}

}  // namespace
}  // namespace omnes::tests
