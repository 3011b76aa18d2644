#include "common/inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace omnes::perf {
namespace {

const TypeInfo& typeNamed(const std::string& name) {
  for (const TypeInfo& type : allTypes()) {
    if (name == type.name) return type;
  }
  ADD_FAILURE() << name;
  return allTypes()[0];
}

constexpr omnesDataType_t kFloats[] = {omnesFloat16,  omnesFloat32,    omnesFloat64,
                                       omnesBfloat16, omnesFloat8e4m3, omnesFloat8e5m2};

TEST(Elements, KnownBits) {
  EXPECT_EQ(encodeExact(typeNamed("half"), 1.0L), 0x3c00u);
  EXPECT_EQ(encodeExact(typeNamed("half"), 65504.0L), 0x7bffu);
  EXPECT_EQ(encodeExact(typeNamed("bfloat16"), -2.0L), 0xc000u);
  EXPECT_EQ(encodeExact(typeNamed("f8e4m3"), 448.0L), 0x7eu);
  EXPECT_EQ(encodeExact(typeNamed("f8e4m3"), 480.0L), std::nullopt);
  EXPECT_EQ(encodeExact(typeNamed("f8e4m3"), 17.0L), std::nullopt);
  EXPECT_EQ(encodeExact(typeNamed("f8e4m3"), std::ldexp(1.0L, -9)), 0x01u);
  EXPECT_EQ(encodeExact(typeNamed("f8e4m3"), std::ldexp(1.0L, -10)), std::nullopt);
  EXPECT_EQ(encodeExact(typeNamed("f8e5m2"), 57344.0L), 0x7bu);
  EXPECT_EQ(encodeExact(typeNamed("f8e5m2"), -0.0L), 0x80u);
}

TEST(Elements, FloatAndDoubleAgreeWithTheProcessor) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t bits = random();
    float narrow;
    double wide;
    const auto low = static_cast<uint32_t>(bits);
    std::memcpy(&narrow, &low, 4);
    std::memcpy(&wide, &bits, 8);
    if (std::isfinite(narrow)) {
      EXPECT_EQ(encodeExact(typeNamed("float"), narrow), low);
      EXPECT_EQ(decodeFloat(typeNamed("float"), low), static_cast<long double>(narrow));
    }
    EXPECT_EQ(isFinite(typeNamed("float"), low), std::isfinite(narrow));
    if (std::isfinite(wide)) {
      EXPECT_EQ(encodeExact(typeNamed("double"), wide), bits);
      EXPECT_EQ(decodeFloat(typeNamed("double"), bits), static_cast<long double>(wide));
    }
  }
}

TEST(Elements, NarrowFloatsRoundTrip) {
  for (const TypeInfo& type : allTypes()) {
    if (!type.isFloat() || type.bytes > 2) continue;
    for (uint64_t bits = 0; bits <= type.mask(); ++bits) {
      if (!isFinite(type, bits)) continue;
      ASSERT_EQ(encodeExact(type, decodeFloat(type, bits)), bits) << type.name << " " << bits;
    }
  }
}

// Partial results that any grouping of the ranks can lead to must be numbers of `in`. All subsets
// for few ranks; for many, prefixes of random orders and the two extreme subsets, which bound the
// magnitude.
class Exactness : public testing::TestWithParam<omnesDataType_t> {
 protected:
  const TypeInfo& type() const {
    for (const TypeInfo& type : allTypes()) {
      if (type.type == GetParam()) return type;
    }
    return allTypes()[0];
  }
};

long double combine(Op op, long double a, long double b) { return op == Op::kProd ? a * b : a + b; }

void expectSubsetsExact(const TypeInfo& in, Op op, const std::vector<long double>& values,
                        std::mt19937_64* random) {
  const size_t n = values.size();
  const long double neutral = op == Op::kProd ? 1 : 0;
  if (n <= 6) {
    for (uint64_t subset = 1; subset < uint64_t{1} << n; ++subset) {
      long double partial = neutral;
      for (size_t r = 0; r < n; ++r) {
        if (subset >> r & 1) partial = combine(op, partial, values[r]);
      }
      ASSERT_TRUE(encodeExact(in, partial)) << partial << " n=" << n;
    }
    return;
  }
  std::vector<long double> order = values;
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (attempt == 0) std::sort(order.begin(), order.end());
    if (attempt == 1) std::reverse(order.begin(), order.end());
    if (attempt == 2) std::shuffle(order.begin(), order.end(), *random);
    long double partial = neutral;
    for (const long double value : order) {
      partial = combine(op, partial, value);
      ASSERT_TRUE(encodeExact(in, partial)) << partial << " n=" << n;
    }
  }
}

