// What the lane policies of the 8- and 16-bit floats share (accumulated in float32, rounded once at
// an input sink), and the 16-bit ones. The conversions follow formats.h step by step; where an
// instruction set converts exactly as IEEE says, it is used.
#if defined(OMNES_KERNELS_LANES_SMALL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OMNES_KERNELS_LANES_SMALL_INL_H_
#undef OMNES_KERNELS_LANES_SMALL_INL_H_
#else
#define OMNES_KERNELS_LANES_SMALL_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/formats.h"
#include "kernels/lanes_word-inl.h"
#include "kernels/simd_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

using DF32 = hn::ScalableTag<float>;
using DI32 = hn::ScalableTag<int32_t>;
using DU32 = hn::ScalableTag<uint32_t>;
using DU16 = hn::ScalableTag<uint16_t>;
using VF32 = hn::VFromD<DF32>;
using VI32 = hn::VFromD<DI32>;
using VU32 = hn::VFromD<DU32>;
using VU16 = hn::VFromD<DU16>;

HWY_INLINE VI32 asInt(VF32 v) { return hn::BitCast(DI32(), v); }
HWY_INLINE VF32 asFloat(VI32 v) { return hn::BitCast(DF32(), v); }
HWY_INLINE VI32 setInt(uint32_t bits) { return hn::Set(DI32(), static_cast<int32_t>(bits)); }

// widen() of formats.h on zero-extended codes. A NaN comes out as some NaN: sinks make it
// canonical.
template <class Format>
HWY_INLINE VF32 widenCodes(VI32 codes) {
  constexpr int kShift = 23 - Format::kManBits;
  const VI32 sign = hn::ShiftLeft<32 - Format::kBits>(hn::And(codes, setInt(Format::kSignBit)));
  const VI32 magnitude = hn::And(codes, setInt(Format::kSignBit - 1));
  const VI32 shifted = hn::ShiftLeft<kShift>(magnitude);
  const VI32 rebiased = hn::Add(shifted, setInt(static_cast<uint32_t>(127 - Format::kBias) << 23));
  const VI32 minNormal = setInt(Format::kMinNormalF32);
  const VI32 subnormal = asInt(hn::Sub(asFloat(hn::Add(shifted, minNormal)), asFloat(minNormal)));
  VI32 value =
      hn::IfThenElse(hn::Gt(setInt(1u << Format::kManBits), magnitude), subnormal, rebiased);
  if constexpr (Format::kHasInf) {
    // The exponent field of infinity and NaN becomes all ones.
    const VI32 special = hn::Or(shifted, setInt(kInfF32));
    value = hn::IfThenElse(hn::Gt(magnitude, setInt(Format::kMaxFinite)), special, value);
  } else {
    value = hn::IfThenElse(hn::Gt(magnitude, setInt(Format::kLastNumber)), setInt(kNanF32), value);
  }
  return asFloat(hn::Or(value, sign));
}

// narrow() of formats.h; codes in the low bits, zero-extended.
template <class Format>
HWY_INLINE VI32 narrowCodes(VF32 x) {
  const VI32 bits = asInt(x);
  const VI32 sign =
      hn::And(hn::BitCast(DI32(), hn::ShiftRight<32 - Format::kBits>(hn::BitCast(DU32(), bits))),
              setInt(Format::kSignBit));
  const VI32 magnitude = hn::And(bits, setInt(kMagnitudeF32));
  const VI32 clamped = hn::Min(magnitude, setInt(Format::kClampF32));
  const VI32 exponent = hn::Max(hn::And(clamped, setInt(kInfF32)), setInt(Format::kMinNormalF32));
  const VI32 sum =
      asInt(hn::Add(asFloat(clamped), asFloat(hn::Add(exponent, setInt(Format::kRoundingStep)))));
  // sum's high field is a non-negative float's, so the arithmetic shift is as good as the logical
  // one.
  const VI32 significand = hn::And(sum, setInt(0x1fff));
  VI32 code = hn::Sub(hn::Add(hn::ShiftRight<23 - Format::kManBits>(sum), significand),
                      setInt(Format::kRebias));
  code = hn::Or(code, sign);
  if constexpr (Format::kHasInf && Format::kSaturates) {
    code = hn::IfThenElse(hn::Eq(magnitude, setInt(kInfF32)), hn::Or(sign, setInt(Format::kInf)),
                          code);
  }
  return hn::IfThenElse(hn::Gt(magnitude, setInt(kInfF32)), setInt(Format::kNan), code);
}

