#include "matrix/values.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "kernels/oracle.h"

namespace omnes::tests::matrix {
namespace {

using base::DataType;
using base::ReduceOp;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t hashOf(int32_t rank, int32_t block, uint64_t index) {
  return mix(mix(mix(static_cast<uint64_t>(rank) + 1) + static_cast<uint64_t>(block) + 1) + index +
             0x9e3779b97f4a7c15u);
}

uint64_t maskOf(DataType type) {
  const size_t bits = 8 * base::sizeOf(type);
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

// encodeFloat() searches; the values here are few.
uint64_t encode(DataType type, double value) {
  static std::mutex mutex;
  static std::map<std::pair<DataType, double>, uint64_t> known;
  const std::lock_guard lock(mutex);
  const auto [entry, isNew] = known.try_emplace({type, value}, 0);
  if (isNew) entry->second = kernels::test::encodeFloat(type, value);
  return entry->second;
}

// Of a float type.
double numberOf(ReduceOp op, int32_t rank, uint64_t hash) {
  if (op == ReduceOp::kProd) {
    // The factors of neighbours cancel, so that no partial product leaves float32.
    const double magnitude = (hash & 1) == 0 ? 1.0 : rank % 2 == 0 ? 2.0 : 0.5;
    return (hash & 2) == 0 ? magnitude : -magnitude;
  }
  return static_cast<double>(static_cast<int64_t>(hash % 17) - 8);
}

double floatFactor(int32_t rank) {
  constexpr double kFactors[] = {1, 2, 0.5, -1};
  return kFactors[rank % 4];
}
uint64_t integerFactor(int32_t rank) { return static_cast<uint64_t>(rank % 5) + 1; }

ReduceOp operatorOf(const Case& c) {
  return plan::isReduction(c.group.collective) ? c.op : ReduceOp::kSum;
}

uint64_t codeOf(const Case& c, int32_t rank, int32_t block, uint64_t index) {
  const uint64_t hash = hashOf(rank, block, index);
  if (base::isFloat(c.type)) return encode(c.type, numberOf(operatorOf(c), rank, hash));
  return hash & maskOf(c.type);
}

// As a number that float (double for float64) holds.
double averaged(DataType type, double sum, int32_t nranks) {
  if (type == DataType::kFloat64) return sum / nranks;
  return static_cast<float>(sum) / static_cast<float>(nranks);
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMax: return std::max(a, b);
    case ReduceOp::kMin: return std::min(a, b);
    default: return a + b;
  }
}

uint64_t reducedFloat(const Case& c, int32_t block, uint64_t index) {
  double value = 0;
  for (int32_t rank = 0; rank < c.group.nranks; ++rank) {
    double next = numberOf(c.op, rank, hashOf(rank, block, index));
    if (c.op == ReduceOp::kPreMulSum) next *= floatFactor(rank);
    value = rank == 0 ? next : combine(c.op, value, next);
  }
  if (c.op == ReduceOp::kAvg) value = averaged(c.type, value, c.group.nranks);
  // A sum of zeros of either sign is +0.
  return encode(c.type, value == 0 ? 0.0 : value);
}

int64_t signedOf(DataType type, uint64_t bits) {
  const int unused = 64 - 8 * static_cast<int>(base::sizeOf(type));
  return static_cast<int64_t>(bits << unused) >> unused;
}

bool isSigned(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kInt32 ||
         type == DataType::kInt64;
}

uint64_t combineIntegers(const Case& c, uint64_t a, uint64_t b) {
  const bool less = isSigned(c.type) ? signedOf(c.type, a) < signedOf(c.type, b) : a < b;
  switch (c.op) {
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMax: return less ? b : a;
    case ReduceOp::kMin: return less ? a : b;
    case ReduceOp::kBand: return a & b;
    case ReduceOp::kBor: return a | b;
    case ReduceOp::kBxor: return a ^ b;
    default: return a + b;
  }
}

// Integers up to 32 bits are summed in 64; 64-bit ones wrap. The quotient is cut towards zero.
uint64_t averagedInteger(const Case& c, int32_t block, uint64_t index) {
  const auto nranks = static_cast<uint64_t>(c.group.nranks);
  uint64_t sum = 0;
  for (int32_t rank = 0; rank < c.group.nranks; ++rank) {
    const uint64_t bits = codeOf(c, rank, block, index);
    sum += isSigned(c.type) ? static_cast<uint64_t>(signedOf(c.type, bits)) : bits;
  }
  if (!isSigned(c.type)) return sum / nranks;
  return static_cast<uint64_t>(static_cast<int64_t>(sum) / static_cast<int64_t>(nranks));
}

uint64_t reducedInteger(const Case& c, int32_t block, uint64_t index) {
  if (c.op == ReduceOp::kAvg) return averagedInteger(c, block, index) & maskOf(c.type);
  uint64_t value = 0;
  for (int32_t rank = 0; rank < c.group.nranks; ++rank) {
    uint64_t next = codeOf(c, rank, block, index);
    if (c.op == ReduceOp::kPreMulSum) next *= integerFactor(rank);
    value = rank == 0 ? next : combineIntegers(c, value, next) & maskOf(c.type);
  }
  return value & maskOf(c.type);
}

template <typename Code>
Bytes periodOf(const Case& c, const Code& code) {
  const size_t width = base::sizeOf(c.type);
  Bytes out(kPeriod * width);
  for (uint64_t i = 0; i < kPeriod; ++i) {
    const uint64_t bits = code(i);
    std::memcpy(out.data() + i * width, &bits, width);
  }
  return out;
}

}  // namespace

uint64_t factorBits(const Case& c, int32_t rank) {
  return base::isFloat(c.type) ? encode(c.type, floatFactor(rank)) : integerFactor(rank);
}

Bytes contribution(const Case& c, int32_t rank, int32_t block) {
  return periodOf(c, [&](uint64_t i) { return codeOf(c, rank, block, i); });
}

Bytes reduction(const Case& c, int32_t block) {
  return periodOf(c, [&](uint64_t i) {
    return base::isFloat(c.type) ? reducedFloat(c, block, i) : reducedInteger(c, block, i);
  });
}

void repeat(const Bytes& period, uint64_t elements, uint64_t width, uint8_t* out) {
  const uint64_t bytes = elements * width;
  for (uint64_t at = 0; at < bytes; at += period.size())
    std::memcpy(out + at, period.data(), std::min<uint64_t>(period.size(), bytes - at));
}

}  // namespace omnes::tests::matrix
