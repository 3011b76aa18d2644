// What the kernels must give, computed another way: formats are decoded from their fields with
// ldexp and encoded by searching the table of all values; sums and products are made in a type wide
// enough that one rounding to float32 (float64) equals the IEEE operation. Slow; pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace omnes::kernels::test {

// The value of a code of any float type. NaN for NaN codes.
double decodeFloat(base::DataType type, uint64_t code);
// The code of the nearest value, ties to even, by the overflow rule of the type; the canonical NaN.
// For float32 and the small types, value is a float32 (or NaN, Inf); for float64 any double.
uint64_t encodeFloat(base::DataType type, double value);
bool isNanCode(base::DataType type, uint64_t code);

// The result at an input sink of sources that are all inputs, in this order. Codes are the
// elements' bits, zero-extended.
uint64_t oracleReduce(const Reduction& reduction, const std::vector<uint64_t>& codes);

}  // namespace omnes::kernels::test
