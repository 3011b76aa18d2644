// Integers: wrapping sum, product and pre-multiplied sum, bit operations, and the average of 64-bit
// types.
#include "kernels/simd_select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_integer.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/lanes_word-inl.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

using base::DataType;
using base::ReduceOp;

#if HWY_TARGET == HWY_SCALAR
ReduceFunction chooseInteger(DataType type, ReduceOp op) { return scalarReduce(type, op); }
#else
template <typename T>
ReduceFunction chooseIntegerOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum: return reduceWith<IntegerLanes<T, IntegerOp::kAdd>, true>;
    case ReduceOp::kProd: return reduceWith<IntegerLanes<T, IntegerOp::kMul>, false>;
    case ReduceOp::kBand: return reduceWith<IntegerLanes<T, IntegerOp::kAnd>, false>;
    case ReduceOp::kBor: return reduceWith<IntegerLanes<T, IntegerOp::kOr>, false>;
    case ReduceOp::kBxor: return reduceWith<IntegerLanes<T, IntegerOp::kXor>, false>;
    default: return nullptr;
  }
}

ReduceFunction chooseInteger(DataType type, ReduceOp op) {
  switch (base::sizeOf(type)) {
    case 1: return chooseIntegerOp<uint8_t>(op);
    case 2: return chooseIntegerOp<uint16_t>(op);
    case 4: return chooseIntegerOp<uint32_t>(op);
    default: return chooseIntegerOp<uint64_t>(op);
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace omnes::kernels {

HWY_EXPORT(chooseInteger);
ReduceFunction simdReduceInteger(base::DataType type, base::ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(chooseInteger)(type, op);
}

}  // namespace omnes::kernels
#endif  // HWY_ONCE