TEST_P(Exactness, EveryPartialResultIsANumberOfTheType) {
  std::mt19937_64 random(2);
  std::vector<int> sizes = {100, 257, 300};
  for (int n = 1; n <= 64; ++n) sizes.push_back(n);
  for (const Op op : {Op::kSum, Op::kProd, Op::kMulSum, Op::kAvg}) {
    // Averages are summed in float32 (or the type, if wider).
    const bool wide = op == Op::kAvg && type().bytes < 4;
    const TypeInfo in = wide ? typeNamed("float") : type();
    for (const int n : sizes) {
      const uint64_t step = n <= 6 ? 7 : 41;
      for (uint64_t i = 0; i < kPatternPeriod; i += step) {
        std::vector<long double> values;
        for (int rank = 0; rank < n; ++rank) {
          long double value = decodeFloat(type(), inputBits(type(), op, n, rank, i));
          if (op == Op::kMulSum) value *= decodeFloat(type(), scalarBits(type(), rank));
          values.push_back(value);
        }
        expectSubsetsExact(in, op, values, &random);
        if (HasFatalFailure()) {
          FAIL() << type().name << " " << opName(op) << " n=" << n << " i=" << i;
        }
        // Aborts if the result is no number of the type.
        expectedBits(type(), op, n, i);
      }
    }
  }
}

TEST_P(Exactness, MinAndMaxAreFinite) {
  for (int rank = 0; rank < 64; ++rank) {
    for (uint64_t i = 0; i < kPatternPeriod; ++i) {
      ASSERT_TRUE(isFinite(type(), inputBits(type(), Op::kMax, 64, rank, i)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, Exactness, testing::ValuesIn(kFloats));

// An implementation that forgets one rank must be seen: in each type and operator some element of
// the first few must depend on each rank.
TEST(Inputs, EveryRankMatters) {
  for (const TypeInfo& type : allTypes()) {
    for (const Op op : {Op::kSum, Op::kProd, Op::kMulSum}) {
      for (int n : {2, 3, 8, 64}) {
        for (int rank = 0; rank < n; ++rank) {
          bool matters = false;
          for (uint64_t i = 0; i < kPatternPeriod && !matters; ++i) {
            const uint64_t bits = inputBits(type, op, n, rank, i);
            const auto neutral = !type.isFloat() ? (op == Op::kProd ? 1u : 0u)
                                                 : *encodeExact(type, op == Op::kProd ? 1 : 0);
            matters = bits != neutral;
          }
          EXPECT_TRUE(matters) << type.name << " " << opName(op) << " n=" << n << " rank " << rank;
        }
      }
    }
  }
}

TEST(Inputs, IntegerAverageTruncatesTowardZero) {
  const TypeInfo type = typeNamed("int32");
  for (uint64_t i = 0; i < 100; ++i) {
    int64_t sum = 0;
    for (int rank = 0; rank < 3; ++rank) {
      sum += static_cast<int32_t>(inputBits(type, Op::kAvg, 3, rank, i));
    }
    EXPECT_EQ(static_cast<int32_t>(expectedBits(type, Op::kAvg, 3, i)), sum / 3);
  }
}

TEST(Pattern, FillsFromAnyElementAndCountsWrongOnes) {
  for (const TypeInfo& type : allTypes()) {
    const Pattern pattern = expectedPattern(type, Op::kSum, 3);
    const uint64_t first = 2000, count = 3 * kPatternPeriod + 5;
    std::vector<unsigned char> data(count * type.bytes);
    pattern.fill(data.data(), first, count);
    EXPECT_EQ(pattern.countWrong(data.data(), first, count, 0), 0u) << type.name;
    uint64_t bits = 0;
    std::memcpy(&bits, data.data() + 100 * type.bytes, type.bytes);
    EXPECT_EQ(bits, expectedBits(type, Op::kSum, 3, first + 100)) << type.name;
    data[100 * type.bytes] ^= 1;
    data[(count - 1) * type.bytes] ^= 1;
    EXPECT_EQ(pattern.countWrong(data.data(), first, count, 0), 2u) << type.name;
    pattern.fillInverted(data.data(), first, count);
    EXPECT_EQ(pattern.countWrong(data.data(), first, count, 2), count) << type.name;
  }
}

TEST(Pattern, AShiftedBlockIsSeen) {
  const TypeInfo type = typeNamed("float");
  const Pattern pattern = expectedPattern(type, Op::kSum, 2);
  std::vector<unsigned char> data(4096 * type.bytes);
  for (const uint64_t shift : {1u, 16u, 1024u, 4096u, 65536u}) {
    pattern.fill(data.data(), shift, 4096);
    EXPECT_GT(pattern.countWrong(data.data(), 0, 4096, 0), 4000u) << shift;
  }
}

TEST(Pattern, ToleranceIsForFloatAveragesOnly) {
  EXPECT_EQ(toleranceUlps(typeNamed("float"), Op::kAvg), 2u);
  EXPECT_EQ(toleranceUlps(typeNamed("double"), Op::kAvg), 2u);
  EXPECT_EQ(toleranceUlps(typeNamed("half"), Op::kAvg), 0u);
  EXPECT_EQ(toleranceUlps(typeNamed("float"), Op::kSum), 0u);
  const TypeInfo type = typeNamed("float");
  const Pattern pattern = expectedPattern(type, Op::kAvg, 2);
  uint32_t value = 0;
  pattern.fill(&value, 0, 1);
  value += 2;
  EXPECT_EQ(pattern.countWrong(&value, 0, 1, 2), 0u);
  value += 1;
  EXPECT_EQ(pattern.countWrong(&value, 0, 1, 2), 1u);
}

}  // namespace
}  // namespace omnes::perf
