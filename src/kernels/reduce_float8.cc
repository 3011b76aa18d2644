// The 8-bit floats: sum, product, average, pre-multiplied sum.
#include "kernels/simd_select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_float8.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/lanes_float8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

using base::DataType;
using base::ReduceOp;

#if HWY_TARGET == HWY_SCALAR
ReduceFunction chooseFloat8(DataType type, ReduceOp op) { return scalarReduce(type, op); }
#else
template <class Format>
ReduceFunction chooseFloat8Op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum: return reduceWith<Float8Lanes<Format, Arithmetic::kAdd>, true>;
    case ReduceOp::kProd: return reduceWith<Float8Lanes<Format, Arithmetic::kMul>, false>;
    default: return nullptr;
  }
}

ReduceFunction chooseFloat8(DataType type, ReduceOp op) {
  return type == DataType::kFloat8e4m3 ? chooseFloat8Op<Float8e4m3Format>(op)
                                       : chooseFloat8Op<Float8e5m2Format>(op);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace omnes::kernels {

HWY_EXPORT(chooseFloat8);
ReduceFunction simdReduceFloat8(base::DataType type, base::ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(chooseFloat8)(type, op);
}

}  // namespace omnes::kernels
#endif  // HWY_ONCE
