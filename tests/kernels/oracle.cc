#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace omnes::kernels::test {
namespace {

using base::DataType;
using base::ReduceOp;

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;
__extension__ typedef __float128 Float128;

struct Layout {
  int exponentBits;
  int mantissaBits;
  uint64_t nan;
};

Layout layoutOf(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {5, 10, 0x7e00};
    case DataType::kBfloat16: return {8, 7, 0x7fc0};
    case DataType::kFloat8e4m3: return {4, 3, 0x7f};
    case DataType::kFloat8e5m2: return {5, 2, 0x7e};
    case DataType::kFloat32: return {8, 23, 0x7fc00000};
    default: return {11, 52, 0x7ff8000000000000};
  }
}

// All non-negative finite values of a small format in order, with their codes.
struct Table {
  std::vector<double> values;
  std::vector<uint64_t> codes;
};

const Table& tableOf(DataType type) {
  static std::map<DataType, Table> tables;
  Table& table = tables[type];
  if (table.values.empty()) {
    const uint64_t sign = uint64_t{1} << (8 * base::sizeOf(type) - 1);
    for (uint64_t code = 0; code < sign; ++code) {
      const double value = decodeFloat(type, code);
      if (!std::isfinite(value)) continue;
      table.values.push_back(value);
      table.codes.push_back(code);
    }
  }
  return table;
}

uint64_t encodeMagnitude(DataType type, double magnitude) {
  const Table& table = tableOf(type);
  const bool float8 = base::sizeOf(type) == 1;
  const size_t last = table.values.size() - 1;
  if (magnitude >= table.values[last]) {
    if (magnitude == table.values[last]) return table.codes[last];
    if (std::isinf(magnitude)) return table.codes[last] + (type == DataType::kFloat8e4m3 ? 0 : 1);
    if (float8) return table.codes[last];
    // IEEE: half a step above the largest value rounds away to infinity.
    const double step = table.values[last] - table.values[last - 1];
    return magnitude < table.values[last] + step / 2 ? table.codes[last] : table.codes[last] + 1;
  }
  const auto above = std::upper_bound(table.values.begin(), table.values.end(), magnitude);
  const size_t high = static_cast<size_t>(above - table.values.begin());
  const double down = magnitude - table.values[high - 1];
  const double up = table.values[high] - magnitude;
  if (down != up) return table.codes[down < up ? high - 1 : high];
  return table.codes[high - 1] % 2 == 0 ? table.codes[high - 1] : table.codes[high];
}

uint64_t reduceFloat(const Reduction& reduction, const std::vector<uint64_t>& codes) {
  const DataType type = reduction.type;
  const bool wide = type == DataType::kFloat64;
  // One IEEE operation of the accumulator: exact enough before the one rounding (113 >= 2*53+2,
  // 53 >= 2*24+2).
  const auto add = [&](double a, double b) {
    return wide ? static_cast<double>(Float128{a} + Float128{b})
                : double{static_cast<float>(a + b)};
  };
  const auto multiply = [&](double a, double b) {
    return wide ? static_cast<double>(Float128{a} * Float128{b})
                : double{static_cast<float>(a * b)};
  };
  double factor = 1;
  if (reduction.op == ReduceOp::kPreMulSum) {
    const int bits = 8 * static_cast<int>(base::sizeOf(type));
    const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    factor = decodeFloat(type, reduction.scalarBits & mask);
  }
  double acc = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    double value = decodeFloat(type, codes[i]);
    if (reduction.op == ReduceOp::kPreMulSum) value = multiply(value, factor);
    if (i == 0)
      acc = value;
    else
      acc = reduction.op == ReduceOp::kProd ? multiply(acc, value) : add(acc, value);
  }
  if (reduction.op == ReduceOp::kAvg) {
    acc = wide
              ? static_cast<double>(Float128{acc} / Float128{static_cast<double>(reduction.nranks)})
              : double{static_cast<float>(acc / double{static_cast<float>(reduction.nranks)})};
  }
  return encodeFloat(type, acc);
}

uint64_t orderFloat(const Reduction& reduction, const std::vector<uint64_t>& codes) {
  uint64_t best = codes[0];
  for (uint64_t code : codes) {
    if (isNanCode(reduction.type, code)) return layoutOf(reduction.type).nan;
    const double a = decodeFloat(reduction.type, best);
    const double b = decodeFloat(reduction.type, code);
    const bool less = b < a || (b == a && std::signbit(b) && !std::signbit(a));
    const bool greater = b > a || (b == a && !std::signbit(b) && std::signbit(a));
    if (reduction.op == ReduceOp::kMax ? greater : less) best = code;
  }
  return best;
}

