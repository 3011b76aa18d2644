// The V collectives, exact against a reference: odd counts, zeros, gaps, any order of blocks, in
// place, every algorithm of the even forms, every way of carrying.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <random>

#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

using plan::Collective;

struct Layout {
  const char* name;
  int nranks;
  std::string transports = {};
  std::vector<int> ranksPerHost = {};
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

RanksOptions optionsOf(const Layout& layout, const std::string& algo = {}) {
  RanksOptions out;
  out.algo = algo;
  out.transports = layout.transports;
  if (!layout.ranksPerHost.empty()) out.hostIds = hostsOf(layout.ranksPerHost);
  out.timeoutMs = 60000;
  return out;
}

std::vector<Layout> layouts() {
  return {{"One", 1},
          {"Two", 2},
          {"Three", 3},
          {"Five", 5},
          {"Eight", 8},
          {"Tcp4", 4, "tcp"},
          {"ThreeAndOne", 4, "", {3, 1}},
          {"OneTwoTwo", 5, "", {1, 2, 2}}};
}

// Counts of all ranks, and one rank's displacements: blocks in a random order, with gaps.
struct Blocks {
  std::vector<size_t> counts, displacements;
  size_t total = 0;  // elements of the buffer, gaps included

  size_t at(size_t rank) const { return displacements[rank]; }
};

std::vector<size_t> drawCounts(size_t n, std::mt19937_64& random, size_t most) {
  std::vector<size_t> out(n);
  for (size_t& count : out) {
    const uint64_t kind = random() % 4;
    count = kind == 0 ? 0 : kind == 1 ? random() % 20 : random() % (most + 1);
  }
  return out;
}

Blocks layOut(std::vector<size_t> counts, std::mt19937_64& random, bool packed) {
  Blocks out{std::move(counts), {}, 0};
  out.displacements.resize(out.counts.size());
  std::vector<size_t> order(out.counts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (!packed) std::shuffle(order.begin(), order.end(), random);
  for (const size_t rank : order) {
    if (!packed) out.total += random() % 9;
    out.displacements[rank] = out.total;
    out.total += out.counts[rank];
  }
  return out;
}

using Words = std::vector<int32_t>;
constexpr int32_t kGap = -77;

int32_t valueOf(uint64_t seed, size_t from, size_t to, size_t i) {
  return static_cast<int32_t>((seed * 31 + from * 7919 + to * 104729 + i * 13) % 1000003);
}

size_t mostFor(size_t round) {
  constexpr size_t kMost[] = {10, 1000, 20000, 150000};
  return kMost[round % std::size(kMost)] / (kSanitized ? 5 : 1) + 1;
}

class Vector : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, Vector, ::testing::ValuesIn(layouts()),
                         [](const auto& entry) { return entry.param.name; });

std::vector<std::string> choices(Collective even) {
  std::vector<std::string> out = algorithmNames(even);
  out.insert(out.begin(), "");
  return out;
}

// An algorithm may not do all sizes or numbers of ranks: then another one is taken.
TEST_P(Vector, AllGather) {
  for (const std::string& algo : choices(Collective::kAllGather)) {
    SCOPED_TRACE(algo);
    ThreadRanks ranks(GetParam().nranks, optionsOf(GetParam(), algo));
    ranks.run([&](int own, omnesComm_t comm) {
      const size_t n = static_cast<size_t>(ranks.size()), rank = static_cast<size_t>(own);
      std::mt19937_64 common(7), mine(rank + 1);
      for (size_t round = 0; round < 8; ++round) {
        const Blocks blocks = layOut(drawCounts(n, common, mostFor(round)), mine, round % 3 == 0);
        const bool inPlace = round % 2 == 1;
        Words expected(blocks.total, kGap), send(blocks.counts[rank]);
        for (size_t r = 0; r < n; ++r)
          for (size_t i = 0; i < blocks.counts[r]; ++i)
            expected[blocks.at(r) + i] = valueOf(round, r, 0, i);
        for (size_t i = 0; i < send.size(); ++i) send[i] = valueOf(round, rank, 0, i);
        for (int again = 0; again < 2; ++again) {
          Words recv(blocks.total, kGap);
          if (inPlace)
            std::copy(send.begin(), send.end(),
                      recv.begin() + static_cast<ptrdiff_t>(blocks.at(rank)));
          const int32_t* from = inPlace ? recv.data() + blocks.at(rank) : send.data();
          ASSERT_EQ(
              describe(omnesAllGatherV(from, send.size(), recv.data(), blocks.counts.data(),
                                       blocks.displacements.data(), omnesInt32, comm, nullptr)),
              "0");
          ASSERT_TRUE(recv == expected) << "round " << round;
        }
      }
    });
  }
}

TEST_P(Vector, ReduceScatter) {
  for (const std::string& algo : choices(Collective::kReduceScatter)) {
    SCOPED_TRACE(algo);
    ThreadRanks ranks(GetParam().nranks, optionsOf(GetParam(), algo));
    ranks.run([&](int own, omnesComm_t comm) {
      const size_t n = static_cast<size_t>(ranks.size()), rank = static_cast<size_t>(own);
      std::mt19937_64 common(8);
      for (size_t round = 0; round < 8; ++round) {
        const Blocks blocks = layOut(drawCounts(n, common, mostFor(round)), common, true);
        Words send(blocks.total), expected(blocks.counts[rank]);
        for (size_t i = 0; i < send.size(); ++i) send[i] = valueOf(round, rank, 1, i);
        for (size_t i = 0; i < expected.size(); ++i)
          for (size_t r = 0; r < n; ++r) expected[i] += valueOf(round, r, 1, blocks.at(rank) + i);
        Words recv(expected.size(), kGap);
        ASSERT_EQ(describe(omnesReduceScatterV(send.data(), recv.data(), blocks.counts.data(),
                                               omnesInt32, omnesSum, comm, nullptr)),
                  "0");
        ASSERT_TRUE(recv == expected) << "round " << round;
        // In place.
        int32_t* at = send.data() + blocks.at(rank);
        ASSERT_EQ(describe(omnesReduceScatterV(send.data(), at, blocks.counts.data(), omnesInt32,
                                               omnesSum, comm, nullptr)),
                  "0");
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), at)) << "round " << round;
      }
    });
  }
}