// Arithmetic on kVectors float32 vectors; Derived adds the layout:
//   Group loadInput(p), loadPartial(p); storeRounded<stream>(Group, p), storePartial<stream>(Group,
//   p)
template <class Derived, typename BitsType, class Format, size_t kVectors, Arithmetic kArithmetic>
class SmallFloatLanes {
 public:
  using In = BitsType;
  using Acc = float;
  static constexpr size_t kLanes = HWY_LANES(BitsType);
  struct Group {
    VF32 v[kVectors];
  };

  explicit HWY_INLINE SmallFloatLanes(const Reduction& reduction)
      : scales_(reduction.op == base::ReduceOp::kPreMulSum),
        divides_(reduction.op == base::ReduceOp::kAvg),
        factor_(widen<Format>(loadAt<BitsType>(&reduction.scalarBits, 0))),
        divisor_(static_cast<float>(reduction.nranks)) {}

  HWY_INLINE bool scales() const { return scales_; }
  HWY_INLINE void scale(Group& group) const {
    for (VF32& v : group.v) v = hn::Mul(v, hn::Set(DF32(), factor_));
  }
  static HWY_INLINE void combine(Group& acc, const Group& next) {
    for (size_t i = 0; i < kVectors; ++i) {
      acc.v[i] = kArithmetic == Arithmetic::kMul ? hn::Mul(acc.v[i], next.v[i])
                                                 : hn::Add(acc.v[i], next.v[i]);
    }
  }
  template <bool kStream>
  HWY_INLINE void storeInput(const Group& group, uint8_t* p) const {
    if (HWY_UNLIKELY(divides_)) {
      Group quotient;
      for (size_t i = 0; i < kVectors; ++i)
        quotient.v[i] = hn::Div(group.v[i], hn::Set(DF32(), divisor_));
      Derived::template storeRounded<kStream>(quotient, p);
    } else {
      Derived::template storeRounded<kStream>(group, p);
    }
  }

 private:
  bool scales_;
  bool divides_;
  float factor_;
  float divisor_;
};

// Partials of a policy whose vectors are in memory order.
template <size_t kVectors>
struct OrderedPartials {
  static HWY_INLINE void load(const uint8_t* p, VF32 (&to)[kVectors]) {
    for (size_t i = 0; i < kVectors; ++i) to[i] = loadBytes(DF32(), p + i * kVectorBytes);
  }
  template <bool kStream>
  static HWY_INLINE void store(const VF32 (&from)[kVectors], uint8_t* p) {
    for (size_t i = 0; i < kVectors; ++i) {
      storeBytes<kStream>(DF32(), canonicalNan(DF32(), from[i]), p + i * kVectorBytes);
    }
  }
};

// ---- bfloat16 ----

// A bfloat16 is the upper half of a float32. Even elements go to v[0] and odd ones to v[1]: a shift
// and a mask instead of shuffles, on the way in and on the way out. Only partials need shuffles.
template <Arithmetic kArithmetic>
class Bfloat16Lanes
    : public SmallFloatLanes<Bfloat16Lanes<kArithmetic>, uint16_t, Bfloat16Format, 2, kArithmetic> {
  using Base =
      SmallFloatLanes<Bfloat16Lanes<kArithmetic>, uint16_t, Bfloat16Format, 2, kArithmetic>;

 public:
  using typename Base::Group;
  static constexpr size_t kUnroll = 2;
  explicit HWY_INLINE Bfloat16Lanes(const Reduction& reduction) : Base(reduction) {}

  static HWY_INLINE Group loadInput(const uint8_t* p) {
    const VU32 pair = loadBytes(DU32(), p);
    Group group;
    group.v[0] = hn::BitCast(DF32(), hn::ShiftLeft<16>(pair));
    group.v[1] = hn::BitCast(DF32(), hn::And(pair, hn::Set(DU32(), 0xffff0000u)));
    return group;
  }
  static HWY_INLINE Group loadPartial(const uint8_t* p) {
    const VF32 first = loadBytes(DF32(), p);
    const VF32 second = loadBytes(DF32(), p + kVectorBytes);
    Group group;
    group.v[0] = hn::ConcatEven(DF32(), second, first);
    group.v[1] = hn::ConcatOdd(DF32(), second, first);
    return group;
  }
  template <bool kStream>
  static HWY_INLINE void storeRounded(const Group& group, uint8_t* p) {
    const VU32 even = hn::ShiftRight<16>(rounded(group.v[0]));
    const VU32 odd = hn::And(rounded(group.v[1]), hn::Set(DU32(), 0xffff0000u));
    storeBytes<kStream>(DU32(), hn::Or(even, odd), p);
  }
  template <bool kStream>
  static HWY_INLINE void storePartial(const Group& group, uint8_t* p) {
    alignas(kLineBytes) float lanes[2 * HWY_LANES(float)];
    hn::StoreInterleaved2(canonicalNan(DF32(), group.v[0]), canonicalNan(DF32(), group.v[1]),
                          DF32(), lanes);
    storeBytes<kStream>(DF32(), hn::Load(DF32(), lanes), p);
    storeBytes<kStream>(DF32(), hn::Load(DF32(), lanes + HWY_LANES(float)), p + kVectorBytes);
  }

 private:
  // Nearest-even at bit 16; the result is in the upper half, the lower half is left over.
  static HWY_INLINE VU32 rounded(VF32 x) {
    const VU32 bits = hn::BitCast(DU32(), x);
    const VU32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(DU32(), 1));
    const VU32 sum = hn::Add(hn::Add(bits, hn::Set(DU32(), 0x7fff)), odd);
    const VF32 nan = hn::BitCast(DF32(), hn::Set(DU32(), kNanF32));
    return hn::BitCast(DU32(), hn::IfThenElse(hn::Eq(x, x), hn::BitCast(DF32(), sum), nan));
  }
};

