// Faults that users reported against other libraries, one test each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernel_test_util.h"
#include "oracle.h"

namespace omnes::kernels::test {
namespace {

template <typename T>
std::vector<T> encodeAll(DataType type, const std::vector<float>& values) {
  std::vector<T> codes(values.size());
  fromFloat32(type, values.data(), codes.data(), values.size());
  return codes;
}

Reduction make(DataType type, ReduceOp op, uint32_t nranks = 1) {
  Reduction reduction;
  reduction.type = type;
  reduction.op = op;
  reduction.nranks = nranks;
  return reduction;
}

// The average over one rank once left the last elements unwritten.
TEST(KernelCases, AverageOfOneRankIsTheInput) {
  for (DataType type : base::kAllDataTypes) {
    const size_t width = base::sizeOf(type);
    const ReduceFunction function = selectReduce(type, ReduceOp::kAvg);
    for (size_t count = 1; count <= 4097; count += count < 300 ? 1 : 97) {
      std::vector<uint8_t> input(count * width);
      Random(count).fill(input.data(), input.size());
      if (base::isFloat(
              type)) {  // NaNs are made canonical, so leave them out: clear an exponent bit
        for (size_t i = 0; i < count; ++i) input[i * width + width - 1] &= 0xbf;
      }
      std::vector<uint8_t> output(count * width, 0xa5);
      const Source source{input.data(), Mark::kInput};
      const Sink sink{output.data(), Mark::kInput, count % 2 == 0};
      function(make(type, ReduceOp::kAvg), &source, 1, &sink, 1, count);
      ASSERT_TRUE(input == output) << base::nameOf(type) << " count " << count;
    }
  }
}

// A library once read past the user's buffer by rounding its length up.
TEST(KernelCases, NothingIsTouchedPastTheEndOfAPage) {
  for (const Pair& pair : allPairs()) {
    const ReduceFunction function = selectReduce(pair.type, pair.op);
    const size_t widest = std::max(wireSize(pair), base::sizeOf(pair.type));
    EndOfPage first(2200 * widest);
    EndOfPage second(2200 * widest);
    EndOfPage third(2200 * widest);
    for (size_t count = 0; count <= 2100; count += count < 131 ? 1 : 173) {
      for (Mark mark : {Mark::kInput, Mark::kPartial}) {
        const size_t bytes = count * widthOf(pair, mark);
        const Source ending[] = {{first.ending(bytes), mark}, {second.ending(bytes), mark}};
        const Source beginning[] = {{first.begin(), mark}, {second.begin(), mark}};
        const Sink end{third.ending(bytes), mark, count % 2 == 0};
        const Sink begin{third.begin(), mark, count % 2 == 0};
        function(make(pair.type, pair.op, 2), ending, 2, &end, 1, count);
        function(make(pair.type, pair.op, 2), beginning, 2, &begin, 1, count);
      }
    }
  }
}

// Unsigned values were once compared as signed.
template <typename T>
void expectUnsignedOrder(DataType type) {
  const T top = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  const T values[] = {0, static_cast<T>(top - 1), top, static_cast<T>(~T{0})};
  for (size_t count = 1; count <= 67; ++count) {
    for (size_t lane = 0; lane < count; ++lane) {
      for (T a : values) {
        for (T b : values) {
          std::vector<T> x(count, static_cast<T>(1));
          std::vector<T> y(count, static_cast<T>(2));
          x[lane] = a;
          y[lane] = b;
          const auto high = reduceInputs<T>(selectReduce(type, ReduceOp::kMax),
                                            make(type, ReduceOp::kMax), {x, y});
          const auto low = reduceInputs<T>(selectReduce(type, ReduceOp::kMin),
                                           make(type, ReduceOp::kMin), {x, y});
          ASSERT_EQ(high[lane], std::max(a, b));
          ASSERT_EQ(low[lane], std::min(a, b));
        }
      }
    }
  }
}
TEST(KernelCases, UnsignedTypesAreComparedUnsigned) {
  expectUnsignedOrder<uint8_t>(DataType::kUint8);
  expectUnsignedOrder<uint16_t>(DataType::kUint16);
  expectUnsignedOrder<uint32_t>(DataType::kUint32);
  expectUnsignedOrder<uint64_t>(DataType::kUint64);
}

// A vector path once saturated where the scalar one wrapped.
TEST(KernelCases, SmallIntegersWrap) {
  for (size_t count = 1; count <= 129; ++count) {
    const auto s = reduceInputs<int8_t>(
        selectReduce(DataType::kInt8, ReduceOp::kSum), make(DataType::kInt8, ReduceOp::kSum),
        {std::vector<int8_t>(count, 100), std::vector<int8_t>(count, 100)});
    const auto u = reduceInputs<uint8_t>(
        selectReduce(DataType::kUint8, ReduceOp::kSum), make(DataType::kUint8, ReduceOp::kSum),
        {std::vector<uint8_t>(count, 200), std::vector<uint8_t>(count, 100)});
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(s[i], -56);
      ASSERT_EQ(u[i], 44);
    }
  }
}

// NaN and signed zeros in every place, for every float type.
TEST(KernelCases, MinMaxDoNotDependOnTheOrder) {
  for (DataType type : base::kAllDataTypes) {
    if (!base::isFloat(type)) continue;
    const size_t width = base::sizeOf(type);
    for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      for (const auto& set :
           {std::vector<double>{1, NAN, 3, 4}, std::vector<double>{0.0, -0.0, -0.0, 0.0}}) {
        std::vector<uint64_t> codes;
        for (double value : set) codes.push_back(encodeFloat(type, value));
        std::vector<int> order{0, 1, 2, 3};
        const uint64_t expected = std::isnan(set[1])
                                      ? encodeFloat(type, NAN)
                                      : encodeFloat(type, op == ReduceOp::kMin ? -0.0 : 0.0);
        do {
          constexpr size_t kCount = 70;
          std::vector<std::vector<uint8_t>> inputs(4, std::vector<uint8_t>(kCount * width));
          std::vector<Source> sources;
          for (size_t s = 0; s < 4; ++s) {
            for (size_t i = 0; i < kCount; ++i)
              std::memcpy(&inputs[s][i * width], &codes[order[s]], width);
            sources.push_back({inputs[s].data(), Mark::kInput});
          }
          std::vector<uint8_t> output(kCount * width);
          const Sink sink{output.data(), Mark::kInput, false};
          selectReduce(type, op)(make(type, op), sources.data(), 4, &sink, 1, kCount);
          for (size_t i = 0; i < kCount; ++i) {
            uint64_t code = 0;
            std::memcpy(&code, &output[i * width], width);
            ASSERT_EQ(code, expected) << base::nameOf(type) << " " << base::nameOf(op);
          }
        } while (std::next_permutation(order.begin(), order.end()));
      }
    }
  }
}