// Sums of narrow floats are wide on the way, as those of the even form.
TEST_P(Vector, ReduceScatterOfAllTypesInRankOrder) {
  const int nranks = GetParam().nranks;
  ThreadRanks ranks(nranks, optionsOf(GetParam(), "direct"));
  const size_t n = static_cast<size_t>(nranks);
  for (const DataType type : base::kAllDataTypes)
    for (const ReduceOp op : builtInOps(type)) {
      std::mt19937_64 random(static_cast<uint64_t>(type) * 256 + static_cast<uint64_t>(op));
      const Blocks blocks = layOut(drawCounts(n, random, 3000), random, true);
      const size_t width = base::sizeOf(type);
      std::vector<Bytes> inputs;
      for (size_t r = 0; r < n; ++r)
        inputs.push_back(randomNumbers(type, blocks.total, r * 1000 + random() % 100));
      const Bytes all = reducedInRankOrder(type, op, inputs);
      ranks.run([&](int own, omnesComm_t comm) {
        const size_t rank = static_cast<size_t>(own);
        GuardedBuffer recv(blocks.counts[rank] * width, 1);
        ASSERT_EQ(
            describe(omnesReduceScatterV(inputs[rank].data(), recv.data(), blocks.counts.data(),
                                         apiType(type), apiOp(op), comm, nullptr)),
            "0");
        const auto begin = all.begin() + static_cast<ptrdiff_t>(blocks.at(rank) * width);
        const Bytes expected(begin, begin + static_cast<ptrdiff_t>(recv.size()));
        EXPECT_EQ(difference(recv.data(), expected), "")
            << base::nameOf(type) << " " << base::nameOf(op);
        EXPECT_TRUE(recv.isIntact());
      });
    }
}

// counts[from][to] of a round, as all ranks draw them.
std::vector<std::vector<size_t>> drawTable(size_t n, std::mt19937_64& random, size_t most) {
  std::vector<std::vector<size_t>> out;
  for (size_t r = 0; r < n; ++r) out.push_back(drawCounts(n, random, most));
  return out;
}

