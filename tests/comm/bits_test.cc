// Results have the same bits: on every rank, in every repetition, whatever the buffers; with every
// algorithm.
#include <gtest/gtest.h>

#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

using plan::Collective;

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16,
                               DataType::kFloat8e4m3, DataType::kFloat8e5m2};

std::vector<size_t> counts() {
  return kSanitized ? std::vector<size_t>{1, 17, 1000, 10007}
                    : std::vector<size_t>{1, 17, 1000, 100003};
}

struct Case {
  std::string algo;
  int nranks;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.algo << " " << c.nranks; }

std::vector<Case> allCases(Collective collective) {
  std::vector<Case> out;
  for (const std::string& name : algorithmNames(collective))
    for (const int nranks : {3, 5, 6, 7, 12}) out.push_back({name, nranks});
  return out;
}

std::string nameOf(const ::testing::TestParamInfo<Case>& info) {
  return info.param.algo + "_" + std::to_string(info.param.nranks);
}

// The numbers of all ranks; in odd rounds any bits, so that NaNs and infinities meet.
std::vector<Bytes> inputsFor(int nranks, DataType type, size_t count, bool anyBits) {
  std::vector<Bytes> out;
  for (int rank = 0; rank < nranks; ++rank) {
    const uint64_t seed =
        count * 1000 + static_cast<uint64_t>(rank) * 16 + static_cast<uint64_t>(type);
    out.push_back(anyBits ? randomBits(count * base::sizeOf(type), seed)
                          : randomNumbers(type, count, seed));
  }
  return out;
}

// The four ways in which one call is made; all must give the same bits.
enum class Way { kPlain, kAgain, kInPlace, kUnaligned };
constexpr Way kWays[] = {Way::kPlain, Way::kAgain, Way::kInPlace, Way::kUnaligned};

Bytes allReduce(omnesComm_t comm, DataType type, const Bytes& input, Way way, size_t odd) {
  const size_t bytes = input.size();
  const bool shifted = way == Way::kUnaligned;
  GuardedBuffer send(bytes, shifted ? odd : 0), recv(bytes, shifted ? odd + 6 : 0);
  GuardedBuffer& from = way == Way::kInPlace ? recv : send;
  from.fill(input);
  EXPECT_EQ(describe(omnesAllReduce(from.data(), recv.data(), bytes / base::sizeOf(type),
                                    apiType(type), omnesSum, comm, nullptr)),
            "0");
  EXPECT_TRUE(send.isIntact() && recv.isIntact());
  return Bytes(recv.data(), recv.data() + bytes);
}

class Bits : public ::testing::TestWithParam<Case> {};

TEST_P(Bits, AllReduceC14) {
  const auto& [algo, nranks] = GetParam();
  ThreadRanks ranks(nranks, {.algo = algo});
  for (const DataType type : kTypes)
    for (const size_t count : counts())
      for (const bool anyBits : {false, true}) {
        SCOPED_TRACE(std::string(base::nameOf(type)) + " x " + std::to_string(count));
        const std::vector<Bytes> inputs = inputsFor(nranks, type, count, anyBits);
        std::vector<std::vector<Bytes>> outputs(nranks);
        ranks.run([&](int rank, omnesComm_t comm) {
          for (const Way way : kWays)
            outputs[rank].push_back(
                allReduce(comm, type, inputs[rank], way, 1 + static_cast<size_t>(rank) % 7));
        });
        const Bytes expected = addsInRankOrder(Collective::kAllReduce, algo)
                                   ? reducedInRankOrder(type, ReduceOp::kSum, inputs)
                                   : outputs[0][0];
        for (int rank = 0; rank < nranks; ++rank)
          for (size_t way = 0; way < outputs[rank].size(); ++way)
            ASSERT_EQ(difference(outputs[rank][way], expected), "")
                << "rank " << rank << " way " << way;
      }
}

INSTANTIATE_TEST_SUITE_P(All, Bits, ::testing::ValuesIn(allCases(Collective::kAllReduce)), nameOf);

