// A small 64-bit hash for fingerprints and tables. Not cryptographic: it tells honest mistakes
// apart, it does not keep anybody out. The values travel between ranks, so they are the same on
// every machine and must not change without a new wire version. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace omnes::base {

// A bijection in which every input bit flips each output bit with a probability close to one half:
// two rounds of xor-shift and odd multiplication (the constants of SplitMix64's finaliser).
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Collects values in order. Each step is a bijection of the state for a given value, so that
// sequences that differ in one place never meet, and others meet with a probability of 2^-64.
class Hasher {
 public:
  constexpr explicit Hasher(uint64_t seed = 0) : state_(mix64(seed + kStep)) {}

  constexpr Hasher& add(uint64_t value) {
    state_ = mix64((state_ ^ mix64(value + kStep)) + kStep);
    return *this;
  }
  // The length is part of what is hashed. Bytes are taken in little-endian order on every machine.
  constexpr Hasher& add(std::string_view text) {
    add(uint64_t{text.size()});
    for (size_t at = 0; at < text.size(); at += 8) {
      uint64_t word = 0;
      for (size_t i = 0; i < 8 && at + i < text.size(); ++i) {
        word |= uint64_t{static_cast<unsigned char>(text[at + i])} << (8 * i);
      }
      add(word);
    }
    return *this;
  }
  constexpr uint64_t value() const { return state_; }

 private:
  static constexpr uint64_t kStep =
      0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, so that 0 is no fixed point
  uint64_t state_;
};

}  // namespace omnes::base