enum class Way { kPlain, kStream, kGroup };

// One call in some way, awaited.
template <typename Call>
void runWay(Way way, omnesStream_t stream, const Call& call) {
  if (way == Way::kGroup) {
    ASSERT_EQ(omnesGroupStart(), omnesSuccess);
  }
  ASSERT_EQ(describe(call(way == Way::kStream ? stream : nullptr)), "0");
  if (way == Way::kGroup) {
    ASSERT_EQ(describe(omnesGroupEnd()), "0");
  }
  ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
}

class WithStreams {
 public:
  WithStreams() { EXPECT_EQ(omnesStreamCreate(&stream), omnesSuccess); }
  ~WithStreams() { EXPECT_EQ(omnesStreamDestroy(stream), omnesSuccess); }
  WithStreams(const WithStreams&) = delete;
  WithStreams& operator=(const WithStreams&) = delete;
  omnesStream_t stream = nullptr;
};

TEST_P(Vector, AlltoAll) {
  ThreadRanks ranks(GetParam().nranks, optionsOf(GetParam()));
  ranks.run([&](int own, omnesComm_t comm) {
    const WithStreams with;
    const size_t n = static_cast<size_t>(ranks.size()), rank = static_cast<size_t>(own);
    std::mt19937_64 common(9), mine(rank + 100);
    for (size_t round = 0; round < 24; ++round) {
      const auto table = drawTable(n, common, mostFor(round) / n);
      std::vector<size_t> column(n);
      for (size_t r = 0; r < n; ++r) column[r] = table[r][rank];
      const Blocks sent = layOut(table[rank], mine, false), got = layOut(column, mine, false);
      Words send(sent.total), expected(got.total, kGap), recv(got.total, kGap);
      for (size_t r = 0; r < n; ++r) {
        for (size_t i = 0; i < sent.counts[r]; ++i)
          send[sent.at(r) + i] = valueOf(round, rank, r, i);
        for (size_t i = 0; i < got.counts[r]; ++i)
          expected[got.at(r) + i] = valueOf(round, r, rank, i);
      }
      runWay(static_cast<Way>(round % 3), with.stream, [&](omnesStream_t stream) {
        return omnesAlltoAllV(send.data(), sent.counts.data(), sent.displacements.data(),
                              recv.data(), got.counts.data(), got.displacements.data(), omnesInt32,
                              comm, stream);
      });
      ASSERT_TRUE(recv == expected) << "round " << round;
    }
  });
}

TEST_P(Vector, GatherAndScatter) {
  ThreadRanks ranks(GetParam().nranks, optionsOf(GetParam()));
  ranks.run([&](int own, omnesComm_t comm) {
    const WithStreams with;
    const size_t n = static_cast<size_t>(ranks.size()), rank = static_cast<size_t>(own);
    std::mt19937_64 common(10);
    for (size_t round = 0; round < 6 * n; ++round) {
      const int root = static_cast<int>(round % n);
      const bool isRoot = own == root, inPlace = isRoot && round % 2 == 1;
      const Blocks blocks = layOut(drawCounts(n, common, mostFor(round)), common, false);
      Words all(blocks.total, kGap), block(blocks.counts[rank], kGap);
      for (size_t r = 0; r < n; ++r)
        for (size_t i = 0; i < blocks.counts[r]; ++i)
          all[blocks.at(r) + i] = valueOf(round, r, 2, i);
      Words mine(all.begin() + static_cast<ptrdiff_t>(blocks.at(rank)),
                 all.begin() + static_cast<ptrdiff_t>(blocks.at(rank) + blocks.counts[rank]));
      const Way way = static_cast<Way>(round % 3);
      Words gathered(blocks.total, kGap);
      if (inPlace)
        std::copy(mine.begin(), mine.end(),
                  gathered.begin() + static_cast<ptrdiff_t>(blocks.at(rank)));
      const int32_t* from = inPlace ? gathered.data() + blocks.at(rank) : mine.data();
      runWay(way, with.stream, [&](omnesStream_t stream) {
        return omnesGatherV(from, mine.size(), isRoot ? gathered.data() : nullptr,
                            isRoot ? blocks.counts.data() : nullptr,
                            isRoot ? blocks.displacements.data() : nullptr, omnesInt32, root, comm,
                            stream);
      });
      if (isRoot) {
        ASSERT_TRUE(gathered == all) << "gather, round " << round;
      }
      int32_t* to = inPlace ? all.data() + blocks.at(rank) : block.data();
      runWay(way, with.stream, [&](omnesStream_t stream) {
        return omnesScatterV(isRoot ? all.data() : nullptr, isRoot ? blocks.counts.data() : nullptr,
                             isRoot ? blocks.displacements.data() : nullptr, to, mine.size(),
                             omnesInt32, root, comm, stream);
      });
      ASSERT_TRUE(std::equal(mine.begin(), mine.end(), to)) << "scatter, round " << round;
    }
  });
}

