#include "transports/shm/segment.h"

#include <algorithm>

namespace omnes::transports::shm {
namespace {

// A direct all-reduce has one slice of nranks * slotBytes under way in each slot generation. Half a
// MiB of it, with two generations, stays in a core's L2 of 1 MiB; slots of 64 to 256 KiB were
// measured alike, 512 KiB slower (docs/performance.md).
constexpr size_t kSliceBytes = 512 << 10;
constexpr size_t kLeastSlotBytes = 4 << 10;
constexpr size_t kMostSlotBytes = 256 << 10;
constexpr size_t kExchangeSlotBytes = 16 << 10;

constexpr size_t roundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t chooseSlotBytes(int32_t nranks) {
  const size_t share = kSliceBytes / static_cast<size_t>(nranks) / 64 * 64;
  return std::clamp(share, kLeastSlotBytes, kMostSlotBytes);
}

}  // namespace

Layout::Layout(int32_t nranks, size_t slotBytes)
    : nranks_(nranks),
      slotBytes_(slotBytes == 0 ? chooseSlotBytes(nranks) : roundUp(slotBytes, 64)),
      classes_{{{4, std::min(kExchangeSlotBytes, slotBytes_), true},  // exchange
                {2, slotBytes_, false},                               // scatter
                {2, slotBytes_, true},                                // gather
                {4, 0, false}}} {                                     // signal
  size_t offset = boardOffset() + sizeof(base::Board);
  tails_ = roundUp(offset, sizeof(base::SlotTail));
  offset = tails_ + static_cast<size_t>(nranks) * kStreams * sizeof(base::SlotTail);
  for (uint8_t stream = 0; stream < kStreams; ++stream) {
    const StreamClass& c = streamClass(stream);
    rings_[stream] = roundUp(offset, 2 * base::kLineBytes);
    const size_t ring = base::SlotRingGeometry::ringBytes(c.slots, c.bodyBytes);
    offset = rings_[stream] + (c.multicast ? 1 : static_cast<size_t>(nranks - 1)) * ring;
  }
  total_ = roundUp(offset, 4096);
}

}  // namespace omnes::transports::shm
