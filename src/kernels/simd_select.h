// What the translation units of the SIMD reductions offer to select.cc, one function a group of
// types and operators. Each dispatches to the best instruction set of the machine and returns null
// for a pair outside its group.
#pragma once

#include "kernels/kernels.h"

namespace omnes::kernels {

ReduceFunction simdReduceFloat(base::DataType type,
                               base::ReduceOp op);  // float32, float64; not min, max
ReduceFunction simdReduceFloat16(base::DataType type,
                                 base::ReduceOp op);  // float16, bfloat16; not min, max
ReduceFunction simdReduceFloat8(base::DataType type,
                                base::ReduceOp op);  // 8-bit floats; not min, max
ReduceFunction simdReduceInteger(base::DataType type,
                                 base::ReduceOp op);  // integers; not min, max, short avg
ReduceFunction simdReduceIntegerAverage(base::DataType type,
                                        base::ReduceOp op);  // avg of integers up to 32 bits
ReduceFunction simdReduceOrder(base::DataType type,
                               base::ReduceOp op);  // min and max of every type

}  // namespace omnes::kernels
