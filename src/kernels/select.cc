// Chooses the function for a (type, op) pair.
#include "kernels/simd_select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/select.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

const char* nameOfTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace omnes::kernels {

using base::DataType;
using base::ReduceOp;

ReduceFunction selectReduce(DataType type, ReduceOp op) {
  if (!base::isDefined(type, op)) return nullptr;
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return simdReduceOrder(type, op);
  if (type == DataType::kFloat32 || type == DataType::kFloat64) return simdReduceFloat(type, op);
  if (base::isFloat(type))
    return base::sizeOf(type) == 2 ? simdReduceFloat16(type, op) : simdReduceFloat8(type, op);
  if (op == ReduceOp::kAvg && base::sizeOf(type) < 8) return simdReduceIntegerAverage(type, op);
  return simdReduceInteger(type, op);
}

HWY_EXPORT(nameOfTarget);
const char* targetName() { return HWY_DYNAMIC_DISPATCH(nameOfTarget)(); }

}  // namespace omnes::kernels
#endif  // HWY_ONCE