// Beyond 2^32 bytes of displacement, in memory that is reserved and not used.
TEST(VectorSizes, DisplacementsBeyondFourGiB) {
  constexpr size_t kFar = (size_t{5} << 30) / sizeof(int32_t);
  ThreadRanks ranks(2);
  ranks.run([&](int rank, omnesComm_t comm) {
    const size_t bytes = (kFar + 1000) * sizeof(int32_t);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no address space";
    auto* recv = static_cast<int32_t*>(memory);
    const size_t counts[] = {500, 300}, displs[] = {0, kFar};
    const Words send(counts[rank], rank + 1);
    ASSERT_EQ(describe(omnesAllGatherV(send.data(), send.size(), recv, counts, displs, omnesInt32,
                                       comm, nullptr)),
              "0");
    EXPECT_EQ(recv[499], 1);
    EXPECT_EQ(recv[500], 0);
    EXPECT_EQ(recv[kFar], 2);
    EXPECT_EQ(recv[kFar + 299], 2);
    const size_t sizes[] = {100, 100}, far[] = {kFar, 0};
    const size_t near[] = {0, 100};
    ASSERT_EQ(describe(omnesAlltoAllV(send.data(), sizes, near, recv, sizes, far, omnesInt32, comm,
                                      nullptr)),
              "0");
    EXPECT_EQ(recv[kFar], 1);
    EXPECT_EQ(recv[0], 2);
    munmap(memory, bytes);
  });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(VectorArguments, AreCheckedAtTheCall) {
  ThreadRanks ranks(2);
  ranks.run([&](int own, omnesComm_t comm) {
    const size_t rank = static_cast<size_t>(own);
    const auto refused = [&](omnesResult_t result, const char* part) {
      EXPECT_EQ(result, omnesInvalidArgument) << part;
      EXPECT_TRUE(contains(omnesGetLastError(nullptr), part)) << omnesGetLastError(nullptr);
    };
    Words send(100, 1), recv(100, 0);
    const size_t counts[] = {3, 3}, displs[] = {0, 3}, close[] = {0, 2}, far[] = {0, SIZE_MAX / 2};
    const size_t huge[] = {SIZE_MAX / 4, SIZE_MAX / 4}, other[] = {rank == 0 ? 4u : 3u, 4};
    const auto gather = [&](const void* s, size_t count, void* r, const size_t* c,
                            const size_t* d) {
      return omnesAllGatherV(s, count, r, c, d, omnesInt32, comm, nullptr);
    };
    refused(gather(send.data(), 3, recv.data(), nullptr, displs), "recvcounts is NULL");
    refused(gather(send.data(), 3, recv.data(), counts, nullptr), "displs is NULL");
    refused(gather(nullptr, 3, recv.data(), counts, displs), "sendbuff is NULL");
    refused(gather(send.data(), 3, nullptr, counts, displs), "recvbuff is NULL");
    refused(gather(send.data(), 2, recv.data(), counts, displs), "sendcount is 2");
    refused(gather(send.data(), 3, recv.data(), counts, close), "overlap");
    refused(gather(send.data(), 3, recv.data(), counts, far), "2^63");
    refused(gather(send.data(), huge[0], recv.data(), huge, displs), "recvcounts[0]");
    refused(gather(recv.data() + 1 + 3 * rank, 3, recv.data(), counts, displs), "in place");
    const auto scatter = [&](const void* s, void* r, const size_t* c, omnesRedOp_t op) {
      return omnesReduceScatterV(s, r, c, omnesFloat32, op, comm, nullptr);
    };
    refused(scatter(send.data(), recv.data(), nullptr, omnesSum), "recvcounts is NULL");
    refused(scatter(send.data(), recv.data(), counts, omnesBand), "band");
    refused(scatter(send.data(), send.data() + 1, counts, omnesSum), "in place");
    const auto exchange = [&](const size_t* sc, void* r, const size_t* rc, const size_t* rd) {
      return omnesAlltoAllV(send.data(), sc, displs, r, rc, rd, omnesInt32, comm, nullptr);
    };
    refused(exchange(counts, recv.data(), other, displs), "for this rank itself");
    refused(exchange(counts, recv.data(), counts, close), "overlap");
    refused(exchange(counts, send.data(), counts, displs), "overlaps");
    refused(omnesGatherV(send.data(), 3, recv.data(), counts, displs, omnesInt32, 2, comm, nullptr),
            "root is 2");
    refused(
        omnesScatterV(send.data(), counts, displs, recv.data(), 3, omnesInt32, -1, comm, nullptr),
        "root is -1");
    EXPECT_EQ(describe(gather(send.data(), 3, recv.data(), counts, displs)), "0");
  });
}

// Each rank gets both sides, whoever differs in whatever.
TEST(VectorMismatch, IsToldToAllRanks) {
  for (const std::string transports : {"", "tcp"})
    for (const std::string what : {"allgather", "same sum", "reducescatter", "alltoall", "gather",
                                   "scatter", "collective"}) {
      SCOPED_TRACE(what + " " + transports);
      RanksOptions options;
      options.transports = transports;
      options.timeoutMs = 30000;
      ThreadRanks ranks(3, options);
      ranks.run([&](int rank, omnesComm_t comm) {
        const bool isOdd = rank == 2;
        Words send(100, 1), recv(100, 0);
        const size_t even[] = {4, 5, 6}, displs[] = {0, 20, 40};
        size_t counts[] = {4, 5, 6};
        if (isOdd && what == "same sum")
          std::swap(counts[0], counts[1]);
        else if (isOdd)
          ++counts[0];
        omnesResult_t result = omnesSuccess;
        const size_t own = even[static_cast<size_t>(rank)];
        const size_t table[] = {5, 5, 5};
        const size_t odd[] = {isOdd ? 6u : 5u, 5, 5};
        if (what == "allgather" || what == "same sum")
          result = omnesAllGatherV(send.data(), counts[rank], recv.data(), counts, displs,
                                   omnesInt32, comm, nullptr);
        else if (what == "reducescatter")
          result = omnesReduceScatterV(send.data(), recv.data(), counts, omnesInt32, omnesSum, comm,
                                       nullptr);
        else if (what == "alltoall")
          result = omnesAlltoAllV(send.data(), odd, displs, recv.data(), table, displs, omnesInt32,
                                  comm, nullptr);
        else if (what == "gather")
          result = omnesGatherV(send.data(), isOdd ? 7 : own, recv.data(), even, displs, omnesInt32,
                                0, comm, nullptr);
        else if (what == "scatter")
          result = omnesScatterV(send.data(), even, displs, recv.data(), isOdd ? 7 : own,
                                 omnesInt32, 0, comm, nullptr);
        else if (isOdd)
          result = omnesGatherV(send.data(), own, recv.data(), even, displs, omnesInt32, 2, comm,
                                nullptr);
        else
          result = omnesScatterV(send.data(), even, displs, recv.data(), own, omnesInt32, 0, comm,
                                 nullptr);
        // Whose own part had ended hears of it with its next call.
        if (result == omnesSuccess) result = omnesBarrier(comm, nullptr);
        EXPECT_EQ(result, omnesInvalidUsage) << describe(result);
        for (const std::string part : {"rank 2", "int32"})
          EXPECT_TRUE(contains(omnesGetLastError(comm), part)) << omnesGetLastError(comm);
      });
    }
}

}  // namespace
}  // namespace omnes::tests
