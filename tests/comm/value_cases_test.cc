// Public reports about wrong numbers, as tests: every algorithm, every rank. The test names carry
// the case numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "comm/thread_ranks.h"
#include "comm/values.h"
#include "kernels/kernels.h"

namespace omnes::tests {
namespace {

using plan::Collective;

class EveryAlgorithm : public ::testing::TestWithParam<std::string> {};

// All-reduces inputs[r] and expects `expected` on every rank.
void expectReduced(ThreadRanks* ranks, DataType type, ReduceOp op, const std::vector<Bytes>& inputs,
                   const Bytes& expected, size_t offset = 0) {
  ranks->run([&](int rank, omnesComm_t comm) {
    GuardedBuffer send(inputs[rank].size(), offset), recv(expected.size(), offset);
    send.fill(inputs[rank]);
    const size_t count = expected.size() / base::sizeOf(type);
    EXPECT_EQ(describe(omnesAllReduce(send.data(), recv.data(), count, apiType(type), apiOp(op),
                                      comm, nullptr)),
              "0");
    EXPECT_EQ(difference(recv.data(), expected), "")
        << base::nameOf(type) << " " << base::nameOf(op) << " x " << count << " rank " << rank;
    EXPECT_TRUE(send.isIntact() && recv.isIntact());
  });
}

Bytes encode(DataType type, const std::vector<float>& values) {
  Bytes out(values.size() * base::sizeOf(type));
  if (type == DataType::kFloat64) return bytesOf(std::vector<double>(values.begin(), values.end()));
  kernels::fromFloat32(type, values.data(), out.data(), values.size());
  return out;
}

// One rank: AVG left the end of the output unwritten.
TEST(OneRank, C01AverageIsTheInputBitForBit) {
  ThreadRanks ranks(1);
  ranks.run([](int, omnesComm_t comm) {
    for (const DataType type : base::kAllDataTypes) {
      const size_t width = base::sizeOf(type);
      const Bytes input = randomBits(4097 * width, 7);
      for (size_t count = 1; count <= 4097; count += kSanitized ? 61 : 1) {
        Bytes output(count * width + 8, 0x5a);
        ASSERT_EQ(omnesAllReduce(input.data(), output.data(), count, apiType(type), omnesAvg, comm,
                                 nullptr),
                  omnesSuccess);
        ASSERT_EQ(std::memcmp(output.data(), input.data(), count * width), 0)
            << base::nameOf(type) << " x " << count;
        ASSERT_EQ(output[count * width], 0x5a);
      }
    }
  });
}

// One rank: every operator and collective is a copy, and PreMulSum scales.
TEST(OneRank, C66EveryOperationCopies) {
  ThreadRanks ranks(1);
  ranks.run([](int, omnesComm_t comm) {
    for (const DataType type : base::kAllDataTypes)
      for (const size_t count : {size_t{1}, size_t{77}, size_t{40000}}) {
        const Bytes input = randomBits(count * base::sizeOf(type), count);
        for (const ReduceOp op : builtInOps(type)) {
          Bytes a(input.size(), 0x5a), b(input.size(), 0x5a);
          EXPECT_EQ(describe(omnesAllReduce(input.data(), a.data(), count, apiType(type), apiOp(op),
                                            comm, nullptr)),
                    "0");
          EXPECT_EQ(describe(omnesReduceScatter(input.data(), b.data(), count, apiType(type),
                                                apiOp(op), comm, nullptr)),
                    "0");
          EXPECT_EQ(difference(a, input), "") << base::nameOf(type) << " " << base::nameOf(op);
          EXPECT_EQ(difference(b, input), "") << base::nameOf(type) << " " << base::nameOf(op);
        }
        Bytes c(input.size(), 0x5a), d = input;
        EXPECT_EQ(
            describe(omnesAllGather(input.data(), c.data(), count, apiType(type), comm, nullptr)),
            "0");
        EXPECT_EQ(difference(c, input), "") << base::nameOf(type);
        EXPECT_EQ(describe(omnesAllGather(d.data(), d.data(), count, apiType(type), comm, nullptr)),
                  "0");
        EXPECT_EQ(difference(d, input), "") << base::nameOf(type);
        EXPECT_EQ(describe(omnesBarrier(comm, nullptr)), "0");
      }
    float factor = 2.5f;
    omnesRedOp_t op;
    ASSERT_EQ(describe(omnesRedOpCreatePreMulSum(&op, &factor, omnesFloat32,
                                                 omnesScalarHostImmediate, comm)),
              "0");
    const float in[2] = {3.0f, -1.0f};
    float out[2] = {};
    EXPECT_EQ(describe(omnesAllReduce(in, out, 2, omnesFloat32, op, comm, nullptr)), "0");
    EXPECT_EQ(out[0], 7.5f);
    EXPECT_EQ(out[1], -2.5f);
  });
}

template <typename T>
void expectUnsignedOrder(ThreadRanks* ranks, DataType type) {
  constexpr T kHalf = T{1} << (sizeof(T) * 8 - 1);
  constexpr T kValues[] = {0, kHalf - 1, kHalf, std::numeric_limits<T>::max()};
  for (size_t count = 1; count <= 67; count += kSanitized ? 11 : 1) {
    std::vector<Bytes> inputs;
    std::vector<T> least(count, std::numeric_limits<T>::max()), most(count, 0);
    for (size_t rank = 0; rank < static_cast<size_t>(ranks->size()); ++rank) {
      std::vector<T> input;
      for (size_t i = 0; i < count; ++i) {
        input.push_back(kValues[(i + rank * (1 + i / 4)) % 4]);
        least[i] = std::min(least[i], input[i]);
        most[i] = std::max(most[i], input[i]);
      }
      inputs.push_back(bytesOf(input));
    }
    expectReduced(ranks, type, ReduceOp::kMin, inputs, bytesOf(least));
    expectReduced(ranks, type, ReduceOp::kMax, inputs, bytesOf(most));
  }
}

// Unsigned minima and maxima were compared as signed.
TEST_P(EveryAlgorithm, C08UnsignedOrderInEveryLane) {
  ThreadRanks ranks(3, {.algo = GetParam()});
  expectUnsignedOrder<uint8_t>(&ranks, DataType::kUint8);
  expectUnsignedOrder<uint16_t>(&ranks, DataType::kUint16);
  expectUnsignedOrder<uint32_t>(&ranks, DataType::kUint32);
  expectUnsignedOrder<uint64_t>(&ranks, DataType::kUint64);
}

// Sums of small integers saturated in one code path and wrapped in another.
TEST_P(EveryAlgorithm, C09SmallIntegerSumsWrap) {
  ThreadRanks ranks(2, {.algo = GetParam()});
  for (size_t count = 1; count <= 129; count += kSanitized ? 16 : 1) {
    const size_t offset = count % 2 * 3;
    const auto bytes = [&](uint8_t value) { return Bytes(count, value); };
    expectReduced(&ranks, DataType::kInt8, ReduceOp::kSum, {bytes(100), bytes(100)}, bytes(200),
                  offset);
    expectReduced(&ranks, DataType::kUint8, ReduceOp::kSum, {bytes(200), bytes(100)}, bytes(44),
                  offset);
    const auto shorts = [&](uint16_t value) {
      return bytesOf(std::vector<uint16_t>(count, value));
    };
    expectReduced(&ranks, DataType::kInt16, ReduceOp::kSum, {shorts(30000), shorts(30000)},
                  shorts(60000), offset);
    expectReduced(&ranks, DataType::kUint16, ReduceOp::kSum, {shorts(60000), shorts(10000)},
                  shorts(4464), offset);
  }
}

// The answer depended on which rank held the NaN.
TEST_P(EveryAlgorithm, C16NanAndSignedZeroWhereverTheyAre) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::vector<float>> values(4);  // by rank; one element a placement
  int order[4] = {0, 1, 2, 3};
  const float mixed[4] = {1, kNan, 3, 4};
  do {
    for (int rank = 0; rank < 4; ++rank) values[rank].push_back(mixed[order[rank]]);
  } while (std::next_permutation(order, order + 4));
  ASSERT_EQ(values[0].size(), 24u);
  for (int placement = 0; placement < 14; ++placement)  // every mixture of both zeros
    for (int rank = 0; rank < 4; ++rank)
      values[rank].push_back((placement + 1) >> rank & 1 ? -0.0f : 0.0f);
  // More than once, so that a placement is met in vectors and in tails.
  for (auto& list : values)
    for (int copy = 0; copy < 2; ++copy) list.insert(list.end(), list.begin(), list.begin() + 38);
  ThreadRanks ranks(4, {.algo = GetParam()});
  for (const DataType type : base::kAllDataTypes) {
    if (!base::isFloat(type)) continue;
    std::vector<Bytes> inputs;
    for (const auto& list : values) inputs.push_back(encode(type, list));
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      std::vector<float> expected;
      for (size_t i = 0; i < values[0].size(); ++i)
        expected.push_back(i % 38 < 24 ? kNan : op == ReduceOp::kMin ? -0.0f : 0.0f);
      expectReduced(&ranks, type, op, inputs, encode(type, expected));
    }
  }
}

