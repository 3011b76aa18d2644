// Averages of integers up to 32 bits: summed in 64 bits, divided once, truncating toward zero.
// Plain loops over a tile that stays in L1; the compiler vectorises them for each instruction set.
#include <cstring>
#include <type_traits>

#include "kernels/formats.h"
#include "kernels/simd_select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_int_avg.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "kernels/simd_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

using base::DataType;
using base::ReduceOp;

inline constexpr size_t kTile = 512;

template <typename T, typename Acc>
HWY_INLINE void addToTile(Acc* HWY_RESTRICT tile, const uint8_t* HWY_RESTRICT source,
                          size_t count) {
  for (size_t i = 0; i < count; ++i) {
    tile[i] = static_cast<Acc>(static_cast<uint64_t>(tile[i]) +
                               static_cast<uint64_t>(loadAt<T>(source, i)));
  }
}

// Whether every lane fits an int32: then a double holds it exactly, and so the rounded quotient
// truncates to the true one (a/b is at least 1/b away from the next integer, far more than half a
// unit of the 53rd bit).
template <typename Acc>
HWY_INLINE bool fitsInt32(const Acc* tile, size_t count) {
  uint64_t high = 0;
  for (size_t i = 0; i < count; ++i) high |= static_cast<uint64_t>(tile[i]) + 0x80000000u;
  return high >> 32 == 0;
}

template <typename T, typename Acc>
HWY_INLINE void divideTile(const Acc* HWY_RESTRICT tile, uint8_t* HWY_RESTRICT sink, size_t count,
                           uint32_t nranks) {
  if (fitsInt32(tile, count)) {
    const double divisor = nranks;
    for (size_t i = 0; i < count; ++i) {
      const double sum = static_cast<double>(static_cast<int32_t>(tile[i]));
      storeAt<T>(sink, i, static_cast<T>(static_cast<int32_t>(sum / divisor)));
    }
  } else {
    for (size_t i = 0; i < count; ++i)
      storeAt<T>(sink, i, static_cast<T>(tile[i] / static_cast<Acc>(nranks)));
  }
}

template <typename T>
void averageIntegers(const Reduction& reduction, const Source* sources, size_t sourceCount,
                     const Sink* sinks, size_t sinkCount, size_t count) {
  using Acc = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  alignas(64) Acc tile[kTile];
  for (size_t begin = 0; begin < count; begin += kTile) {
    const size_t part = HWY_MIN(kTile, count - begin);
    std::memset(tile, 0, sizeof(tile));
    for (size_t s = 0; s < sourceCount; ++s) {
      const auto* data = static_cast<const uint8_t*>(sources[s].data);
      if (sources[s].mark == Mark::kPartial)
        addToTile<Acc>(tile, data + begin * sizeof(Acc), part);
      else
        addToTile<T>(tile, data + begin * sizeof(T), part);
    }
    for (size_t s = 0; s < sinkCount; ++s) {
      auto* data = static_cast<uint8_t*>(sinks[s].data);
      // Non-temporal is a hint, and this is bound by the division.
      if (sinks[s].mark == Mark::kPartial)
        std::memcpy(data + begin * sizeof(Acc), tile, part * sizeof(Acc));
      else
        divideTile<T>(tile, data + begin * sizeof(T), part, reduction.nranks);
    }
  }
}

ReduceFunction chooseIntegerAverage(DataType type, ReduceOp) {
  switch (type) {
    case DataType::kInt8: return averageIntegers<int8_t>;
    case DataType::kUint8: return averageIntegers<uint8_t>;
    case DataType::kInt16: return averageIntegers<int16_t>;
    case DataType::kUint16: return averageIntegers<uint16_t>;
    case DataType::kInt32: return averageIntegers<int32_t>;
    case DataType::kUint32: return averageIntegers<uint32_t>;
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace omnes::kernels {

HWY_EXPORT(chooseIntegerAverage);
ReduceFunction simdReduceIntegerAverage(base::DataType type, base::ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(chooseIntegerAverage)(type, op);
}

}  // namespace omnes::kernels
#endif  // HWY_ONCE
