// Reduce, Broadcast, Bcast, AlltoAll, Gather and Scatter through the C API: every algorithm, every
// root, in place and not, over shared memory, the network and both.
//
// Ranks are threads of one machine, kept apart by config.hostId or config.transports.
#include <gtest/gtest.h>

#include "algorithms/registry.h"
#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

using plan::Collective;

constexpr Collective kCollectives[] = {Collective::kReduce, Collective::kBroadcast,
                                       Collective::kAllToAll, Collective::kGather,
                                       Collective::kScatter};

struct Layout {
  std::string name;
  std::vector<int> ranksPerHost;
  std::string transports = {};

  int nranks() const {
    int sum = 0;
    for (const int ranks : ranksPerHost) sum += ranks;
    return sum;
  }
  RanksOptions options(const std::string& algo) const {
    RanksOptions out;
    out.algo = algo;
    out.transports = transports;
    if (transports.empty()) out.hostIds = hostsOf(ranksPerHost);
    return out;
  }
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

struct Call {
  Collective collective;
  int nranks;
  int root;  // -1: none
  DataType type;
  ReduceOp op;
  size_t count;
  bool isInPlace;

  size_t blockBytes() const { return count * base::sizeOf(type); }
  bool isRoot(int rank) const { return rank == root; }
  bool hasAllBlocks() const {
    return collective == Collective::kAllToAll || collective == Collective::kGather ||
           collective == Collective::kScatter;
  }
  // Bytes of a rank's buffers; 0 where it has none.
  size_t sendBytes(int rank) const {
    if (collective == Collective::kBroadcast) return isRoot(rank) ? blockBytes() : 0;
    if (collective == Collective::kScatter) return isRoot(rank) ? blockBytes() * ranks() : 0;
    return collective == Collective::kAllToAll ? blockBytes() * ranks() : blockBytes();
  }
  size_t recvBytes(int rank) const {
    if (collective == Collective::kReduce) return isRoot(rank) ? blockBytes() : 0;
    if (collective == Collective::kGather) return isRoot(rank) ? blockBytes() * ranks() : 0;
    return collective == Collective::kAllToAll ? blockBytes() * ranks() : blockBytes();
  }
  size_t ranks() const { return static_cast<size_t>(nranks); }
  std::string text() const {
    return std::string(plan::nameOf(collective)) + " root " + std::to_string(root) + " of " +
           std::to_string(count) + " " + std::string(base::nameOf(type)) + " " +
           std::string(base::nameOf(op)) + (isInPlace ? " in place" : "");
  }
};

Bytes inputOf(const Call& call, int rank) {
  const size_t count = call.sendBytes(rank) / base::sizeOf(call.type);
  if (call.collective == Collective::kReduce) return smallIntegers(call.type, count, rank);
  return randomBits(count * base::sizeOf(call.type), call.count * 64 + static_cast<size_t>(rank));
}

Bytes blockOf(const Bytes& whole, size_t index, size_t bytes) {
  const auto begin = whole.begin() + static_cast<ptrdiff_t>(index * bytes);
  return Bytes(begin, begin + static_cast<ptrdiff_t>(bytes));
}

Bytes expectedOf(const Call& call, int rank) {
  const size_t bytes = call.blockBytes();
  if (call.recvBytes(rank) == 0) return {};
  if (call.collective == Collective::kBroadcast) return inputOf(call, call.root);
  if (call.collective == Collective::kScatter)
    return blockOf(inputOf(call, call.root), static_cast<size_t>(rank), bytes);
  std::vector<Bytes> inputs;
  for (int r = 0; r < call.nranks; ++r) inputs.push_back(inputOf(call, r));
  if (call.collective == Collective::kReduce) return reducedInRankOrder(call.type, call.op, inputs);
  Bytes out;
  for (const Bytes& input : inputs) {
    const bool isPart = call.collective == Collective::kAllToAll;
    const Bytes block = isPart ? blockOf(input, static_cast<size_t>(rank), bytes) : input;
    out.insert(out.end(), block.begin(), block.end());
  }
  return out;
}

omnesResult_t enter(const Call& call, const void* send, void* recv, omnesComm_t comm) {
  const omnesDataType_t type = apiType(call.type);
  switch (call.collective) {
    case Collective::kReduce:
      return omnesReduce(send, recv, call.count, type, apiOp(call.op), call.root, comm, nullptr);
    case Collective::kBroadcast:
      return omnesBroadcast(send, recv, call.count, type, call.root, comm, nullptr);
    case Collective::kAllToAll: return omnesAlltoAll(send, recv, call.count, type, comm, nullptr);
    case Collective::kGather:
      return omnesGather(send, recv, call.count, type, call.root, comm, nullptr);
    default: return omnesScatter(send, recv, call.count, type, call.root, comm, nullptr);
  }
}

// Buffers that the rank does not have are NULL.
void run(const Call& call, int rank, omnesComm_t comm) {
  const size_t sends = call.sendBytes(rank), receives = call.recvBytes(rank);
  const Bytes input = inputOf(call, rank);
  GuardedBuffer send(sends), recv(receives);
  send.fill(input);
  uint8_t* from = sends == 0 ? nullptr : send.data();
  uint8_t* to = receives == 0 ? nullptr : recv.data();
  if (call.isInPlace && sends > 0 && receives > 0) {
    const size_t offset = sends == receives ? 0 : static_cast<size_t>(rank) * call.blockBytes();
    if (sends > receives) to = send.data() + offset;
    if (sends <= receives) from = recv.data() + offset;
    if (sends <= receives) std::memcpy(from, input.data(), sends);
  }
  ASSERT_EQ(describe(enter(call, from, to, comm)), "0") << call.text();
  const Bytes expected = expectedOf(call, rank);
  ASSERT_EQ(difference(to, expected), "") << call.text() << " rank " << rank;
  EXPECT_TRUE(send.isIntact() && recv.isIntact()) << call.text();
  if (sends > 0 && to != send.data() && (to < send.data() || to >= send.data() + sends)) {
    EXPECT_EQ(difference(send.data(), input), "") << call.text() << " changed its input";
  }
}

std::vector<int> rootsOf(Collective collective, int nranks) {
  std::vector<int> roots;
  for (int root = 0; root < nranks; ++root) roots.push_back(root);
  return plan::hasRoot(collective) ? roots : std::vector<int>{-1};
}

class Collectives : public ::testing::TestWithParam<Layout> {};

TEST_P(Collectives, AreExactWithEveryAlgorithmAndRoot) {
  const int nranks = GetParam().nranks();
  const size_t most = (kSanitized ? 60007u : 600007u) / static_cast<size_t>(nranks);
  for (const Collective collective : kCollectives) {
    for (const std::string& algo : algorithmNames(collective)) {
      ThreadRanks ranks(nranks, GetParam().options(algo));
      ASSERT_TRUE(ranks.isReady());
      ranks.run([&](int rank, omnesComm_t comm) {
        for (const int root : rootsOf(collective, nranks)) {
          for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8}) {
            for (const size_t count : {size_t{0}, size_t{1}, size_t{17}, size_t{5003}, most}) {
              if (count == most && type == DataType::kBfloat16) continue;
              for (const bool isInPlace : {false, true}) {
                if (isInPlace && collective == Collective::kAllToAll) continue;
                run({collective, nranks, root, type, ReduceOp::kSum, count, isInPlace}, rank, comm);
              }
            }
          }
        }
        // Nothing of one collective is left over for the next.
        EXPECT_EQ(describe(omnesBarrier(comm, nullptr)), "0") << algo;
      });
    }
  }
}

