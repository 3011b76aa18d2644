#include "common/elements.h"

#include <array>
#include <cmath>

namespace omnes::perf {
namespace {

constexpr std::array<TypeInfo, 14> kTypes = {{
    {omnesInt8, "int8", "char", 1, Kind::kSigned, 0, 0, 0, 0},
    {omnesUint8, "uint8", "byte", 1, Kind::kUnsigned, 0, 0, 0, 0},
    {omnesInt32, "int32", "int", 4, Kind::kSigned, 0, 0, 0, 0},
    {omnesUint32, "uint32", "unsigned", 4, Kind::kUnsigned, 0, 0, 0, 0},
    {omnesInt64, "int64", "long", 8, Kind::kSigned, 0, 0, 0, 0},
    {omnesUint64, "uint64", "ulong", 8, Kind::kUnsigned, 0, 0, 0, 0},
    {omnesFloat16, "half", "float16", 2, Kind::kFloat, 11, -14, 15, 65504.0},
    {omnesFloat32, "float", "float32", 4, Kind::kFloat, 24, -126, 127, 0x1.fffffep127},
    {omnesFloat64, "double", "float64", 8, Kind::kFloat, 53, -1022, 1023, 0x1.fffffffffffffp1023},
    {omnesBfloat16, "bfloat16", "bf16", 2, Kind::kFloat, 8, -126, 127, 0x1.fep127},
    {omnesFloat8e4m3, "f8e4m3", "float8e4m3", 1, Kind::kFloat, 4, -6, 8, 448.0},
    {omnesFloat8e5m2, "f8e5m2", "float8e5m2", 1, Kind::kFloat, 3, -14, 15, 57344.0},
    {omnesInt16, "int16", "short", 2, Kind::kSigned, 0, 0, 0, 0},
    {omnesUint16, "uint16", "ushort", 2, Kind::kUnsigned, 0, 0, 0, 0},
}};

constexpr std::array<Op, 9> kOps = {Op::kSum,    Op::kProd, Op::kMin, Op::kMax, Op::kAvg,
                                    Op::kMulSum, Op::kBand, Op::kBor, Op::kBxor};

}  // namespace

std::span<const TypeInfo> allTypes() { return kTypes; }
std::span<const Op> allOps() { return kOps; }

const char* opName(Op op) {
  switch (op) {
    case Op::kSum: return "sum";
    case Op::kProd: return "prod";
    case Op::kMin: return "min";
    case Op::kMax: return "max";
    case Op::kAvg: return "avg";
    case Op::kMulSum: return "mulsum";
    case Op::kBand: return "band";
    case Op::kBor: return "bor";
    case Op::kBxor: return "bxor";
    case Op::kNone: return "none";
  }
  return "?";
}

bool isDefined(Op op, const TypeInfo& type) {
  const bool bitwise = op == Op::kBand || op == Op::kBor || op == Op::kBxor;
  return !bitwise || !type.isFloat();
}

omnesRedOp_t builtinOp(Op op) {
  switch (op) {
    case Op::kProd: return omnesProd;
    case Op::kMin: return omnesMin;
    case Op::kMax: return omnesMax;
    case Op::kAvg: return omnesAvg;
    case Op::kBand: return omnesBand;
    case Op::kBor: return omnesBor;
    case Op::kBxor: return omnesBxor;
    case Op::kSum:
    case Op::kMulSum:
    case Op::kNone: return omnesSum;
  }
  return omnesSum;
}

std::optional<std::vector<TypeInfo>> parseTypes(std::string_view text, std::string* problem) {
  if (text == "all") return std::vector<TypeInfo>(kTypes.begin(), kTypes.end());
  std::string legal;
  for (const TypeInfo& type : kTypes) {
    if (text == type.name || text == type.alias) return std::vector<TypeInfo>{type};
    legal += std::string(type.name) + " ";
  }
  *problem = "the types are: " + legal + "all";
  return std::nullopt;
}

std::optional<std::vector<Op>> parseOps(std::string_view text, std::string* problem) {
  if (text == "all") return std::vector<Op>(kOps.begin(), kOps.end());
  std::string legal;
  for (Op op : kOps) {
    if (text == opName(op)) return std::vector<Op>{op};
    legal += std::string(opName(op)) + " ";
  }
  *problem = "the operators are: " + legal + "all";
  return std::nullopt;
}

// Layout shared by all float types: sign | biased exponent | fraction; `fieldBits` below the sign.
static int fractionBits(const TypeInfo& type) { return type.precision - 1; }
static uint64_t signBit(const TypeInfo& type) { return uint64_t{1} << (8 * type.bytes - 1); }

long double decodeFloat(const TypeInfo& type, uint64_t bits) {
  const uint64_t magnitude = bits & ~signBit(type) & type.mask();
  const uint64_t exponent = magnitude >> fractionBits(type);
  const uint64_t fraction = magnitude & ((uint64_t{1} << fractionBits(type)) - 1);
  const uint64_t significand =
      exponent == 0 ? fraction : fraction | (uint64_t{1} << fractionBits(type));
  const int scale = (exponent == 0 ? 1 : static_cast<int>(exponent)) - 1 + type.lowestExponent -
                    fractionBits(type);
  const long double value = std::ldexp(static_cast<long double>(significand), scale);
  return bits & signBit(type) ? -value : value;
}

bool isFinite(const TypeInfo& type, uint64_t bits) {
  const uint64_t magnitude = bits & ~signBit(type) & type.mask();
  return magnitude <= *encodeExact(type, type.largest);
}

std::optional<uint64_t> encodeExact(const TypeInfo& type, long double value) {
  const uint64_t sign = std::signbit(value) ? signBit(type) : 0;
  const long double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (!(magnitude <= static_cast<long double>(type.largest))) return std::nullopt;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent -= 1;
  const bool normal = exponent >= type.lowestExponent;
  if (!normal) exponent = type.lowestExponent;
  const long double scaled = std::ldexp(magnitude, fractionBits(type) - exponent);
  if (scaled != std::floor(scaled)) return std::nullopt;
  const auto significand = static_cast<uint64_t>(scaled);
  if (!normal) return sign | significand;
  const auto biased = static_cast<uint64_t>(exponent - type.lowestExponent + 1);
  return sign |
         ((biased << fractionBits(type)) + (significand - (uint64_t{1} << fractionBits(type))));
}

uint64_t ulpDistance(const TypeInfo& type, uint64_t a, uint64_t b) {
  const uint64_t magnitudeA = a & ~signBit(type), magnitudeB = b & ~signBit(type);
  if ((a & signBit(type)) != (b & signBit(type))) return magnitudeA + magnitudeB;
  return magnitudeA > magnitudeB ? magnitudeA - magnitudeB : magnitudeB - magnitudeA;
}

}  // namespace omnes::perf
