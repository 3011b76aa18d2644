// The description of reduce for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

inline Layout reduceLayout(uint64_t elements, int, int rank, int root) {
  Layout layout{elements, elements, 0, elements, 0, 0, {}};
  if (rank != root) return layout;
  layout.recvCount = elements;
  layout.expected.push_back({0, elements, kReduced, 0});
  return layout;
}

// Every rank but the root sends the whole once.
inline double reduceBusFactor(int) { return 1; }

inline omnesResult_t runReduce(const Call& call) {
  return omnesReduce(call.send, call.recv, call.count, call.type, call.op, call.root, call.comm,
                     nullptr);
}

inline constexpr Collective kReduce = {
    .program = "reduce_perf",
    .call = "omnesReduce",
    .reduces = true,
    .rooted = true,
    .layout = reduceLayout,
    .busFactor = reduceBusFactor,
    .run = runReduce,
};

}  // namespace omnes::perf