bool isSigned(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kInt32 ||
         type == DataType::kInt64;
}

uint64_t reduceInteger(const Reduction& reduction, const std::vector<uint64_t>& codes) {
  const int bits = 8 * static_cast<int>(base::sizeOf(reduction.type));
  const Uint128 modulus = Uint128{1} << bits;
  const auto value = [&](uint64_t code) {
    Int128 v = static_cast<Int128>(Uint128{code} % modulus);
    if (isSigned(reduction.type) && v >= static_cast<Int128>(modulus / 2))
      v -= static_cast<Int128>(modulus);
    return v;
  };
  const auto wrap = [&](Int128 v) {
    return value(static_cast<uint64_t>(static_cast<Uint128>(v) % modulus));
  };
  // Modulo 2^128, which is enough: everything is wrapped to 64 bits or fewer.
  const auto times = [](Int128 a, Int128 b) {
    return static_cast<Int128>(static_cast<Uint128>(a) * static_cast<Uint128>(b));
  };
  Int128 acc = value(codes[0]);
  const Int128 factor = value(reduction.scalarBits);
  if (reduction.op == ReduceOp::kPreMulSum) acc = wrap(times(acc, factor));
  for (size_t i = 1; i < codes.size(); ++i) {
    const Int128 v = value(codes[i]);
    switch (reduction.op) {
      case ReduceOp::kSum: acc = wrap(acc + v); break;
      case ReduceOp::kPreMulSum: acc = wrap(acc + wrap(times(v, factor))); break;
      case ReduceOp::kAvg: acc = bits == 64 ? wrap(acc + v) : acc + v; break;
      case ReduceOp::kProd: acc = wrap(times(acc, v)); break;
      case ReduceOp::kMax: acc = std::max(acc, v); break;
      case ReduceOp::kMin: acc = std::min(acc, v); break;
      case ReduceOp::kBand: acc = acc & v; break;
      case ReduceOp::kBor: acc = acc | v; break;
      case ReduceOp::kBxor: acc = acc ^ v; break;
    }
  }
  if (reduction.op == ReduceOp::kAvg) acc /= reduction.nranks;
  return static_cast<uint64_t>(static_cast<Uint128>(acc) % modulus);
}

}  // namespace

bool isNanCode(DataType type, uint64_t code) { return std::isnan(decodeFloat(type, code)); }

double decodeFloat(DataType type, uint64_t code) {
  const Layout layout = layoutOf(type);
  const int bits = 1 + layout.exponentBits + layout.mantissaBits;
  const int bias = (1 << (layout.exponentBits - 1)) - 1;
  const int exponent =
      static_cast<int>(code >> layout.mantissaBits) & ((1 << layout.exponentBits) - 1);
  const uint64_t mantissa = code & ((uint64_t{1} << layout.mantissaBits) - 1);
  const double sign = (code >> (bits - 1)) & 1 ? -1.0 : 1.0;
  if (exponent == (1 << layout.exponentBits) - 1) {
    if (type == DataType::kFloat8e4m3) {
      if (mantissa == 7) return std::nan("");
    } else {
      return mantissa == 0 ? sign * static_cast<double>(INFINITY) : std::nan("");
    }
  }
  if (exponent == 0)
    return sign * std::ldexp(static_cast<double>(mantissa), 1 - bias - layout.mantissaBits);
  const double significand = static_cast<double>(mantissa + (uint64_t{1} << layout.mantissaBits));
  return sign * std::ldexp(significand, exponent - bias - layout.mantissaBits);
}

uint64_t encodeFloat(DataType type, double value) {
  if (std::isnan(value)) return layoutOf(type).nan;
  if (type == DataType::kFloat64) {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return bits;
  }
  if (type == DataType::kFloat32) {
    const float narrow = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    return bits;
  }
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (8 * base::sizeOf(type) - 1) : 0;
  return sign | encodeMagnitude(type, std::fabs(value));
}

uint64_t oracleReduce(const Reduction& reduction, const std::vector<uint64_t>& codes) {
  if (!base::isFloat(reduction.type)) return reduceInteger(reduction, codes);
  if (reduction.op == ReduceOp::kMax || reduction.op == ReduceOp::kMin)
    return orderFloat(reduction, codes);
  return reduceFloat(reduction, codes);
}

}  // namespace omnes::kernels::test
