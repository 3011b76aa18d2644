// Lane policies of the 8-bit floats: byte tables where the machine permutes bytes across a vector
// (AVX3_DL), by way of float16 where it converts those (AVX2, AVX3), else integer arithmetic.
#if defined(OMNES_KERNELS_LANES_FLOAT8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OMNES_KERNELS_LANES_FLOAT8_INL_H_
#undef OMNES_KERNELS_LANES_FLOAT8_INL_H_
#else
#define OMNES_KERNELS_LANES_FLOAT8_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/float8_tables.h"
#include "kernels/formats.h"
#include "kernels/lanes_small-inl.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3_DL

HWY_INLINE __m512i loadTable(const uint8_t* table) { return _mm512_load_si512(table); }

// One byte of each of 64 lanes, in order. `pattern` picks 32 bytes out of two vectors.
HWY_INLINE __m512i gatherBytes(const BytePattern& pattern, VI32 a, VI32 b, VI32 c, VI32 d) {
  const __m512i at = loadTable(pattern.at);
  const __m512i first = _mm512_permutex2var_epi8(a.raw, at, b.raw);
  const __m512i second = _mm512_permutex2var_epi8(c.raw, at, d.raw);
  return _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1);
}

// value | (sign & 0x80) in every byte.
HWY_INLINE __m512i withSign(__m512i value, __m512i sign) {
  return _mm512_ternarylogic_epi32(value, sign, _mm512_set1_epi8(-128), 0xf8);
}

// Two lookups give the upper and the lower byte of 64 bfloat16 values at once (the instruction
// ignores the sign bit of a code), four more permutations spread the pairs over float32 lanes.
template <class Format>
HWY_INLINE void widenFloat8(const uint8_t* p, VF32 (&to)[4]) {
  const Float8Tables& tables = kFloat8Tables<Format>;
  const __m512i codes = _mm512_loadu_si512(p);
  const __m512i low =
      _mm512_permutex2var_epi8(loadTable(tables.low), codes, loadTable(tables.low + 64));
  const __m512i magnitude =
      _mm512_permutex2var_epi8(loadTable(tables.high), codes, loadTable(tables.high + 64));
  const __m512i high = withSign(magnitude, codes);
  constexpr __mmask64 kUpperHalves = 0xccccccccccccccccull;
  for (size_t i = 0; i < 4; ++i) {
    const __m512i spread =
        _mm512_maskz_permutex2var_epi8(kUpperHalves, low, loadTable(kSpread[i].at), high);
    to[i] = asFloat(VI32{spread});
  }
}

// narrow() of formats.h up to the constant. Only the low byte of a lane is used, so the significand
// needs no mask; rebias, sign and special values are put in when the codes are bytes.
template <class Format>
HWY_INLINE VI32 magnitudeCode(VI32 magnitude) {
  const VI32 clamped = hn::Min(magnitude, setInt(Format::kClampF32));
  const VI32 exponent = hn::And(hn::Max(clamped, setInt(Format::kMinNormalF32)), setInt(kInfF32));
  const VI32 magic = hn::Add(exponent, setInt(Format::kRoundingStep));
  const VI32 sum = asInt(hn::Add(asFloat(clamped), asFloat(magic)));
  return hn::Add(hn::ShiftRight<23 - Format::kManBits>(sum), sum);
}

// Puts infinities and NaNs in. They are rare, so this is kept off the straight path.
template <class Format>
HWY_NOINLINE __m512i withSpecials(__m512i bytes, const VI32 (&magnitude)[4], __m512i sign) {
  const VI32 infinity = setInt(kInfF32);
  __mmask64 nan = 0;
  __mmask64 infinite = 0;
  for (size_t i = 0; i < 4; ++i) {
    const __mmask64 above = _mm512_cmpgt_epi32_mask(magnitude[i].raw, infinity.raw);
    const __mmask64 equal = _mm512_cmpeq_epi32_mask(magnitude[i].raw, infinity.raw);
    nan |= above << (16 * i);
    infinite |= equal << (16 * i);
  }
  if constexpr (Format::kHasInf) {
    const __m512i inf = withSign(_mm512_set1_epi8(static_cast<char>(Format::kInf)), sign);
    bytes = _mm512_mask_mov_epi8(bytes, infinite, inf);
  }
  return _mm512_mask_mov_epi8(bytes, nan, _mm512_set1_epi8(static_cast<char>(Format::kNan)));
}