// Small terms were lost in sums of bfloat16.
TEST_P(EveryAlgorithm, C17SmallTermsOfBfloat16AreNotLost) {
  ThreadRanks ranks(16, {.algo = GetParam()});
  for (const int large : {0, 7, 15})
    for (const size_t count : {size_t{1}, size_t{40}, size_t{5000}}) {
      std::vector<Bytes> inputs;
      for (int rank = 0; rank < 16; ++rank)
        inputs.push_back(
            encode(DataType::kBfloat16, std::vector<float>(count, rank == large ? 1.0f : 0x1p-9f)));
      // 1 + 15/512 = 131.75/128, rounded once to a multiple of 1/128.
      const std::vector<float> expected(count, 132.0f / 128.0f);
      expectReduced(&ranks, DataType::kBfloat16, ReduceOp::kSum, inputs,
                    encode(DataType::kBfloat16, expected));
    }
}

// The mean of large half-precision numbers overflowed in the sum.
TEST_P(EveryAlgorithm, C18AverageOfLargeHalfsIsFinite) {
  for (const int nranks : {3, 10}) {
    ThreadRanks ranks(nranks, {.algo = GetParam()});
    for (const float value : {60000.0f, 65504.0f}) {
      const std::vector<Bytes> same(static_cast<size_t>(nranks),
                                    encode(DataType::kFloat16, std::vector<float>(50, value)));
      expectReduced(&ranks, DataType::kFloat16, ReduceOp::kAvg, same, same[0]);
    }
    std::vector<Bytes> inputs;
    double sum = 0;
    for (int rank = 0; rank < nranks; ++rank) {
      const float value = 60000.0f + 32.0f * static_cast<float>(rank * rank % 7);
      inputs.push_back(encode(DataType::kFloat16, std::vector<float>(50, value)));
      sum += value;
    }
    const std::vector<float> mean(50, static_cast<float>(sum / nranks));
    expectReduced(&ranks, DataType::kFloat16, ReduceOp::kAvg, inputs,
                  encode(DataType::kFloat16, mean));
  }
}

