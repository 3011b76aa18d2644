// Constant tables of the AVX3_DL body of the 8-bit floats. Every value of these formats is exact in
// bfloat16, so 128 codes need two tables of bytes; the sign is put in afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats.h"

namespace omnes::kernels {

// Lower and upper byte of the bfloat16 of each magnitude code.
struct alignas(64) Float8Tables {
  uint8_t low[128];
  uint8_t high[128];
};

template <class Format>
constexpr Float8Tables makeFloat8Tables() {
  Float8Tables tables{};
  for (uint32_t code = 0; code < 128; ++code) {
    tables.low[code] = static_cast<uint8_t>(widenedBits<Format>(code) >> 16);
    tables.high[code] = static_cast<uint8_t>(widenedBits<Format>(code) >> 24);
  }
  return tables;
}
template <class Format>
inline constexpr Float8Tables kFloat8Tables = makeFloat8Tables<Format>();

// Indices of a byte permutation of two vectors: 0-63 the first, 64-127 the second.
struct alignas(64) BytePattern {
  uint8_t at[64];
};

// Bytes 2 and 3 of lane i get byte 16 * part + i of the low and of the high lookup.
constexpr BytePattern makeSpread(size_t part) {
  BytePattern pattern{};
  for (size_t i = 0; i < 16; ++i) {
    pattern.at[4 * i + 2] = static_cast<uint8_t>(16 * part + i);
    pattern.at[4 * i + 3] = static_cast<uint8_t>(64 + 16 * part + i);
  }
  return pattern;
}
inline constexpr BytePattern kSpread[4] = {makeSpread(0), makeSpread(1), makeSpread(2),
                                           makeSpread(3)};

// Byte `byte` of each of the 32 lanes, to the first 32 bytes.
constexpr BytePattern makeGather(size_t byte) {
  BytePattern pattern{};
  for (size_t i = 0; i < 64; ++i) pattern.at[i] = static_cast<uint8_t>((4 * i + byte) % 128);
  return pattern;
}
inline constexpr BytePattern kGatherLow = makeGather(0);
inline constexpr BytePattern kGatherHigh = makeGather(3);

}  // namespace omnes::kernels
