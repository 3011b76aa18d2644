// Lane policies of the types whose accumulator is the element itself: float32, float64, integers,
// and every minimum and maximum. One vector a group. See simd_loop-inl.h for what a policy is.
#if defined(OMNES_KERNELS_LANES_WORD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OMNES_KERNELS_LANES_WORD_INL_H_
#undef OMNES_KERNELS_LANES_WORD_INL_H_
#else
#define OMNES_KERNELS_LANES_WORD_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/formats.h"
#include "kernels/simd_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// What a one-vector policy shares: a partial is stored as an element is.
template <typename T>
struct WordLanes {
  using In = T;
  using Acc = T;
  using D = hn::ScalableTag<T>;
  using Group = hn::VFromD<D>;
  static constexpr size_t kLanes = HWY_LANES(T);
  static constexpr size_t kUnroll = 4;

  static HWY_INLINE Group loadInput(const uint8_t* p) { return loadBytes(D(), p); }
  static HWY_INLINE Group loadPartial(const uint8_t* p) { return loadBytes(D(), p); }
};

// ---- float32 and float64 ----

template <class D>
HWY_INLINE hn::VFromD<D> canonicalNan(D d, hn::VFromD<D> v) {
  using T = hn::TFromD<D>;
  T nan;
  if constexpr (sizeof(T) == 4)
    nan = std::bit_cast<T>(kNanF32);
  else
    nan = std::bit_cast<T>(kNanF64);
  return hn::IfThenElse(hn::Eq(v, v), v, hn::Set(d, nan));
}

enum class Arithmetic { kAdd, kMul };

// Sum, average and pre-multiplied sum (kAdd), product (kMul). Products and sums are separate
// operations: the build forbids contraction, and so does the order of rounding that
// docs/numerics.md states.
template <typename T, Arithmetic kArithmetic>
class FloatLanes : public WordLanes<T> {
 public:
  using typename WordLanes<T>::D;
  using typename WordLanes<T>::Group;

  explicit HWY_INLINE FloatLanes(const Reduction& reduction)
      : scales_(reduction.op == base::ReduceOp::kPreMulSum),
        divides_(reduction.op == base::ReduceOp::kAvg),
        factor_(loadAt<T>(&reduction.scalarBits, 0)),
        divisor_(static_cast<T>(reduction.nranks)) {}

  HWY_INLINE bool scales() const { return scales_; }
  HWY_INLINE void scale(Group& group) const { group = hn::Mul(group, hn::Set(D(), factor_)); }
  static HWY_INLINE void combine(Group& acc, Group next) {
    acc = kArithmetic == Arithmetic::kMul ? hn::Mul(acc, next) : hn::Add(acc, next);
  }
  template <bool kStream>
  HWY_INLINE void storeInput(Group group, uint8_t* p) const {
    if (HWY_UNLIKELY(divides_)) group = hn::Div(group, hn::Set(D(), divisor_));
    storeBytes<kStream>(D(), canonicalNan(D(), group), p);
  }
  template <bool kStream>
  HWY_INLINE void storePartial(Group group, uint8_t* p) const {
    storeBytes<kStream>(D(), canonicalNan(D(), group), p);
  }

 private:
  bool scales_;
  bool divides_;
  T factor_;
  T divisor_;
};

// ---- integers ----
// Always unsigned: wrapping sums, products and bit operations do not know the sign.

// Highway has no 8-bit multiplication on every target of its older versions, and its 64-bit one
// differs between them.
template <class D>
HWY_INLINE hn::VFromD<D> wrapMul(D d, hn::VFromD<D> a, hn::VFromD<D> b) {
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    const hn::RepartitionToWide<D> wide;
    const auto a16 = hn::BitCast(wide, a);
    const auto b16 = hn::BitCast(wide, b);
    const auto low = hn::And(hn::Mul(a16, b16), hn::Set(wide, 0x00ff));
    const auto high = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
    return hn::BitCast(d, hn::Or(low, high));
  } else if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const hn::RepartitionToNarrow<D> half;
    const auto a32 = hn::BitCast(half, a);
    const auto b32 = hn::BitCast(half, b);
    const auto aHigh = hn::BitCast(half, hn::ShiftRight<32>(a));
    const auto bHigh = hn::BitCast(half, hn::ShiftRight<32>(b));
    const auto cross =
        hn::Add(hn::BitCast(d, hn::MulEven(a32, bHigh)), hn::BitCast(d, hn::MulEven(aHigh, b32)));
    return hn::Add(hn::BitCast(d, hn::MulEven(a32, b32)), hn::ShiftLeft<32>(cross));
  } else {
    return hn::Mul(a, b);
  }
}

enum class IntegerOp { kAdd, kMul, kAnd, kOr, kXor };

template <typename T, IntegerOp kOp>
class IntegerLanes : public WordLanes<T> {
 public:
  using typename WordLanes<T>::D;
  using typename WordLanes<T>::Group;

  // Averages reach this policy only with 64-bit types; the shorter ones are accumulated wide
  // (reduce_int_avg.cc).
  explicit HWY_INLINE IntegerLanes(const Reduction& reduction)
      : scales_(reduction.op == base::ReduceOp::kPreMulSum),
        divides_(reduction.op == base::ReduceOp::kAvg),
        signed_(reduction.type == base::DataType::kInt64),
        nranks_(reduction.nranks),
        factor_(loadAt<T>(&reduction.scalarBits, 0)) {}

