// What the ranks of a case contribute, and what their reduction must be.
//
// Values repeat with a period that has no factor in common with any size of a slot, a slice or a
// line, so that a block in the wrong place is seen and the expectation of a long message costs no
// more than that of a short one. Floats are small multiples of one half, whose sums are exact in
// every order, and powers of two, whose products are: one rounding at the end, and it is known
// which. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "matrix/case.h"

namespace omnes::tests::matrix {

using Bytes = std::vector<uint8_t>;

inline constexpr uint64_t kPeriod = 61;

// The factor of a rank in a pre-multiplied sum, as bits of the type.
uint64_t factorBits(const Case& c, int32_t rank);
// One period of what `rank` contributes to (or has in) block `block`.
Bytes contribution(const Case& c, int32_t rank, int32_t block);
// One period of the reduction of all ranks' contributions to the block.
Bytes reduction(const Case& c, int32_t block);
// Writes `elements` elements of width bytes: the period over and over.
void repeat(const Bytes& period, uint64_t elements, uint64_t width, uint8_t* out);

}  // namespace omnes::tests::matrix
