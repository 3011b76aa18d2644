// float16 and bfloat16: sum, product, average, pre-multiplied sum.
#include "kernels/simd_select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_float16.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/lanes_small-inl.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

using base::DataType;
using base::ReduceOp;

#if HWY_TARGET == HWY_SCALAR
ReduceFunction chooseFloat16(DataType type, ReduceOp op) { return scalarReduce(type, op); }
#else
template <template <Arithmetic> class Lanes>
ReduceFunction chooseFloat16Op(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum: return reduceWith<Lanes<Arithmetic::kAdd>, true>;
    case ReduceOp::kProd: return reduceWith<Lanes<Arithmetic::kMul>, false>;
    default: return nullptr;
  }
}

ReduceFunction chooseFloat16(DataType type, ReduceOp op) {
  return type == DataType::kFloat16 ? chooseFloat16Op<Float16Lanes>(op)
                                    : chooseFloat16Op<Bfloat16Lanes>(op);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace omnes::kernels {

HWY_EXPORT(chooseFloat16);
ReduceFunction simdReduceFloat16(base::DataType type, base::ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(chooseFloat16)(type, op);
}

}  // namespace omnes::kernels
#endif  // HWY_ONCE
