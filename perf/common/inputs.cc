#include "common/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace omnes::perf {
namespace {

// splitmix64's finaliser: spreads (rank, element, purpose) over 64 bits.
uint64_t scramble(uint64_t rank, uint64_t i, uint64_t purpose) {
  uint64_t x = (rank + 1) * 0x9e3779b97f4a7c15u + (i + 1) * 0xd1b54a32d192ed03u + purpose;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

enum Purpose : uint64_t { kValue = 1, kSpecial = 2, kSpread = 3, kMean = 4 };

int64_t between(int64_t lowest, int64_t highest, uint64_t random) {
  return lowest + static_cast<int64_t>(random % static_cast<uint64_t>(highest - lowest + 1));
}

// Exponents vary with the element, so that the pattern is not only small integers.
long double elementScale(uint64_t i) { return std::ldexp(1.0L, static_cast<int>(i % 4) - 1); }

// Sum: whole multiples of the element's scale. Integers up to 2^precision are exact, so the
// magnitudes of all ranks together may reach that: then any partial sum is exact. With more ranks
// than that, only every k-th contributes, shifting with the element.
long double sumInput(const TypeInfo& type, int nranks, int rank, uint64_t i) {
  const int64_t budget = int64_t{1} << type.precision;
  const uint64_t random = scramble(static_cast<uint64_t>(rank), i, kValue);
  if (nranks > budget) {
    const uint64_t every = (static_cast<uint64_t>(nranks) + budget - 1) / budget;
    if ((static_cast<uint64_t>(rank) + i) % every != 0) return 0;
    return (random & 1 ? 1 : -1) * elementScale(i);
  }
  const int64_t limit = budget / nranks;
  const int64_t units = between(-limit, limit, random);
  return static_cast<long double>(units == 0 ? 1 : units) * elementScale(i);
}

// Product: signs everywhere, at most six factors of 2 or 1/2, and one of 1.5: every partial product
// is within [2^-6, 1.5 * 2^6] with two significant bits.
long double prodInput(int nranks, int rank, uint64_t i) {
  const auto n = static_cast<uint64_t>(nranks), r = static_cast<uint64_t>(rank);
  const uint64_t random = scramble(r, i, kSpecial);
  long double value = random & 1 ? 1 : -1;
  const uint64_t every = (n + 5) / 6;
  if ((r + i) % every == 0) value *= random & 2 ? 2.0L : 0.5L;
  if (i % n == r) value *= 1.5L;
  return value;
}

// Average: mean plus and minus a spread in pairs of ranks (an odd last rank has the mean itself),
// so that the mean is a number of the type. Partial sums are exact in float32, which is what
// narrower types are summed in.
long double avgInput(const TypeInfo& type, int nranks, int rank, uint64_t i) {
  const int64_t largest = int64_t{1} << std::min(type.precision - 1, 12);
  const int64_t mean = between(1, largest, scramble(0, i, kMean));
  const int64_t spread = between(0, largest, scramble(static_cast<uint64_t>(rank / 2), i, kSpread));
  const bool paired = (rank ^ 1) < nranks;
  const int64_t units = !paired ? mean : rank % 2 == 0 ? mean + spread : mean - spread;
  return static_cast<long double>(units) * elementScale(i);
}

uint64_t randomFinite(const TypeInfo& type, uint64_t random) {
  uint64_t bits = random & type.mask();
  // Clearing the top exponent bit makes any pattern finite.
  if (!isFinite(type, bits)) bits &= ~(uint64_t{1} << (8 * type.bytes - 2));
  return bits;
}

uint64_t mustEncode(const TypeInfo& type, Op op, long double value) {
  const std::optional<uint64_t> bits = encodeExact(type, value);
  if (!bits) {  // a bug in this file; its tests cover every type and operator
    std::fprintf(stderr, "omnes perf: %Lg is no number of %s (operator %s)\n", value, type.name,
                 opName(op));
    std::abort();
  }
  return *bits;
}

int64_t signExtend(const TypeInfo& type, uint64_t bits) {
  const unsigned shift = 64 - 8 * type.bytes;
  return static_cast<int64_t>(bits << shift) >> shift;
}

bool lessInteger(const TypeInfo& type, uint64_t a, uint64_t b) {
  return type.kind == Kind::kSigned ? signExtend(type, a) < signExtend(type, b) : a < b;
}

uint64_t averageInteger(const TypeInfo& type, int nranks, uint64_t i) {
  uint64_t sum = 0;  // narrow types are sign- or zero-extended, so this is exact for them and wraps
                     // for 64 bits
  for (int rank = 0; rank < nranks; ++rank) {
    const uint64_t bits = inputBits(type, Op::kAvg, nranks, rank, i);
    sum += type.kind == Kind::kSigned ? static_cast<uint64_t>(signExtend(type, bits)) : bits;
  }
  if (type.kind == Kind::kUnsigned) return sum / static_cast<uint64_t>(nranks);
  return static_cast<uint64_t>(static_cast<int64_t>(sum) / nranks) & type.mask();
}

uint64_t expectedInteger(const TypeInfo& type, Op op, int nranks, uint64_t i) {
  if (op == Op::kAvg) return averageInteger(type, nranks, i);
  uint64_t result = 0;
  for (int rank = 0; rank < nranks; ++rank) {
    uint64_t bits = inputBits(type, op, nranks, rank, i);
    if (op == Op::kMulSum) bits *= scalarBits(type, rank);
    if (rank == 0) {
      result = bits;
      continue;
    }
    switch (op) {
      case Op::kProd: result *= bits; break;
      case Op::kMin: result = lessInteger(type, bits, result) ? bits : result; break;
      case Op::kMax: result = lessInteger(type, result, bits) ? bits : result; break;
      case Op::kBand: result &= bits; break;
      case Op::kBor: result |= bits; break;
      case Op::kBxor: result ^= bits; break;
      default: result += bits; break;
    }
  }
  return result & type.mask();
}

// -0 is below +0, as the library promises.
bool lessFloat(long double a, long double b) {
  if (a == 0 && b == 0) return std::signbit(a) && !std::signbit(b);
  return a < b;
}

uint64_t expectedFloat(const TypeInfo& type, Op op, int nranks, uint64_t i) {
  long double result = 0;
  for (int rank = 0; rank < nranks; ++rank) {
    long double value = decodeFloat(type, inputBits(type, op, nranks, rank, i));
    if (op == Op::kMulSum) value *= decodeFloat(type, scalarBits(type, rank));
    if (rank == 0) {
      result = value;
      continue;
    }
    switch (op) {
      case Op::kProd: result *= value; break;
      case Op::kMin: result = lessFloat(value, result) ? value : result; break;
      case Op::kMax: result = lessFloat(result, value) ? value : result; break;
      default: result += value; break;
    }
  }
  if (op == Op::kAvg) result /= nranks;
  return mustEncode(type, op, result);
}

}  // namespace

uint64_t inputBits(const TypeInfo& type, Op op, int nranks, int rank, uint64_t i) {
  i %= kPatternPeriod;
  const uint64_t random = scramble(static_cast<uint64_t>(rank), i, kValue);
  if (!type.isFloat()) return random & type.mask();
  switch (op) {
    case Op::kMin:
    case Op::kMax:
    case Op::kNone: return randomFinite(type, random);
    case Op::kProd: return mustEncode(type, op, prodInput(nranks, rank, i));
    case Op::kAvg: return mustEncode(type, op, avgInput(type, nranks, rank, i));
    case Op::kMulSum:
      return mustEncode(
          type, op, sumInput(type, nranks, rank, i) / decodeFloat(type, scalarBits(type, rank)));
    default: return mustEncode(type, op, sumInput(type, nranks, rank, i));
  }
}

uint64_t expectedBits(const TypeInfo& type, Op op, int nranks, uint64_t i) {
  return type.isFloat() ? expectedFloat(type, op, nranks, i) : expectedInteger(type, op, nranks, i);
}

uint64_t scalarBits(const TypeInfo& type, int rank) {
  if (!type.isFloat()) return static_cast<uint64_t>(rank % 5) + 1;
  return mustEncode(type, Op::kMulSum, std::ldexp(1.0L, rank % 3 - 1));
}

uint64_t toleranceUlps(const TypeInfo& type, Op op) {
  return op == Op::kAvg && type.isFloat() && type.bytes >= 4 ? 2 : 0;
}

Pattern::Pattern(const TypeInfo& type, const std::vector<uint64_t>& bits) : type_(type) {
  bytes_.resize(2 * kPatternPeriod * type.bytes);
  for (uint64_t i = 0; i < 2 * kPatternPeriod; ++i) {
    // Little-endian hosts only, as the library.
    std::memcpy(bytes_.data() + i * type.bytes, &bits[i % kPatternPeriod], type.bytes);
  }
  inverted_.resize(bytes_.size());
  std::transform(bytes_.begin(), bytes_.end(), inverted_.begin(),
                 [](unsigned char byte) { return static_cast<unsigned char>(~byte); });
}

// Calls visit(offset in data, pointer into the table, elements) for each run of at most one period.
template <typename Visit>
static void forEachRun(const std::vector<unsigned char>& table, unsigned elementBytes,
                       uint64_t first, uint64_t count, Visit&& visit) {
  const unsigned char* start = table.data() + first % kPatternPeriod * elementBytes;
  for (uint64_t done = 0; done < count; done += kPatternPeriod) {
    visit(done * elementBytes, start, std::min(kPatternPeriod, count - done));
  }
}

void Pattern::fill(void* destination, uint64_t first, uint64_t count) const {
  auto* out = static_cast<unsigned char*>(destination);
  forEachRun(bytes_, type_.bytes, first, count,
             [&](uint64_t offset, const unsigned char* from, uint64_t elements) {
               std::memcpy(out + offset, from, elements * type_.bytes);
             });
}

void Pattern::fillInverted(void* destination, uint64_t first, uint64_t count) const {
  auto* out = static_cast<unsigned char*>(destination);
  forEachRun(inverted_, type_.bytes, first, count,
             [&](uint64_t offset, const unsigned char* from, uint64_t elements) {
               std::memcpy(out + offset, from, elements * type_.bytes);
             });
}

uint64_t Pattern::countWrong(const void* data, uint64_t first, uint64_t count,
                             uint64_t tolerance) const {
  const auto* in = static_cast<const unsigned char*>(data);
  uint64_t wrong = 0;
  const auto judge = [&](uint64_t offset, const unsigned char* wanted, uint64_t elements) {
    if (std::memcmp(in + offset, wanted, elements * type_.bytes) == 0) return;
    for (uint64_t i = 0; i < elements; ++i) {
      uint64_t got = 0, want = 0;
      std::memcpy(&got, in + offset + i * type_.bytes, type_.bytes);
      std::memcpy(&want, wanted + i * type_.bytes, type_.bytes);
      if (got == want) continue;
      const bool near =
          tolerance > 0 && isFinite(type_, got) && ulpDistance(type_, got, want) <= tolerance;
      wrong += near ? 0 : 1;
    }
  };
  forEachRun(bytes_, type_.bytes, first, count, judge);
  return wrong;
}

Pattern inputPattern(const TypeInfo& type, Op op, int nranks, int rank) {
  std::vector<uint64_t> bits(kPatternPeriod);
  for (uint64_t i = 0; i < kPatternPeriod; ++i) bits[i] = inputBits(type, op, nranks, rank, i);
  return Pattern(type, bits);
}

Pattern expectedPattern(const TypeInfo& type, Op op, int nranks) {
  std::vector<uint64_t> bits(kPatternPeriod);
  for (uint64_t i = 0; i < kPatternPeriod; ++i) bits[i] = expectedBits(type, op, nranks, i);
  return Pattern(type, bits);
}

}  // namespace omnes::perf