// ---- float16 ----

// As many 16- or 8-bit words as a float32 vector has lanes.
using DHalf16 = hn::Rebind<uint16_t, DI32>;
using DQuarter8 = hn::Rebind<uint8_t, DI32>;

// The x86 conversion instructions are exact, subnormals and nearest-even included. They are several
// times as fast as the integer form, which the other instruction sets use (7.8 against
// 42 GB/s of one operand, two sources in L2, AVX-512).
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
HWY_INLINE VF32 widenFloat16(hn::VFromD<DHalf16> codes) {
#if HWY_TARGET == HWY_AVX2
  return VF32{_mm256_cvtph_ps(codes.raw)};
#else
  return VF32{_mm512_cvtph_ps(codes.raw)};
#endif
}
HWY_INLINE hn::VFromD<DHalf16> narrowFloat16(VF32 x) {
  const VF32 v = canonicalNan(DF32(), x);
#if HWY_TARGET == HWY_AVX2
  return hn::VFromD<DHalf16>{_mm256_cvtps_ph(v.raw, _MM_FROUND_TO_NEAREST_INT)};
#else
  return hn::VFromD<DHalf16>{_mm512_cvtps_ph(v.raw, _MM_FROUND_TO_NEAREST_INT)};
#endif
}
#else
HWY_INLINE VF32 widenFloat16(hn::VFromD<DHalf16> codes) {
  return widenCodes<Float16Format>(hn::PromoteTo(DI32(), codes));
}
HWY_INLINE hn::VFromD<DHalf16> narrowFloat16(VF32 x) {
  return hn::DemoteTo(DHalf16(), narrowCodes<Float16Format>(x));
}
#endif

template <Arithmetic kArithmetic>
class Float16Lanes
    : public SmallFloatLanes<Float16Lanes<kArithmetic>, uint16_t, Float16Format, 2, kArithmetic> {
  using Base = SmallFloatLanes<Float16Lanes<kArithmetic>, uint16_t, Float16Format, 2, kArithmetic>;

 public:
  using typename Base::Group;
  static constexpr size_t kUnroll = 2;
  explicit HWY_INLINE Float16Lanes(const Reduction& reduction) : Base(reduction) {}

  static HWY_INLINE Group loadInput(const uint8_t* p) {
    Group group;
    group.v[0] = widenFloat16(loadBytes(DHalf16(), p));
    group.v[1] = widenFloat16(loadBytes(DHalf16(), p + kVectorBytes / 2));
    return group;
  }
  static HWY_INLINE Group loadPartial(const uint8_t* p) {
    Group group;
    OrderedPartials<2>::load(p, group.v);
    return group;
  }
  template <bool kStream>
  static HWY_INLINE void storeRounded(const Group& group, uint8_t* p) {
    const auto low = narrowFloat16(group.v[0]);
    const auto high = narrowFloat16(group.v[1]);
    if constexpr (kStream) {
      storeBytes<true>(DU16(), hn::Combine(DU16(), high, low), p);  // only whole vectors can be
    } else {
      storeBytes<false>(DHalf16(), low, p);
      storeBytes<false>(DHalf16(), high, p + kVectorBytes / 2);
    }
  }
  template <bool kStream>
  static HWY_INLINE void storePartial(const Group& group, uint8_t* p) {
    OrderedPartials<2>::template store<kStream>(group.v, p);
  }
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#endif  // toggle
