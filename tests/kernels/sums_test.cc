// Sums of many sources against the exact sum, within the bounds that docs/numerics.md states:
//   8- and 16-bit floats  |result - exact| <= u |exact| + s/2 + (n-1) 2^-24 (1 + u) sum|x|
//   float32, float64      |result - exact| <= (n-1) u sum|x| (1 + small)
// and the mean likewise. s: the smallest subnormal. Also: partials passed on in the same order give
// the bits of the fused call.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "kernel_test_util.h"
#include "oracle.h"

namespace omnes::kernels::test {
namespace {

__extension__ typedef __float128 Float128;

struct Bound {
  double unit;         // half the distance between 1 and the next value
  double accumulator;  // the same for the accumulator
  double smallest;
};

Bound boundOf(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {0x1p-11, 0x1p-24, 0x1p-24};
    case DataType::kBfloat16: return {0x1p-8, 0x1p-24, 0x1p-133};
    case DataType::kFloat8e4m3: return {0x1p-4, 0x1p-24, 0x1p-9};
    case DataType::kFloat8e5m2: return {0x1p-3, 0x1p-24, 0x1p-16};
    case DataType::kFloat32: return {0, 0x1p-24, 0};
    default: return {0, 0x1p-53, 0};
  }
}

class SumsTest : public ::testing::TestWithParam<DataType> {
 protected:
  static constexpr size_t kCount = 300;

  void makeInputs(size_t sourceCount, Random* random) {
    const DataType type = GetParam();
    const size_t width = base::sizeOf(type);
    inputs_.assign(sourceCount, std::vector<uint8_t>(kCount * width));
    values_.assign(sourceCount, std::vector<double>(kCount));
    for (size_t s = 0; s < sourceCount; ++s) {
      for (size_t i = 0; i < kCount; ++i) {
        // Mixed signs and sizes, small enough that no sum leaves the range of any type.
        const double unit = static_cast<double>(random->next() >> 11) * 0x1p-53 - 0.3;
        const double value = std::ldexp(unit, static_cast<int>(random->below(6)) - 2);
        const uint64_t code = encodeFloat(
            type, type == DataType::kFloat64 ? value : double{static_cast<float>(value)});
        std::memcpy(&inputs_[s][i * width], &code, width);
        values_[s][i] = decodeFloat(type, code);
      }
    }
  }

  double resultAt(const std::vector<uint8_t>& result, size_t i) const {
    uint64_t code = 0;
    std::memcpy(&code, &result[i * base::sizeOf(GetParam())], base::sizeOf(GetParam()));
    return decodeFloat(GetParam(), code);
  }

  std::vector<uint8_t> fused(ReduceOp op) {
    std::vector<Source> sources;
    for (const auto& input : inputs_) sources.push_back({input.data(), Mark::kInput});
    std::vector<uint8_t> result(kCount * base::sizeOf(GetParam()));
    const Sink sink{result.data(), Mark::kInput, false};
    selectReduce(GetParam(), op)(reductionOf(op), sources.data(), sources.size(), &sink, 1, kCount);
    return result;
  }

  // One source after the other through a partial, as a chain of ranks would do it.
  std::vector<uint8_t> chained(ReduceOp op) {
    const size_t wire = base::sizeOf(base::wireType(GetParam(), op));
    std::vector<uint8_t> partial(kCount * wire);
    std::vector<uint8_t> result(kCount * base::sizeOf(GetParam()));
    for (size_t s = 0; s < inputs_.size(); ++s) {
      const Source sources[] = {{partial.data(), Mark::kPartial},
                                {inputs_[s].data(), Mark::kInput}};
      const bool last = s + 1 == inputs_.size();
      const Sink sink{last ? result.data() : partial.data(), last ? Mark::kInput : Mark::kPartial,
                      false};
      const size_t skip = s == 0 ? 1 : 0;
      selectReduce(GetParam(), op)(reductionOf(op), sources + skip, 2 - skip, &sink, 1, kCount);
    }
    return result;
  }

  Reduction reductionOf(ReduceOp op) const {
    Reduction reduction;
    reduction.type = GetParam();
    reduction.op = op;
    reduction.nranks = static_cast<uint32_t>(inputs_.size());
    return reduction;
  }

  void expectWithinBound(const std::vector<uint8_t>& result, double divisor) {
    const Bound bound = boundOf(GetParam());
    for (size_t i = 0; i < kCount; ++i) {
      Float128 exact = 0;
      double magnitude = 0;
      for (const auto& values : values_) {
        exact += values[i];
        magnitude += std::fabs(values[i]);
      }
      const double n = static_cast<double>(values_.size());
      const double sum = std::fabs(static_cast<double>(exact));
      const double steps = n - 1 + (divisor != 1 ? 1 : 0);
      const double allowed =
          (bound.unit * sum + steps * bound.accumulator * magnitude * (1 + bound.unit) * 1.001) /
              divisor +
          bound.smallest / 2;
      const double error =
          std::fabs(static_cast<double>(Float128{resultAt(result, i)} - exact / divisor));
      ASSERT_LE(error, allowed) << base::nameOf(GetParam()) << " sources " << n << " element " << i;
    }
  }

  std::vector<std::vector<uint8_t>> inputs_;
  std::vector<std::vector<double>> values_;
};

TEST_P(SumsTest, StayWithinTheStatedBound) {
  constexpr uint64_t kSeed = 5;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  forEachTarget([&](const char* name) {
    SCOPED_TRACE(name);
    Random random(kSeed);
    for (size_t sources = 1; sources <= 17; ++sources) {
      makeInputs(sources, &random);
      expectWithinBound(fused(ReduceOp::kSum), 1);
      expectWithinBound(fused(ReduceOp::kAvg), static_cast<double>(sources));
    }
  });
}

TEST_P(SumsTest, AChainOfPartialsGivesTheSameBits) {
  Random random(6);
  for (size_t sources = 1; sources <= 17; ++sources) {
    makeInputs(sources, &random);
    for (ReduceOp op : base::kAllReduceOps) {
      if (!base::isDefined(GetParam(), op)) continue;
      EXPECT_TRUE(fused(op) == chained(op)) << base::nameOf(op);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, SumsTest,
                         ::testing::Values(DataType::kFloat16, DataType::kBfloat16,
                                           DataType::kFloat8e4m3, DataType::kFloat8e5m2,
                                           DataType::kFloat32, DataType::kFloat64));

}  // namespace
}  // namespace omnes::kernels::test
