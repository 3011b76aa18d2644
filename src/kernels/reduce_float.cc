// float32 and float64: sum, product, average, pre-multiplied sum.
#include "kernels/simd_select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_float.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/lanes_word-inl.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

using base::DataType;
using base::ReduceOp;

#if HWY_TARGET == HWY_SCALAR
ReduceFunction chooseFloat(DataType type, ReduceOp op) { return scalarReduce(type, op); }
#else
template <typename T>
ReduceFunction chooseFloatOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum: return reduceWith<FloatLanes<T, Arithmetic::kAdd>, true>;
    case ReduceOp::kProd: return reduceWith<FloatLanes<T, Arithmetic::kMul>, false>;
    default: return nullptr;
  }
}

ReduceFunction chooseFloat(DataType type, ReduceOp op) {
  return type == DataType::kFloat32 ? chooseFloatOp<float>(op) : chooseFloatOp<double>(op);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace omnes::kernels {

HWY_EXPORT(chooseFloat);
ReduceFunction simdReduceFloat(base::DataType type, base::ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(chooseFloat)(type, op);
}

}  // namespace omnes::kernels
#endif  // HWY_ONCE
