// Copies, plain or around the cache.
#include <cstring>

#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Streams whole cache lines; what lies before the first line boundary and after the last one is
// stored plainly.
void streamCopy(uint8_t* to, const uint8_t* from, size_t bytes) {
  constexpr size_t kLine = 64;
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  const size_t head = HWY_MIN(bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  size_t i = head;
  // Four lines at a time: enough loads under way to cover a cache miss.
  for (; i + 4 * kLine <= bytes; i += 4 * kLine) {
    for (size_t k = 0; k < 4 * kLine; k += 4 * lanes) {
      const auto a = hn::LoadU(d, from + i + k);
      const auto b = hn::LoadU(d, from + i + k + lanes);
      const auto c = hn::LoadU(d, from + i + k + 2 * lanes);
      const auto e = hn::LoadU(d, from + i + k + 3 * lanes);
      hn::Stream(a, d, to + i + k);
      hn::Stream(b, d, to + i + k + lanes);
      hn::Stream(c, d, to + i + k + 2 * lanes);
      hn::Stream(e, d, to + i + k + 3 * lanes);
    }
  }
  for (; i + kLine <= bytes; i += kLine) {
    for (size_t k = 0; k < kLine; k += lanes) hn::Stream(hn::LoadU(d, from + i + k), d, to + i + k);
  }
  std::memcpy(to + i, from + i, bytes - i);
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace omnes::kernels {

HWY_EXPORT(streamCopy);

void copy(void* destination, const void* source, size_t bytes, bool nonTemporal) {
  if (bytes == 0) return;
  if (!nonTemporal) {
    std::memcpy(destination, source, bytes);
    return;
  }
  HWY_DYNAMIC_DISPATCH(streamCopy)
  (static_cast<uint8_t*>(destination), static_cast<const uint8_t*>(source), bytes);
}

}  // namespace omnes::kernels
#endif  // HWY_ONCE
