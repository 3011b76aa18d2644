#include "transports/shm/segment.h"

namespace omnes::transports::shm {
namespace {

constexpr size_t roundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Layout::Layout(int32_t members, size_t slotBytes) : members_(members), slotBytes_(slotBytes) {
  size_t offset = boardOffset() + sizeof(base::Board);
  tails_ = roundUp(offset, sizeof(base::SlotTail));
  offset = tails_ + static_cast<size_t>(members) * kStreams * sizeof(base::SlotTail);
  for (uint8_t stream = 0; stream < kStreams; ++stream) {
    const StreamClass c = streamClass(stream);
    rings_[stream] = roundUp(offset, 2 * base::kLineBytes);
    const size_t ring = base::SlotRingGeometry::ringBytes(c.slots, c.bodyBytes);
    offset = rings_[stream] + (c.multicast ? 1 : static_cast<size_t>(members - 1)) * ring;
  }
  total_ = roundUp(offset, 4096);
}

}  // namespace omnes::transports::shm
