// The arithmetic of omnes: fused reductions over any number of sources, conversions, and copies.
//
// A kernel sees elements only. Each operand is either in the collective's own element type
// ("input": an untouched contribution or a final result) or in the wire type of base::wireType()
// ("partial": a sum under way).
//   * an input source is pre-scaled (PreMulSum) and widened when it is loaded; a partial source is
//   taken as it is;
//   * an input sink gets the finished value: AVG divided once, rounded once to the element type
//   (nearest-even, FP8
//     saturating for finite values); a partial sink gets the accumulator.
// Sources are combined in the order given, left to right, one operation at a time per element, so
// the result does not depend on alignment, length, lane or instruction set. NaN results are
// canonical. Rules: docs/numerics.md. Nothing outside [data, data + count elements) is read or
// written. Operands need only byte alignment. A sink may be exactly one of the sources (same
// address and width); any other overlap is undefined. Thread-safe: kernels hold no state. The
// caller's floating-point mode must be IEEE default (core sees to that).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace omnes::kernels {

enum class Mark : uint8_t { kInput = 0, kPartial = 1 };

struct Source {
  const void* data;
  Mark mark;
};

struct Sink {
  void* data;
  Mark mark;
  // Store around the cache: for lines that another core reads next. A hint; the function ends with
  // the store fence it needs, so a later release store of this thread publishes the data.
  bool nonTemporal;
};

// What a collective reduces with, fixed for the whole operation.
struct Reduction {
  base::DataType type = base::DataType::kFloat32;
  base::ReduceOp op = base::ReduceOp::kSum;
  uint32_t nranks = 1;      // divisor of AVG
  uint64_t scalarBits = 0;  // PreMulSum: the factor's bytes in `type`, low bytes first
};

// Runs one reduction over `count` elements. sourceCount >= 1 and sinkCount >= 1, both unbounded.
using ReduceFunction = void (*)(const Reduction& reduction, const Source* sources,
                                size_t sourceCount, const Sink* sinks, size_t sinkCount,
                                size_t count);

// The best function for this machine; resolve once, call often. Null when the pair is not defined.
ReduceFunction selectReduce(base::DataType type, base::ReduceOp op);
// The scalar reference with the same bits, for tests and for proof. Null when the pair is not
// defined.
ReduceFunction scalarReduce(base::DataType type, base::ReduceOp op);

// Copies `bytes` bytes; no overlap. With nonTemporal the stores bypass the cache and are globally
// visible, in order before any later release store of this thread, when the function returns (it
// ends with the store fence it needs).
void copy(void* destination, const void* source, size_t bytes, bool nonTemporal);

// Exact conversions between element types and float32, for tests, perf inputs and bindings.
// Rounding as above.
void toFloat32(base::DataType type, const void* source, float* destination, size_t count);
void fromFloat32(base::DataType type, const float* source, void* destination, size_t count);

// The instruction set that selectReduce() picked, e.g. "AVX3_DL". Static storage.
const char* targetName();

}  // namespace omnes::kernels
