// Inputs whose reduction is exact, so that "#wrong" means wrong and not rounded.
//
// For every type, operator and number of ranks the inputs are chosen such that any partial result,
// in any order and grouping, is a number of the type itself (averages: of float32), so every
// correct implementation gets the same bits whatever its algorithm. The expected result is computed
// from the decoded inputs in integers or long double, apart from how they were chosen. Integers are
// full-range and wrap.
//
// Values repeat with a prime period: a table is built once, and checking runs at the speed of
// memory, while blocks (whose lengths are even) cannot be exchanged unseen. Thread safety: pure
// functions; a Pattern is used by one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/elements.h"

namespace omnes::perf {

constexpr uint64_t kPatternPeriod = 2039;

// What rank contributes at element i (0 <= i < kPatternPeriod; larger i repeat).
uint64_t inputBits(const TypeInfo& type, Op op, int nranks, int rank, uint64_t i);
// What the reduction over all ranks must give there.
uint64_t expectedBits(const TypeInfo& type, Op op, int nranks, uint64_t i);
// The scalar that rank multiplies with under mulsum.
uint64_t scalarBits(const TypeInfo& type, int rank);
// How far a result may be from the expected one: 2 for averages of float and double, whose division
// may be done as a multiplication, else 0.
uint64_t toleranceUlps(const TypeInfo& type, Op op);

// One period of elements, stored as the type stores them.
class Pattern {
 public:
  Pattern() = default;
  // `bits` has kPatternPeriod elements.
  Pattern(const TypeInfo& type, const std::vector<uint64_t>& bits);

  // Writes elements [first, first + count) of the endless repetition to destination.
  void fill(void* destination, uint64_t first, uint64_t count) const;
  // The same, every bit inverted: wrong in every element.
  void fillInverted(void* destination, uint64_t first, uint64_t count) const;
  // How many of the elements differ by more than `tolerance` representable numbers.
  uint64_t countWrong(const void* data, uint64_t first, uint64_t count, uint64_t tolerance) const;

 private:
  TypeInfo type_{};
  std::vector<unsigned char> bytes_;     // two periods, so that a run may start anywhere
  std::vector<unsigned char> inverted_;  // the same, inverted
};

Pattern inputPattern(const TypeInfo& type, Op op, int nranks, int rank);
Pattern expectedPattern(const TypeInfo& type, Op op, int nranks);

}  // namespace omnes::perf
