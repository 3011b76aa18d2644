#include "transports/streams.h"

#include <algorithm>

namespace omnes::transports {
namespace {

// A direct all-reduce has one slice of members * slotBytes under way in each slot generation. Half
// a MiB of it, with two generations, stays in a core's L2 of 1 MiB; slots of 64 to 256 KiB were
// measured alike, 512 KiB slower (docs/performance.md).
constexpr size_t kSliceBytes = 512 << 10;
constexpr size_t kLeastSlotBytes = 4 << 10;
constexpr size_t kMostSlotBytes = 256 << 10;
constexpr size_t kExchangeSlotBytes = 16 << 10;
constexpr size_t kLineBytes = 64;

}  // namespace

StreamClass streamClass(uint8_t stream, size_t slotBytes) {
  // Messages need no multicast: its streams there are stubs.
  const bool isMulticast = stream % 2 == 0;
  if (stream >= kLanes * kStreamsPerLane && isMulticast) return {1, 0, true};
  switch (stream % kStreamsPerLane) {
    case 0: return {4, std::min(kExchangeSlotBytes, slotBytes), true};  // exchange
    case 1: return {2, slotBytes, false};                               // scatter
    case 2: return {2, slotBytes, true};                                // gather
    default: return {4, 0, false};                                      // signal
  }
}

size_t slotBytesFor(int32_t members, size_t wish) {
  if (wish != 0) return (wish + kLineBytes - 1) / kLineBytes * kLineBytes;
  const size_t share = kSliceBytes / static_cast<size_t>(members) / kLineBytes * kLineBytes;
  return std::clamp(share, kLeastSlotBytes, kMostSlotBytes);
}

}  // namespace omnes::transports