// Sanitizers look at how threads meet, which more layouts of the same kind do not change.
std::vector<Layout> layouts() {
  const Layout shared{"Shared5", {5}}, network{"Tcp4", {4}, "tcp"}, mixed{"OneTwoTwo", {1, 2, 2}};
  if (kSanitized) return {shared, network, mixed};
  return {{"Shared1", {1}},        {"Shared2", {2}},       shared, network, mixed,
          {"ThreeAndOne", {3, 1}}, {"AllApart", {1, 1, 1}}};
}

INSTANTIATE_TEST_SUITE_P(Layouts, Collectives, ::testing::ValuesIn(layouts()),
                         [](const auto& entry) { return entry.param.name; });

// All of a communicator's collectives in one sequence, without a barrier, by ranks that run ahead.
TEST(CollectivesMixed, FollowEachOtherWithoutABarrier) {
  for (const Layout& layout : {Layout{"Shared4", {4}}, Layout{"TwoAndTwo", {2, 2}}}) {
    const int nranks = layout.nranks();
    ThreadRanks ranks(nranks, layout.options(""));
    ASSERT_TRUE(ranks.isReady());
    ranks.run([&](int rank, omnesComm_t comm) {
      for (size_t round = 0; round < (kSanitized ? 60u : 600u); ++round) {
        const Collective collective = kCollectives[round * 7 % std::size(kCollectives)];
        const int root = plan::hasRoot(collective)
                             ? static_cast<int>(round * 5 % static_cast<size_t>(nranks))
                             : -1;
        run({collective, nranks, root, DataType::kInt32, ReduceOp::kSum, round * 37 % 2000,
             round % 3 == 0 && collective != Collective::kAllToAll},
            rank, comm);
      }
    });
  }
}

