// Byte order and limits of everything the bootstrap sends. docs/wire.md describes the same bytes in
// prose.
//
// All integers are little-endian and unsigned. The handshake ("proof") has a layout that never
// changes, so that two wire versions can prove to each other who they are and then say, believably,
// that they differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace omnes::core::bootstrap {

// Version of all that is sent after the proof. Independent of the package version.
inline constexpr uint32_t kWireVersion = 1;

inline constexpr uint32_t kMaxRanks = 1u << 20;
inline constexpr size_t kMaxBlobBytes = 64 * 1024;
inline constexpr size_t kMaxSettingsBytes = 16 * 1024;
inline constexpr size_t kMaxErrorTextBytes = 4 * 1024;
// Room for a blob or a settings text and the fields in front of it.
inline constexpr size_t kMaxFramePayload = kMaxBlobBytes + 1024;
inline constexpr uint32_t kNoRank = 0xffffffffu;

template <typename T>
void putLe(uint8_t* to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

template <typename T>
T getLe(const uint8_t* from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(from[i]) << (8 * i));
  return value;
}

}  // namespace omnes::core::bootstrap