template <class Format, bool kStream>
HWY_INLINE void narrowFloat8(const VF32 (&from)[4], uint8_t* p) {
  VI32 bits[4];
  VI32 magnitude[4];
  VI32 code[4];
  for (size_t i = 0; i < 4; ++i) {
    bits[i] = asInt(from[i]);
    magnitude[i] = hn::And(bits[i], setInt(kMagnitudeF32));
    code[i] = magnitudeCode<Format>(magnitude[i]);
  }
  const __m512i rebias = _mm512_set1_epi8(static_cast<char>(Format::kRebias & 0xff));
  const __m512i sum = gatherBytes(kGatherLow, code[0], code[1], code[2], code[3]);
  const __m512i sign = gatherBytes(kGatherHigh, bits[0], bits[1], bits[2], bits[3]);
  __m512i bytes = withSign(_mm512_sub_epi8(sum, rebias), sign);
  const VI32 largest =
      hn::Max(hn::Max(magnitude[0], magnitude[1]), hn::Max(magnitude[2], magnitude[3]));
  if (HWY_UNLIKELY(_mm512_cmpge_epi32_mask(largest.raw, setInt(kInfF32).raw) != 0)) {
    bytes = withSpecials<Format>(bytes, magnitude, sign);
  }
  const hn::ScalableTag<uint8_t> d;
  storeBytes<kStream>(d, hn::VFromD<decltype(d)>{bytes}, p);
}

#else  // no byte permutations across a vector

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
// E5M2 is the upper byte of a float16. E4M3 has its layout too, with a bias that is 8 smaller.
template <class Format>
HWY_INLINE VF32 widenFloat8Part(hn::VFromD<DQuarter8> codes) {
  const DHalf16 d;
  const auto words = hn::PromoteTo(d, codes);
  if constexpr (Format::kHasInf) {
    return widenFloat16(hn::ShiftLeft<8>(words));
  } else {
    const auto magnitude = hn::And(words, hn::Set(d, 0x7f));
    const auto sign = hn::ShiftLeft<8>(hn::And(words, hn::Set(d, 0x80)));
    const auto nan = hn::Eq(magnitude, hn::Set(d, Format::kNan));
    const auto scaled =
        hn::IfThenElse(nan, hn::Set(d, Float16Format::kNan), hn::ShiftLeft<7>(magnitude));
    return hn::Mul(widenFloat16(hn::Or(scaled, sign)), hn::Set(DF32(), 256.0f));
  }
}
#else
template <class Format>
HWY_INLINE VF32 widenFloat8Part(hn::VFromD<DQuarter8> codes) {
  return widenCodes<Format>(hn::PromoteTo(DI32(), codes));
}
#endif

template <class Format>
HWY_INLINE void widenFloat8(const uint8_t* p, VF32 (&to)[4]) {
  for (size_t i = 0; i < 4; ++i) {
    to[i] = widenFloat8Part<Format>(loadBytes(DQuarter8(), p + i * kVectorBytes / 4));
  }
}

template <class Format, bool kStream>
HWY_INLINE void narrowFloat8(const VF32 (&from)[4], uint8_t* p) {
  const hn::ScalableTag<uint8_t> d;
  const hn::Half<decltype(d)> half;
  hn::VFromD<DQuarter8> part[4];
  for (size_t i = 0; i < 4; ++i) {
    part[i] = hn::DemoteTo(DQuarter8(), narrowCodes<Format>(from[i]));
  }
  const auto low = hn::Combine(half, part[1], part[0]);
  const auto high = hn::Combine(half, part[3], part[2]);
  storeBytes<kStream>(d, hn::Combine(d, high, low), p);
}

#endif

template <class Format, Arithmetic kArithmetic>
class Float8Lanes
    : public SmallFloatLanes<Float8Lanes<Format, kArithmetic>, uint8_t, Format, 4, kArithmetic> {
  using Base = SmallFloatLanes<Float8Lanes<Format, kArithmetic>, uint8_t, Format, 4, kArithmetic>;

 public:
  using typename Base::Group;
  static constexpr size_t kUnroll = 1;
  explicit HWY_INLINE Float8Lanes(const Reduction& reduction) : Base(reduction) {}

  static HWY_INLINE Group loadInput(const uint8_t* p) {
    Group group;
    widenFloat8<Format>(p, group.v);
    return group;
  }
  static HWY_INLINE Group loadPartial(const uint8_t* p) {
    Group group;
    OrderedPartials<4>::load(p, group.v);
    return group;
  }
  template <bool kStream>
  static HWY_INLINE void storeRounded(const Group& group, uint8_t* p) {
    narrowFloat8<Format, kStream>(group.v, p);
  }
  template <bool kStream>
  static HWY_INLINE void storePartial(const Group& group, uint8_t* p) {
    OrderedPartials<4>::template store<kStream>(group.v, p);
  }
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#endif  // toggle
