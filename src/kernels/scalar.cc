// The scalar reference: one element at a time, written for clarity. It defines the bits that every
// SIMD body must give.
#include <concepts>
#include <type_traits>

#include "kernels/formats.h"
#include "kernels/kernels.h"

namespace omnes::kernels {
namespace {

using base::DataType;
using base::ReduceOp;

constexpr bool isSmallFloat(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kFloat8e4m3 || type == DataType::kFloat8e5m2;
}
constexpr bool isMinMax(ReduceOp op) { return op == ReduceOp::kMin || op == ReduceOp::kMax; }

// The type of the accumulator; equals base::wireType().
template <DataType kType, ReduceOp kOp, typename Bits = typename Element<kType>::Bits>
using Accumulator = std::conditional_t<
    isSmallFloat(kType), std::conditional_t<isMinMax(kOp), Bits, float>,
    std::conditional_t<std::is_integral_v<Bits> && kOp == ReduceOp::kAvg,
                       std::conditional_t<std::is_signed_v<Bits>, int64_t, uint64_t>, Bits>>;

// Integers wrap: the arithmetic is done unsigned, and wide enough that no promotion to int can
// overflow.
template <std::integral T>
T wrapAdd(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <std::integral T>
T wrapMul(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <std::floating_point T>
T wrapAdd(T a, T b) {
  return a + b;
}
template <std::floating_point T>
T wrapMul(T a, T b) {
  return a * b;
}

// Floats are ordered by an integer key: -Inf < ... < -0 < +0 < ... < +Inf. NaN takes the end that
// wins.
template <DataType kType, ReduceOp kOp>
struct FloatOrder {
  using Stored = typename Element<kType>::Bits;
  using Word = std::conditional_t<
      sizeof(Stored) == 1, uint8_t,
      std::conditional_t<sizeof(Stored) == 2, uint16_t,
                         std::conditional_t<sizeof(Stored) == 4, uint32_t, uint64_t>>>;
  using Key = std::make_signed_t<Word>;
  static constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
  static constexpr Key kNanKey =
      kOp == ReduceOp::kMax ? static_cast<Key>(kMagnitude) : static_cast<Key>(~kMagnitude);

  static constexpr Word lastNumber() {
    if constexpr (kType == DataType::kFloat32)
      return kInfF32;
    else if constexpr (kType == DataType::kFloat64)
      return kInfF64;
    else
      return static_cast<Word>(Element<kType>::Format::kLastNumber);
  }
  static constexpr Word nan() {
    if constexpr (kType == DataType::kFloat32)
      return kNanF32;
    else if constexpr (kType == DataType::kFloat64)
      return kNanF64;
    else
      return static_cast<Word>(Element<kType>::Format::kNan);
  }
  static Key keyOf(Stored value) {
    const Word bits = std::bit_cast<Word>(value);
    if ((bits & kMagnitude) > lastNumber()) return kNanKey;
    return static_cast<Key>((bits & ~kMagnitude) != 0 ? bits ^ kMagnitude : bits);
  }
  static Stored valueOf(Key key) {
    if (key == kNanKey) return std::bit_cast<Stored>(nan());
    const Word bits = static_cast<Word>(key);
    return std::bit_cast<Stored>(static_cast<Word>(key < 0 ? bits ^ kMagnitude : bits));
  }
};

template <DataType kType, ReduceOp kOp>
struct ScalarKernel {
  using Bits = typename Element<kType>::Bits;
  using Acc = Accumulator<kType, kOp>;
  static constexpr bool kFloat = isSmallFloat(kType) || std::is_floating_point_v<Bits>;

  static Acc widenInput(Bits value) {
    if constexpr (isSmallFloat(kType) && !isMinMax(kOp))
      return widen<typename Element<kType>::Format>(value);
    else
      return static_cast<Acc>(value);
  }

  static Acc combine(Acc a, Acc b) {
    if constexpr (isMinMax(kOp) && kFloat) {
      using Order = FloatOrder<kType, kOp>;
      const auto keyA = Order::keyOf(a);
      const auto keyB = Order::keyOf(b);
      if constexpr (kOp == ReduceOp::kMax)
        return Order::valueOf(keyA > keyB ? keyA : keyB);
      else
        return Order::valueOf(keyA < keyB ? keyA : keyB);
    } else if constexpr (kOp == ReduceOp::kMax) {
      return a > b ? a : b;
    } else if constexpr (kOp == ReduceOp::kMin) {
      return a < b ? a : b;
    } else if constexpr (kOp == ReduceOp::kProd) {
      return wrapMul(a, b);
    } else if constexpr (kOp == ReduceOp::kBand) {
      return static_cast<Acc>(a & b);
    } else if constexpr (kOp == ReduceOp::kBor) {
      return static_cast<Acc>(a | b);
    } else if constexpr (kOp == ReduceOp::kBxor) {
      return static_cast<Acc>(a ^ b);
    } else {
      return wrapAdd(a, b);
    }
  }

  static Acc load(const Source& source, size_t index, Acc factor) {
    if (source.mark == Mark::kPartial) return loadAt<Acc>(source.data, index);
    const Acc value = widenInput(loadAt<Bits>(source.data, index));
    if constexpr (kOp == ReduceOp::kPreMulSum) return wrapMul(value, factor);
    return value;
  }

  static Acc canonicalPartial(Acc value) {
    if constexpr (isMinMax(kOp) && kFloat) {
      using Order = FloatOrder<kType, kOp>;
      return Order::valueOf(Order::keyOf(value));
    } else if constexpr (std::is_floating_point_v<Acc>) {
      return canonical(value);
    } else {
      return value;
    }
  }

  static Bits finish(Acc value, uint32_t nranks) {
    if constexpr (kOp == ReduceOp::kAvg) value = static_cast<Acc>(value / static_cast<Acc>(nranks));
    if constexpr (isSmallFloat(kType) && !isMinMax(kOp))
      return narrow<typename Element<kType>::Format>(value);
    else
      return static_cast<Bits>(canonicalPartial(value));
  }

  static void run(const Reduction& reduction, const Source* sources, size_t sourceCount,
                  const Sink* sinks, size_t sinkCount, size_t count) {
    Acc factor{};
    if constexpr (kOp == ReduceOp::kPreMulSum)
      factor = widenInput(loadAt<Bits>(&reduction.scalarBits, 0));
    for (size_t i = 0; i < count; ++i) {
      Acc acc = load(sources[0], i, factor);
      for (size_t s = 1; s < sourceCount; ++s) acc = combine(acc, load(sources[s], i, factor));
      for (size_t s = 0; s < sinkCount; ++s) {
        if (sinks[s].mark == Mark::kPartial)
          storeAt<Acc>(sinks[s].data, i, canonicalPartial(acc));
        else
          storeAt<Bits>(sinks[s].data, i, finish(acc, reduction.nranks));
      }
    }
  }
};

template <DataType kType>
ReduceFunction selectOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return ScalarKernel<kType, ReduceOp::kSum>::run;
    case ReduceOp::kProd: return ScalarKernel<kType, ReduceOp::kProd>::run;
    case ReduceOp::kMax: return ScalarKernel<kType, ReduceOp::kMax>::run;
    case ReduceOp::kMin: return ScalarKernel<kType, ReduceOp::kMin>::run;
    case ReduceOp::kAvg: return ScalarKernel<kType, ReduceOp::kAvg>::run;
    case ReduceOp::kPreMulSum: return ScalarKernel<kType, ReduceOp::kPreMulSum>::run;
    default: break;
  }
  if constexpr (std::is_void_v<typename Element<kType>::Format> &&
                std::is_integral_v<typename Element<kType>::Bits>) {
    switch (op) {
      case ReduceOp::kBand: return ScalarKernel<kType, ReduceOp::kBand>::run;
      case ReduceOp::kBor: return ScalarKernel<kType, ReduceOp::kBor>::run;
      case ReduceOp::kBxor: return ScalarKernel<kType, ReduceOp::kBxor>::run;
      default: break;
    }
  }
  return nullptr;
}

}  // namespace

ReduceFunction scalarReduce(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kInt8: return selectOp<DataType::kInt8>(op);
    case DataType::kUint8: return selectOp<DataType::kUint8>(op);
    case DataType::kInt16: return selectOp<DataType::kInt16>(op);
    case DataType::kUint16: return selectOp<DataType::kUint16>(op);
    case DataType::kInt32: return selectOp<DataType::kInt32>(op);
    case DataType::kUint32: return selectOp<DataType::kUint32>(op);
    case DataType::kInt64: return selectOp<DataType::kInt64>(op);
    case DataType::kUint64: return selectOp<DataType::kUint64>(op);
    case DataType::kFloat16: return selectOp<DataType::kFloat16>(op);
    case DataType::kBfloat16: return selectOp<DataType::kBfloat16>(op);
    case DataType::kFloat32: return selectOp<DataType::kFloat32>(op);
    case DataType::kFloat64: return selectOp<DataType::kFloat64>(op);
    case DataType::kFloat8e4m3: return selectOp<DataType::kFloat8e4m3>(op);
    case DataType::kFloat8e5m2: return selectOp<DataType::kFloat8e5m2>(op);
  }
  return nullptr;
}

}  // namespace omnes::kernels
