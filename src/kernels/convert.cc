// Exact conversions between element types and float32. Not a hot path: the reductions convert in
// registers.
#include <limits>
#include <type_traits>

#include "kernels/formats.h"
#include "kernels/kernels.h"

namespace omnes::kernels {
namespace {

using base::DataType;

template <DataType kType>
float elementToFloat32(const void* source, size_t index) {
  using Bits = typename Element<kType>::Bits;
  using Format = typename Element<kType>::Format;
  const Bits value = loadAt<Bits>(source, index);
  if constexpr (!std::is_void_v<Format>)
    return widen<Format>(value);
  else if constexpr (std::is_floating_point_v<Bits>)
    return canonical(static_cast<float>(value));
  else
    return static_cast<float>(value);
}

// Integers: nearest-even, saturating, NaN becomes 0.
template <typename Bits>
Bits roundToInteger(float value) {
  if (value != value) return 0;
  // 2^digits is exact in float32 and the first value that is out of range above.
  float limit = 1.0f;
  for (int i = 0; i < std::numeric_limits<Bits>::digits; ++i) limit *= 2.0f;
  if (value >= limit) return std::numeric_limits<Bits>::max();
  if (value < static_cast<float>(std::numeric_limits<Bits>::min()))
    return std::numeric_limits<Bits>::min();
  // Floats of 2^23 and above are integers; below, adding 2^23 rounds to nearest-even.
  const float magnitude = value < 0 ? -value : value;
  float rounded = magnitude;
  if (magnitude < 8388608.0f) rounded = (magnitude + 8388608.0f) - 8388608.0f;
  if (rounded >= limit && value > 0) return std::numeric_limits<Bits>::max();
  return static_cast<Bits>(value < 0 ? -rounded : rounded);
}

template <DataType kType>
void elementFromFloat32(float value, void* destination, size_t index) {
  using Bits = typename Element<kType>::Bits;
  using Format = typename Element<kType>::Format;
  if constexpr (!std::is_void_v<Format>)
    storeAt<Bits>(destination, index, narrow<Format>(value));
  else if constexpr (std::is_floating_point_v<Bits>)
    storeAt<Bits>(destination, index, canonical(Bits{value}));
  else
    storeAt<Bits>(destination, index, roundToInteger<Bits>(value));
}

// Calls visitor.operator()<type>() for the run-time type.
template <typename Visitor>
void visitType(DataType type, Visitor visitor) {
  switch (type) {
    case DataType::kInt8: return visitor.template operator()<DataType::kInt8>();
    case DataType::kUint8: return visitor.template operator()<DataType::kUint8>();
    case DataType::kInt16: return visitor.template operator()<DataType::kInt16>();
    case DataType::kUint16: return visitor.template operator()<DataType::kUint16>();
    case DataType::kInt32: return visitor.template operator()<DataType::kInt32>();
    case DataType::kUint32: return visitor.template operator()<DataType::kUint32>();
    case DataType::kInt64: return visitor.template operator()<DataType::kInt64>();
    case DataType::kUint64: return visitor.template operator()<DataType::kUint64>();
    case DataType::kFloat16: return visitor.template operator()<DataType::kFloat16>();
    case DataType::kBfloat16: return visitor.template operator()<DataType::kBfloat16>();
    case DataType::kFloat32: return visitor.template operator()<DataType::kFloat32>();
    case DataType::kFloat64: return visitor.template operator()<DataType::kFloat64>();
    case DataType::kFloat8e4m3: return visitor.template operator()<DataType::kFloat8e4m3>();
    case DataType::kFloat8e5m2: return visitor.template operator()<DataType::kFloat8e5m2>();
  }
}

}  // namespace

void toFloat32(DataType type, const void* source, float* destination, size_t count) {
  visitType(type, [=]<DataType kType>() {
    for (size_t i = 0; i < count; ++i) storeAt(destination, i, elementToFloat32<kType>(source, i));
  });
}

void fromFloat32(DataType type, const float* source, void* destination, size_t count) {
  visitType(type, [=]<DataType kType>() {
    for (size_t i = 0; i < count; ++i)
      elementFromFloat32<kType>(loadAt<float>(source, i), destination, i);
  });
}

}  // namespace omnes::kernels