  HWY_INLINE bool scales() const { return scales_; }
  HWY_INLINE void scale(Group& group) const { group = wrapMul(D(), group, hn::Set(D(), factor_)); }
  static HWY_INLINE void combine(Group& acc, Group next) {
    if constexpr (kOp == IntegerOp::kAdd)
      acc = hn::Add(acc, next);
    else if constexpr (kOp == IntegerOp::kMul)
      acc = wrapMul(D(), acc, next);
    else if constexpr (kOp == IntegerOp::kAnd)
      acc = hn::And(acc, next);
    else if constexpr (kOp == IntegerOp::kOr)
      acc = hn::Or(acc, next);
    else
      acc = hn::Xor(acc, next);
  }
  template <bool kStream>
  HWY_INLINE void storeInput(Group group, uint8_t* p) const {
    if constexpr (sizeof(T) == 8 && kOp == IntegerOp::kAdd) {
      if (HWY_UNLIKELY(divides_)) group = divided(group);
    }
    storeBytes<kStream>(D(), group, p);
  }
  template <bool kStream>
  HWY_INLINE void storePartial(Group group, uint8_t* p) const {
    storeBytes<kStream>(D(), group, p);
  }

 private:
  // No instruction set divides integer vectors.
  HWY_NOINLINE Group divided(Group group) const {
    alignas(kLineBytes) T lanes[WordLanes<T>::kLanes];
    hn::Store(group, D(), lanes);
    for (T& lane : lanes) {
      lane = signed_ ? static_cast<T>(static_cast<int64_t>(lane) / static_cast<int64_t>(nranks_))
                     : lane / nranks_;
    }
    return hn::Load(D(), lanes);
  }

  bool scales_;
  bool divides_;
  bool signed_;
  uint32_t nranks_;
  T factor_;
};

template <typename T, bool kMax>
class IntegerOrderLanes : public WordLanes<T> {
 public:
  using typename WordLanes<T>::D;
  using typename WordLanes<T>::Group;

  explicit HWY_INLINE IntegerOrderLanes(const Reduction&) {}
  static constexpr bool scales() { return false; }
  static HWY_INLINE void scale(Group&) {}
  static HWY_INLINE void combine(Group& acc, Group next) {
    acc = kMax ? hn::Max(acc, next) : hn::Min(acc, next);
  }
  template <bool kStream>
  HWY_INLINE void storeInput(Group group, uint8_t* p) const {
    storeBytes<kStream>(D(), group, p);
  }
  template <bool kStream>
  HWY_INLINE void storePartial(Group group, uint8_t* p) const {
    storeBytes<kStream>(D(), group, p);
  }
};

// ---- minimum and maximum of floats ----

// Works on the signed integer of the element's width (T) with an order-preserving key: the sign bit
// is kept and the magnitude of negative numbers is inverted, so -0 comes just before +0. NaN takes
// the end of the key range that wins. kLastNumber: magnitudes above it are NaN. kNan: the canonical
// NaN.
template <typename T, bool kMax, std::make_unsigned_t<T> kLastNumber, std::make_unsigned_t<T> kNan>
class FloatOrderLanes : public WordLanes<T> {
 public:
  using typename WordLanes<T>::D;
  using typename WordLanes<T>::Group;
  static constexpr T kMagnitude = hwy::LimitsMax<T>();
  static constexpr T kNanKey = kMax ? hwy::LimitsMax<T>() : hwy::LimitsMin<T>();

  explicit HWY_INLINE FloatOrderLanes(const Reduction&) {}
  static constexpr bool scales() { return false; }
  static HWY_INLINE void scale(Group&) {}

  static HWY_INLINE Group loadInput(const uint8_t* p) {
    const Group bits = loadBytes(D(), p);
    const auto nan =
        hn::Gt(hn::And(bits, hn::Set(D(), kMagnitude)), hn::Set(D(), static_cast<T>(kLastNumber)));
    return hn::IfThenElse(nan, hn::Set(D(), kNanKey), inverted(bits));
  }
  static HWY_INLINE Group loadPartial(const uint8_t* p) { return loadInput(p); }
  static HWY_INLINE void combine(Group& acc, Group next) {
    acc = kMax ? hn::Max(acc, next) : hn::Min(acc, next);
  }
  template <bool kStream>
  HWY_INLINE void storeInput(Group key, uint8_t* p) const {
    const auto nan = hn::Eq(key, hn::Set(D(), kNanKey));
    storeBytes<kStream>(D(), hn::IfThenElse(nan, hn::Set(D(), static_cast<T>(kNan)), inverted(key)),
                        p);
  }
  template <bool kStream>
  HWY_INLINE void storePartial(Group key, uint8_t* p) const {
    storeInput<kStream>(key, p);
  }

 private:
  // Its own inverse.
  static HWY_INLINE Group inverted(Group v) {
    return hn::Xor(v, hn::And(hn::BroadcastSignBit(v), hn::Set(D(), kMagnitude)));
  }
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#endif  // toggle
