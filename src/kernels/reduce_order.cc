// Minimum and maximum of every type. NaN wins, -0 < +0, whatever the order of the operands.
#include "kernels/simd_select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_order.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/lanes_word-inl.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

using base::DataType;
using base::ReduceOp;

#if HWY_TARGET == HWY_SCALAR
ReduceFunction chooseOrder(DataType type, ReduceOp op) { return scalarReduce(type, op); }
#else
template <typename T>
ReduceFunction integerOrder(bool max) {
  return max ? reduceWith<IntegerOrderLanes<T, true>, false>
             : reduceWith<IntegerOrderLanes<T, false>, false>;
}
template <typename T, std::make_unsigned_t<T> kLastNumber, std::make_unsigned_t<T> kNan>
ReduceFunction floatOrder(bool max) {
  return max ? reduceWith<FloatOrderLanes<T, true, kLastNumber, kNan>, false>
             : reduceWith<FloatOrderLanes<T, false, kLastNumber, kNan>, false>;
}
template <typename T, class Format>
ReduceFunction smallFloatOrder(bool max) {
  return floatOrder<T, Format::kLastNumber, Format::kNan>(max);
}

ReduceFunction chooseOrder(DataType type, ReduceOp op) {
  const bool max = op == ReduceOp::kMax;
  switch (type) {
    case DataType::kInt8: return integerOrder<int8_t>(max);
    case DataType::kUint8: return integerOrder<uint8_t>(max);
    case DataType::kInt16: return integerOrder<int16_t>(max);
    case DataType::kUint16: return integerOrder<uint16_t>(max);
    case DataType::kInt32: return integerOrder<int32_t>(max);
    case DataType::kUint32: return integerOrder<uint32_t>(max);
    case DataType::kInt64: return integerOrder<int64_t>(max);
    case DataType::kUint64: return integerOrder<uint64_t>(max);
    case DataType::kFloat16: return smallFloatOrder<int16_t, Float16Format>(max);
    case DataType::kBfloat16: return smallFloatOrder<int16_t, Bfloat16Format>(max);
    case DataType::kFloat8e4m3: return smallFloatOrder<int8_t, Float8e4m3Format>(max);
    case DataType::kFloat8e5m2: return smallFloatOrder<int8_t, Float8e5m2Format>(max);
    case DataType::kFloat32: return floatOrder<int32_t, kInfF32, kNanF32>(max);
    case DataType::kFloat64: return floatOrder<int64_t, kInfF64, kNanF64>(max);
  }
  return nullptr;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace omnes::kernels {

HWY_EXPORT(chooseOrder);
ReduceFunction simdReduceOrder(base::DataType type, base::ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(chooseOrder)(type, op);
}

}  // namespace omnes::kernels
#endif  // HWY_ONCE