// 1.0 and fifteen times 2^-9 in bfloat16: adding in bfloat16 loses them all.
TEST(KernelCases, SixteenBfloat16ContributionsRoundOnce) {
  std::vector<std::vector<uint16_t>> inputs(
      16, encodeAll<uint16_t>(DataType::kBfloat16, std::vector<float>(40, 0x1p-9f)));
  inputs[3] = encodeAll<uint16_t>(DataType::kBfloat16, std::vector<float>(40, 1.0f));
  const auto sum = reduceInputs<uint16_t>(selectReduce(DataType::kBfloat16, ReduceOp::kSum),
                                          make(DataType::kBfloat16, ReduceOp::kSum), inputs);
  // The exact sum is 1 + 15/512; bfloat16 steps by 1/128 there: 1 + 4/128 is nearest.
  for (uint16_t code : sum) ASSERT_EQ(decodeFloat(DataType::kBfloat16, code), 1.03125);
}

// The mean of large float16 values once overflowed on the way.
TEST(KernelCases, Float16AverageDoesNotOverflow) {
  for (float value : {60000.0f, 65504.0f}) {
    for (uint32_t ranks : {3u, 10u}) {
      const auto input = encodeAll<uint16_t>(DataType::kFloat16, std::vector<float>(50, value));
      const auto mean = reduceInputs<uint16_t>(selectReduce(DataType::kFloat16, ReduceOp::kAvg),
                                               make(DataType::kFloat16, ReduceOp::kAvg, ranks),
                                               std::vector<std::vector<uint16_t>>(ranks, input));
      for (size_t i = 0; i < mean.size(); ++i) ASSERT_EQ(mean[i], input[i]);
    }
  }
}

// Finite 8-bit floats saturate; infinity stays where the format has one.
TEST(KernelCases, Float8SaturatesFiniteSums) {
  const auto sum = [](DataType type, uint8_t a, uint8_t b) {
    return reduceInputs<uint8_t>(selectReduce(type, ReduceOp::kSum), make(type, ReduceOp::kSum),
                                 {std::vector<uint8_t>(70, a), std::vector<uint8_t>(70, b)})[64];
  };
  EXPECT_EQ(sum(DataType::kFloat8e4m3, 0x7e, 0x59), 0x7e);  // 448 + 18
  EXPECT_EQ(sum(DataType::kFloat8e4m3, 0xfe, 0xfe), 0xfe);
  EXPECT_EQ(sum(DataType::kFloat8e5m2, 0x7b, 0x7b), 0x7b);
  EXPECT_EQ(sum(DataType::kFloat8e5m2, 0x7c, 0xfb), 0x7c);  // Inf - 57344
  EXPECT_EQ(sum(DataType::kFloat8e5m2, 0x7c, 0xfc), 0x7e);  // Inf - Inf
}

// Subnormals are neither flushed on the way in nor on the way out.
TEST(KernelCases, SubnormalsAreKept) {
  for (DataType type : base::kAllDataTypes) {
    if (!base::isFloat(type)) continue;
    const size_t width = base::sizeOf(type);
    constexpr size_t kCount = 70;
    std::vector<uint8_t> input(kCount * width);
    for (size_t i = 0; i < kCount; ++i) input[i * width] = 1;
    std::vector<uint8_t> output(kCount * width);
    const Source sources[] = {{input.data(), Mark::kInput}, {input.data(), Mark::kInput}};
    const Sink sink{output.data(), Mark::kInput, false};
    selectReduce(type, ReduceOp::kSum)(make(type, ReduceOp::kSum), sources, 2, &sink, 1, kCount);
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(output[i * width], 2) << base::nameOf(type);
  }
}

}  // namespace
}  // namespace omnes::kernels::test