// Reduce-scatter and then all-gather of what it gave: again one answer for all, and for all ways.
Bytes scatterAndGather(omnesComm_t comm, int nranks, int rank, DataType type, const Bytes& input,
                       Way way) {
  const size_t block = input.size() / static_cast<size_t>(nranks),
               count = block / base::sizeOf(type);
  const size_t odd = way == Way::kUnaligned ? 3 : 0, at = block * static_cast<size_t>(rank);
  GuardedBuffer send(input.size(), odd), part(block, odd), whole(input.size(), odd);
  send.fill(input);
  uint8_t* mine = way == Way::kInPlace ? send.data() + at : part.data();
  EXPECT_EQ(describe(omnesReduceScatter(send.data(), mine, count, apiType(type), omnesSum, comm,
                                        nullptr)),
            "0");
  uint8_t* from = mine;
  if (way == Way::kInPlace) {
    from = whole.data() + at;
    if (block > 0) std::memcpy(from, mine, block);
  }
  EXPECT_EQ(describe(omnesAllGather(from, whole.data(), count, apiType(type), comm, nullptr)), "0");
  EXPECT_TRUE(send.isIntact() && part.isIntact() && whole.isIntact());
  return Bytes(whole.data(), whole.data() + whole.size());
}

class ScatterBits : public ::testing::TestWithParam<Case> {};

TEST_P(ScatterBits, ReduceScatterThenAllGather) {
  const auto& [algo, nranks] = GetParam();
  ThreadRanks ranks(nranks, {.algo = algo});
  for (const DataType type : kTypes)
    for (const size_t count : {size_t{1}, size_t{17}, size_t{kSanitized ? 1003 : 10007}}) {
      SCOPED_TRACE(std::string(base::nameOf(type)) + " x " + std::to_string(count));
      const std::vector<Bytes> inputs =
          inputsFor(nranks, type, count * static_cast<size_t>(nranks), count == 17);
      std::vector<std::vector<Bytes>> outputs(nranks);
      ranks.run([&](int rank, omnesComm_t comm) {
        for (const Way way : kWays)
          outputs[rank].push_back(scatterAndGather(comm, nranks, rank, type, inputs[rank], way));
      });
      const Bytes expected =
          addsInRankOrder(Collective::kReduceScatter, algo) ? reducedInRankOrder(type, ReduceOp::kSum, inputs) : outputs[0][0];
      for (int rank = 0; rank < nranks; ++rank)
        for (size_t way = 0; way < outputs[rank].size(); ++way)
          ASSERT_EQ(difference(outputs[rank][way], expected), "")
              << "rank " << rank << " way " << way;
    }
}

INSTANTIATE_TEST_SUITE_P(All, ScatterBits,
                         ::testing::ValuesIn(allCases(Collective::kReduceScatter)), nameOf);

TEST(Deterministic, PrefixOfALongerMessageHasTheSameBits) {
  constexpr int kRanks = 5;
  constexpr size_t kMost = kSanitized ? 60000 : 200000;
  ThreadRanks ranks(kRanks, {.algo = "", .deterministic = 1});
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    const std::vector<Bytes> inputs = inputsFor(kRanks, type, kMost, false);
    const Bytes expected = reducedInRankOrder(type, ReduceOp::kSum, inputs);
    for (const size_t count :
         {size_t{1}, size_t{3}, size_t{1000}, size_t{5000}, size_t{60000}, kMost}) {
      const size_t bytes = count * base::sizeOf(type);
      ranks.run([&](int rank, omnesComm_t comm) {
        const Bytes input(inputs[rank].begin(),
                          inputs[rank].begin() + static_cast<ptrdiff_t>(bytes));
        const Bytes got = allReduce(comm, type, input, Way::kPlain, 0);
        EXPECT_EQ(difference(got, Bytes(expected.begin(),
                                        expected.begin() + static_cast<ptrdiff_t>(bytes))),
                  "")
            << base::nameOf(type) << " x " << count << " rank " << rank;
      });
    }
  }
}

}  // namespace
}  // namespace omnes::tests
