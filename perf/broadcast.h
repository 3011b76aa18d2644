// The description of broadcast for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

inline Layout broadcastLayout(uint64_t elements, int, int rank, int root) {
  return {elements, rank == root ? elements : 0, elements, elements, 0,
          0,        {{0, elements, root, 0}}};
}

// Every rank but the root receives the whole once.
inline double broadcastBusFactor(int) { return 1; }

inline omnesResult_t runBroadcast(const Call& call) {
  return omnesBroadcast(call.send, call.recv, call.count, call.type, call.root, call.comm, nullptr);
}

inline constexpr Collective kBroadcast = {
    .program = "broadcast_perf",
    .call = "omnesBroadcast",
    .reduces = false,
    .rooted = true,
    .layout = broadcastLayout,
    .busFactor = broadcastBusFactor,
    .run = runBroadcast,
};

}  // namespace omnes::perf