// Each rank has a factor of its own; the sum of the products is exact here in every type.
TEST_P(EveryAlgorithm, CreatedOperatorsScaleEachContribution) {
  constexpr int kRanks = 3;
  ThreadRanks ranks(kRanks, {.algo = GetParam()});
  for (const DataType type : base::kAllDataTypes)
    for (const size_t count : {size_t{1}, size_t{333}, size_t{30000}}) {
      const auto numbers = [&](const std::vector<float>& values) {
        if (base::isFloat(type)) return encode(type, values);
        Bytes out(values.size() * base::sizeOf(type));
        for (size_t i = 0; i < values.size(); ++i) {
          const uint64_t value = static_cast<uint64_t>(values[i]);
          std::memcpy(out.data() + i * base::sizeOf(type), &value, base::sizeOf(type));
        }
        return out;
      };
      std::vector<Bytes> inputs, factors;
      std::vector<float> expected(count, 0.0f);
      for (int rank = 0; rank < kRanks; ++rank) {
        std::vector<float> values;
        for (size_t i = 0; i < count; ++i)
          values.push_back(static_cast<float>((i + static_cast<size_t>(rank)) % 3));
        for (size_t i = 0; i < count; ++i) expected[i] += values[i] * static_cast<float>(rank + 1);
        inputs.push_back(numbers(values));
        factors.push_back(numbers({static_cast<float>(rank + 1)}));
      }
      ranks.run([&](int rank, omnesComm_t comm) {
        omnesRedOp_t op;
        ASSERT_EQ(describe(omnesRedOpCreatePreMulSum(&op, factors[rank].data(), apiType(type),
                                                     omnesScalarDevice, comm)),
                  "0");
        Bytes out(count * base::sizeOf(type), 0x5a), inPlace = inputs[rank];
        EXPECT_EQ(describe(omnesAllReduce(inputs[rank].data(), out.data(), count, apiType(type), op,
                                          comm, nullptr)),
                  "0");
        EXPECT_EQ(difference(out, numbers(expected)), "") << base::nameOf(type) << " x " << count;
        EXPECT_EQ(describe(omnesAllReduce(inPlace.data(), inPlace.data(), count, apiType(type), op,
                                          comm, nullptr)),
                  "0");
        EXPECT_EQ(difference(inPlace, numbers(expected)), "")
            << base::nameOf(type) << " x " << count;
        EXPECT_EQ(describe(omnesRedOpDestroy(op, comm)), "0");
      });
    }
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm,
                         ::testing::ValuesIn(algorithmNames(Collective::kAllReduce)),
                         [](const auto& entry) { return entry.param; });

}  // namespace
}  // namespace omnes::tests
