// The element formats bit by bit, and the scalar conversions of the 8- and 16-bit floats.
//
// Every rule about a format (range, NaN, infinity, rounding) stands here once; the SIMD bodies take
// their constants from this file and follow the same steps. Pure functions, thread-safe.
// docs/numerics.md has the contract in words.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/types.h"

namespace omnes::kernels {

// A binary float of 16 bits or fewer. Values: (-1)^s * 2^(e - kBias) * 1.m, subnormal when e == 0.
template <typename BitsType, int kManBitsValue, int kExpBitsValue, uint32_t kMaxFiniteValue,
          bool kHasInfValue, bool kSaturatesValue, uint32_t kNanValue>
struct SmallFloat {
  using Bits = BitsType;
  static constexpr int kBits = 8 * static_cast<int>(sizeof(Bits));
  static constexpr int kManBits = kManBitsValue;
  static constexpr int kExpBits = kExpBitsValue;
  static constexpr int kBias = (1 << (kExpBits - 1)) - 1;
  static constexpr uint32_t kSignBit = 1u << (kBits - 1);
  static constexpr uint32_t kMaxFinite = kMaxFiniteValue;  // code of the largest finite value
  static constexpr bool kHasInf = kHasInfValue;
  static constexpr bool kSaturates =
      kSaturatesValue;  // finite values beyond the range become the largest finite one
  static constexpr uint32_t kInf = kMaxFinite + 1;  // meaningful only with kHasInf
  static constexpr uint32_t kNan = kNanValue;       // the canonical NaN
  // Magnitudes above this code are NaN.
  static constexpr uint32_t kLastNumber = kHasInf ? kInf : kMaxFinite;

