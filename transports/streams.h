// The streams of a communicator's links: what each is for, and how its slots are cut.
//
// The same for every transport, so that the links of one communicator agree on the largest chunk
// whatever carries them. Stream numbers are lane * kStreamsPerLane + kind; see plan/plan.h for what
// plans use them for. One lane more than plans have carries messages from rank to rank: they have
// links of their own, since only two ranks know of them. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace omnes::transports {

inline constexpr int kLanes = 2;
inline constexpr int kStreamsPerLane = 4;
inline constexpr int kStreams = (kLanes + 1) * kStreamsPerLane;
inline constexpr uint8_t kMessageStream = kLanes * kStreamsPerLane + 1;  // unicast
// Zero payload, unicast: from the receiver, when it has matched a message.
inline constexpr uint8_t kAnswerStream = kLanes * kStreamsPerLane + 3;

struct StreamClass {
  uint32_t slots;    // the least number that plans may count on; a transport may have more
  size_t bodyBytes;  // largest chunk
  bool multicast;
};

// slotBytes: as chosen by slotBytesFor(), equal on all ranks.
StreamClass streamClass(uint8_t stream, size_t slotBytes);

// `wish` rounded up to whole cache lines, or, when it is 0, chosen so that what a rank keeps stays
// at a few MiB with this many members in the largest group of ranks that share memory.
size_t slotBytesFor(int32_t members, size_t wish);

}  // namespace omnes::transports
