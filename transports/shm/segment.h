// The memory one rank shares with the other ranks of its host, and where things lie in it.
//
// Each rank owns one segment (a sealed memfd) and maps everybody's. In it: a header that says how
// it is cut, the rank's board, the tail lines of the links that it reads, and the slots of the
// links that it writes. Every rank computes the same layout from (members, slotBytes), so no offset
// from a peer is ever believed. Ranks are counted among the members here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/board.h"
#include "base/slot_ring.h"
#include "transports/streams.h"

namespace omnes::transports::shm {

inline constexpr uint64_t kMagic = 0x31306d68736e6d6f;  // "omnshm01", little end first

// First line of a segment. Written by the owner before it hands the memory out; read-only then.
struct SegmentHeader {
  uint64_t magic;
  uint32_t rank;  // of the communicator
  uint32_t members;
  uint64_t slotBytes;
  uint64_t segmentBytes;
};
static_assert(sizeof(SegmentHeader) == 32);

class Layout {
 public:
  // slotBytes as from slotBytesFor().
  Layout(int32_t members, size_t slotBytes);

  int32_t members() const { return members_; }
  size_t slotBytes() const { return slotBytes_; }
  size_t segmentBytes() const { return total_; }
  StreamClass streamClass(uint8_t stream) const {
    return transports::streamClass(stream, slotBytes_);
  }

  static constexpr size_t boardOffset() { return 2 * base::kLineBytes; }
  // In the reader's segment: the tail of the link (source, stream).
  size_t tailOffset(int32_t source, uint8_t stream) const {
    return tails_ + (static_cast<size_t>(source) * kStreams + stream) * sizeof(base::SlotTail);
  }
  // In the sender's segment: the slots of (stream) from sender to reader; reader is ignored by a
  // multicast stream.
  base::SlotRingGeometry ring(uint8_t* segment, uint8_t stream, int32_t sender,
                              int32_t reader) const {
    const StreamClass c = streamClass(stream);
    const size_t bytes = base::SlotRingGeometry::ringBytes(c.slots, c.bodyBytes);
    const int32_t index = c.multicast       ? 0
                          : reader < sender ? reader
                                            : reader - 1;  // none to itself
    return {segment + rings_[stream] + static_cast<size_t>(index) * bytes, c.slots, c.bodyBytes};
  }

 private:
  int32_t members_;
  size_t slotBytes_;
  size_t tails_ = 0;
  size_t total_ = 0;
  std::array<size_t, kStreams> rings_{};
};

}  // namespace omnes::transports::shm
