// Every operator against the oracle, for the scalar reference and for every instruction set: all
// 65,536 pairs of the 8-bit types, boundary and random pairs of the wider ones. Built twice: with
// OMNES_LONG_TEST for more random pairs (suite long-kernels).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "kernel_test_util.h"
#include "oracle.h"

namespace omnes::kernels::test {
namespace {

#ifdef OMNES_LONG_TEST
constexpr size_t kOraclePairs = 10'000'000;
constexpr size_t kSimdPairs = 100'000'000;
#elif defined(OMNES_LIGHT_TEST)
constexpr size_t kOraclePairs = 20'000;
constexpr size_t kSimdPairs = 200'000;
#else
constexpr size_t kOraclePairs = 200'000;
constexpr size_t kSimdPairs = 10'000'000;
#endif
constexpr size_t kBatch = 1 << 16;
constexpr uint64_t kSeed = 77;

// Codes at which something changes: zeros, ones, powers of two and their neighbours, all ones.
std::vector<uint64_t> boundaryCodes(DataType type) {
  const int bits = 8 * static_cast<int>(base::sizeOf(type));
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  std::vector<uint64_t> codes;
  for (int i = 0; i < bits; ++i) {
    for (int delta = -1; delta <= 1; ++delta) {
      const uint64_t code = ((uint64_t{1} << i) + static_cast<uint64_t>(delta)) & mask;
      codes.push_back(code);
      codes.push_back(~code & mask);
    }
  }
  if (base::isFloat(type)) {
    static constexpr double kValues[] = {1,      -1,      0.5,   3,     448,       57344,
                                         65504,  65519,   65520, 1e-45, 1.175e-38, 1e-310,
                                         3.4e38, 1.7e308, -448,  1e-5};
    for (double value : kValues) {
      const double rounded = type == DataType::kFloat64 ? value : double{static_cast<float>(value)};
      codes.push_back(encodeFloat(type, rounded));
    }
  }
  return codes;
}

class PairSource {
 public:
  explicit PairSource(DataType type) : type_(type), boundary_(boundaryCodes(type)), random_(kSeed) {
    const size_t n = boundary_.size();
    exhaustive_ = base::sizeOf(type) == 1 ? 65536 : 0;
    fixed_ = exhaustive_ != 0 ? exhaustive_ : n * n;
  }
  size_t fixed() const { return fixed_; }
  bool exhaustive() const { return exhaustive_ != 0; }
  // Pair number i: the fixed ones first, then random bits, half of them near each other in size.
  void get(size_t i, uint64_t* a, uint64_t* b) {
    if (exhaustive_ != 0) {
      *a = i % 256;
      *b = i / 256 % 256;
    } else if (i < fixed_) {
      *a = boundary_[i % boundary_.size()];
      *b = boundary_[i / boundary_.size()];
    } else {
      *a = random_.next();
      *b = random_.next();
      if (i % 2 == 0) *b = *a ^ (*b & ((uint64_t{1} << (4 * base::sizeOf(type_))) - 1));
      if (i % 4 == 0) *b ^= uint64_t{1} << (8 * base::sizeOf(type_) - 1);
    }
  }

 private:
  DataType type_;
  std::vector<uint64_t> boundary_;
  Random random_;
  size_t exhaustive_;
  size_t fixed_;
};

uint64_t codeAt(const std::vector<uint8_t>& buffer, size_t index, size_t width) {
  uint64_t code = 0;
  std::memcpy(&code, &buffer[index * width], width);
  return code;
}

struct Batch {
  std::vector<uint8_t> a, b;
  size_t count = 0;
};

void fillBatch(PairSource* source, size_t first, size_t count, size_t width, Batch* batch) {
  batch->a.resize(count * width);
  batch->b.resize(count * width);
  batch->count = count;
  for (size_t i = 0; i < count; ++i) {
    uint64_t a;
    uint64_t b;
    source->get(first + i, &a, &b);
    std::memcpy(&batch->a[i * width], &a, width);
    std::memcpy(&batch->b[i * width], &b, width);
  }
}

std::vector<uint8_t> runBatch(ReduceFunction function, const Reduction& reduction,
                              const Batch& batch) {
  const Source sources[] = {{batch.a.data(), Mark::kInput}, {batch.b.data(), Mark::kInput}};
  std::vector<uint8_t> result(batch.a.size(), 0xee);
  const Sink sink{result.data(), Mark::kInput, false};
  function(reduction, sources, 2, &sink, 1, batch.count);
  return result;
}

Reduction reductionOf(const Pair& pair, Random* random) {
  Reduction reduction;
  reduction.type = pair.type;
  reduction.op = pair.op;
  reduction.nranks = 1 + static_cast<uint32_t>(random->below(7));
  reduction.scalarBits = random->next();
  if (base::isFloat(pair.type) && random->below(4) != 0) {
    reduction.scalarBits = encodeFloat(pair.type, 0.75);
  }
  return reduction;
}

class PairsTest : public ::testing::TestWithParam<Pair> {};

TEST_P(PairsTest, ScalarEqualsTheOracle) {
  const Pair pair = GetParam();
  const size_t width = base::sizeOf(pair.type);
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Random random(kSeed);
  PairSource source(pair.type);
  const size_t total = source.exhaustive() ? 4 * 65536 : source.fixed() + kOraclePairs;
  Batch batch;
  for (size_t first = 0; first < total; first += kBatch) {
    fillBatch(&source, first, std::min(kBatch, total - first), width, &batch);
    const Reduction reduction = reductionOf(pair, &random);
    const auto result = runBatch(scalarReduce(pair.type, pair.op), reduction, batch);
    for (size_t i = 0; i < batch.count; ++i) {
      const uint64_t a = codeAt(batch.a, i, width);
      const uint64_t b = codeAt(batch.b, i, width);
      ASSERT_EQ(codeAt(result, i, width), oracleReduce(reduction, {a, b}))
          << std::hex << "a 0x" << a << " b 0x" << b << " scalar 0x" << reduction.scalarBits
          << " nranks " << reduction.nranks;
    }
  }
}

TEST_P(PairsTest, SimdEqualsScalar) {
  const Pair pair = GetParam();
  const size_t width = base::sizeOf(pair.type);
  const size_t perTarget = width == 2 ? kSimdPairs : kSimdPairs / 40;
  forEachTarget([&](const char* name) {
    SCOPED_TRACE(name);
    const ReduceFunction simd = selectReduce(pair.type, pair.op);
    Random random(kSeed);
    PairSource source(pair.type);
    const size_t total = source.exhaustive() ? 4 * 65536 : source.fixed() + perTarget;
    Batch batch;
    for (size_t first = 0; first < total; first += kBatch) {
      fillBatch(&source, first, std::min(kBatch, total - first), width, &batch);
      const Reduction reduction = reductionOf(pair, &random);
      ASSERT_TRUE(runBatch(scalarReduce(pair.type, pair.op), reduction, batch) ==
                  runBatch(simd, reduction, batch));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Pairs, PairsTest, ::testing::ValuesIn(allPairs()), ParamName());

TEST(PairsTest, UndefinedPairsHaveNoFunction) {
  EXPECT_EQ(selectReduce(DataType::kFloat32, ReduceOp::kBand), nullptr);
  EXPECT_EQ(scalarReduce(DataType::kFloat32, ReduceOp::kBand), nullptr);
  EXPECT_EQ(selectReduce(static_cast<DataType>(50), ReduceOp::kSum), nullptr);
  EXPECT_EQ(scalarReduce(DataType::kInt8, static_cast<ReduceOp>(99)), nullptr);
}

}  // namespace
}  // namespace omnes::kernels::test