  // float32 bits of the largest finite value.
  static constexpr uint32_t kMaxFiniteF32 =
      ((kMaxFinite >> kManBits) + 127 - kBias) << 23 | (kMaxFinite & ((1u << kManBits) - 1))
                                                           << (23 - kManBits);
  // Magnitudes are clamped to this before they are rounded. Without saturation it is the first
  // power of two that is out of range: its code is that of infinity.
  static constexpr uint32_t kClampF32 =
      kSaturates ? kMaxFiniteF32 : ((kMaxFinite >> kManBits) + 1 + 127 - kBias) << 23;
  // float32 exponent field of the smallest normal value.
  static constexpr uint32_t kMinNormalF32 = static_cast<uint32_t>(127 + 1 - kBias) << 23;
  // Added to the exponent field of x it gives the float32 whose last place is worth the last place
  // of x here.
  static constexpr uint32_t kRoundingStep = static_cast<uint32_t>(23 - kManBits) << 23;
  // See narrow(): what remains to be taken off the sum of the two fields.
  static constexpr uint32_t kRebias =
      static_cast<uint32_t>(((127 + 23 - kManBits - kBias) << kManBits) + (1 << kManBits));
};

// OCP 8-bit formats: E4M3 has no infinity and one NaN magnitude; E5M2 is laid out like IEEE.
using Float16Format = SmallFloat<uint16_t, 10, 5, 0x7bff, true, false, 0x7e00>;
using Float8e4m3Format = SmallFloat<uint8_t, 3, 4, 0x7e, false, true, 0x7f>;
using Float8e5m2Format = SmallFloat<uint8_t, 2, 5, 0x7b, true, true, 0x7e>;
// bfloat16 is the upper half of a float32, so it has conversions of its own.
using Bfloat16Format = SmallFloat<uint16_t, 7, 8, 0x7f7f, true, false, 0x7fc0>;

inline constexpr uint32_t kNanF32 = 0x7fc00000;
inline constexpr uint32_t kInfF32 = 0x7f800000;
inline constexpr uint32_t kMagnitudeF32 = 0x7fffffff;
inline constexpr uint64_t kNanF64 = 0x7ff8000000000000;
inline constexpr uint64_t kInfF64 = 0x7ff0000000000000;

inline float canonical(float x) { return x == x ? x : std::bit_cast<float>(kNanF32); }
inline double canonical(double x) { return x == x ? x : std::bit_cast<double>(kNanF64); }

// The float32 bits of a code: exact. Subnormals: the same bits with exponent field 1 count 1.m
// instead of 0.m, so the implicit one is taken off again in float arithmetic, exact there.
template <typename Format>
constexpr uint32_t widenedBits(uint32_t code) {
  constexpr int kShift = 23 - Format::kManBits;
  const uint32_t sign = (code & Format::kSignBit) << (32 - Format::kBits);
  const uint32_t magnitude = code & (Format::kSignBit - 1);
  if (magnitude > Format::kLastNumber) return kNanF32;
  if (Format::kHasInf && magnitude == Format::kInf) return sign | kInfF32;
  const uint32_t shifted = magnitude << kShift;
  if ((magnitude >> Format::kManBits) == 0) {
    const float one = std::bit_cast<float>(Format::kMinNormalF32);
    const float value = std::bit_cast<float>(shifted + Format::kMinNormalF32) - one;
    return std::bit_cast<uint32_t>(value) | sign;
  }
  return sign | (shifted + (static_cast<uint32_t>(127 - Format::kBias) << 23));
}

template <typename Format>
inline float widen(typename Format::Bits code) {
  return std::bit_cast<float>(widenedBits<Format>(code));
}

template <>
inline float widen<Bfloat16Format>(uint16_t bits) {
  return canonical(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
}

// Rounds to nearest-even once. A power of two is added to |x| that makes the last place of the
// float32 sum equal to the last place of the target, so the addition itself rounds, subnormals
// included. The sum t then holds the wanted exponent (plus a constant) in its upper field and the
// significand k, implicit one included, in its low bits:
//   code = ((e + bias) << m) + k - (1 << m),   t = ((e + 23 - m + 127) << 23) + k.
template <typename Format>
inline typename Format::Bits narrow(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> (32 - Format::kBits)) & Format::kSignBit;
  const uint32_t magnitude = bits & kMagnitudeF32;
  if (magnitude > kInfF32) return static_cast<typename Format::Bits>(Format::kNan);
  if (Format::kHasInf && magnitude == kInfF32)
    return static_cast<typename Format::Bits>(sign | Format::kInf);
  const uint32_t clamped = magnitude < Format::kClampF32 ? magnitude : Format::kClampF32;
  uint32_t exponent = clamped & kInfF32;
  if (exponent < Format::kMinNormalF32) exponent = Format::kMinNormalF32;
  const float magic = std::bit_cast<float>(exponent + Format::kRoundingStep);
  const uint32_t sum = std::bit_cast<uint32_t>(std::bit_cast<float>(clamped) + magic);
  const uint32_t code = (sum >> (23 - Format::kManBits)) + (sum & 0x1fff) - Format::kRebias;
  return static_cast<typename Format::Bits>(sign | code);
}

template <>
inline uint16_t narrow<Bfloat16Format>(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & kMagnitudeF32) > kInfF32) return static_cast<uint16_t>(Bfloat16Format::kNan);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// How an element type is held in memory: `Bits` is the stored word, `Format` its small-float format
// (void otherwise).
template <base::DataType kType>
struct Element;

#define OMNES_ELEMENT(name, bits, format) \
  template <>                             \
  struct Element<base::DataType::name> {  \
    using Bits = bits;                    \
    using Format = format;                \
  };
OMNES_ELEMENT(kInt8, int8_t, void)
OMNES_ELEMENT(kUint8, uint8_t, void)
OMNES_ELEMENT(kInt16, int16_t, void)
OMNES_ELEMENT(kUint16, uint16_t, void)
OMNES_ELEMENT(kInt32, int32_t, void)
OMNES_ELEMENT(kUint32, uint32_t, void)
OMNES_ELEMENT(kInt64, int64_t, void)
OMNES_ELEMENT(kUint64, uint64_t, void)
OMNES_ELEMENT(kFloat32, float, void)
OMNES_ELEMENT(kFloat64, double, void)
OMNES_ELEMENT(kFloat16, uint16_t, Float16Format)
OMNES_ELEMENT(kBfloat16, uint16_t, Bfloat16Format)
OMNES_ELEMENT(kFloat8e4m3, uint8_t, Float8e4m3Format)
OMNES_ELEMENT(kFloat8e5m2, uint8_t, Float8e5m2Format)
#undef OMNES_ELEMENT

// Operands need only byte alignment.
template <typename T>
inline T loadAt(const void* base, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(base) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
inline void storeAt(void* base, size_t index, T value) {
  std::memcpy(static_cast<uint8_t*>(base) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace omnes::kernels