TEST(Reduce, IsRightForEveryTypeAndOperator) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks, Layout{"Shared3", {3}}.options("direct"));
  ASSERT_TRUE(ranks.isReady());
  ranks.run([](int rank, omnesComm_t comm) {
    for (const DataType type : base::kAllDataTypes)
      for (const ReduceOp op : builtInOps(type))
        for (int root = 0; root < kRanks; ++root)
          run({Collective::kReduce, kRanks, root, type, op, 33, root == 1}, rank, comm);
  });
}

// Each rank's contribution is scaled by its own factor; with one rank it still is.
TEST(Reduce, ScalesBeforeItAdds) {
  for (const int nranks : {1, 4}) {
    for (const std::string& algo : algorithmNames(Collective::kReduce)) {
      ThreadRanks ranks(nranks, Layout{"Shared", {nranks}}.options(algo));
      ASSERT_TRUE(ranks.isReady());
      ranks.run([&](int rank, omnesComm_t comm) {
        float factor = static_cast<float>(rank + 2);
        omnesRedOp_t op;
        ASSERT_EQ(describe(omnesRedOpCreatePreMulSum(&op, &factor, omnesFloat32,
                                                     omnesScalarHostImmediate, comm)),
                  "0");
        const std::vector<float> in(1001, static_cast<float>(rank + 1));
        float expected = 0;
        for (int r = 0; r < nranks; ++r) expected += static_cast<float>((r + 1) * (r + 2));
        for (int root = 0; root < nranks; ++root) {
          std::vector<float> out(in.size(), -1.0f);
          ASSERT_EQ(describe(omnesReduce(in.data(), rank == root ? out.data() : nullptr, in.size(),
                                         omnesFloat32, op, root, comm, nullptr)),
                    "0")
              << algo;
          EXPECT_EQ(out, std::vector<float>(in.size(), rank == root ? expected : -1.0f)) << algo;
        }
      });
    }
  }
}

TEST(Bcast, ReadsTheRootsBufferAndWritesTheOthers) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks);
  ranks.run([](int rank, omnesComm_t comm) {
    for (int root = 0; root < kRanks; ++root) {
      std::vector<int64_t> data(777, rank + 10);
      EXPECT_EQ(describe(omnesBcast(data.data(), data.size(), omnesInt64, root, comm, nullptr)),
                "0");
      EXPECT_EQ(data, std::vector<int64_t>(777, root + 10));
    }
  });
}

// In streams and groups they wait for each other as the others do.
TEST(CollectivesInGroups, OneThreadDrivesAllRanks) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks);
  ASSERT_TRUE(ranks.isReady());
  std::vector<std::vector<int32_t>> out(kRanks, std::vector<int32_t>(kRanks, -1));
  std::vector<std::vector<int32_t>> all(kRanks, std::vector<int32_t>(kRanks, -1));
  std::vector<std::vector<int32_t>> in;
  for (int rank = 0; rank < kRanks; ++rank) in.push_back({rank * 10, rank * 10 + 1, rank * 10 + 2});
  ASSERT_EQ(describe(omnesGroupStart()), "0");
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(describe(omnesAlltoAll(in[rank].data(), out[rank].data(), 1, omnesInt32,
                                     ranks.comm(rank), nullptr)),
              "0");
    EXPECT_EQ(describe(omnesGather(&in[rank][0], rank == 1 ? all[rank].data() : nullptr, 1,
                                   omnesInt32, 1, ranks.comm(rank), nullptr)),
              "0");
  }
  ASSERT_EQ(describe(omnesGroupEnd()), "0");
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(out[rank], (std::vector<int32_t>{rank, 10 + rank, 20 + rank}));
  EXPECT_EQ(all[1], (std::vector<int32_t>{0, 10, 20}));
}

}  // namespace
}  // namespace omnes::tests
