// The description of gather for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

inline Layout gatherLayout(uint64_t elements, int nranks, int rank, int root) {
  const auto n = static_cast<uint64_t>(nranks);
  const uint64_t block = elements / n;
  Layout layout{block, block, 0, n * block, 0, 0, {}};
  if (rank != root) return layout;
  layout.recvCount = n * block;
  layout.inPlaceSend = static_cast<uint64_t>(rank) * block;
  for (int source = 0; source < nranks; ++source)
    layout.expected.push_back({static_cast<uint64_t>(source) * block, block, source, 0});
  return layout;
}

// What comes through the root's link.
inline double gatherBusFactor(int nranks) { return static_cast<double>(nranks - 1) / nranks; }

inline omnesResult_t runGather(const Call& call) {
  return omnesGather(call.send, call.recv, call.count, call.type, call.root, call.comm, nullptr);
}

inline constexpr Collective kGather = {
    .program = "gather_perf",
    .call = "omnesGather",
    .reduces = false,
    .rooted = true,
    .layout = gatherLayout,
    .busFactor = gatherBusFactor,
    .run = runGather,
};

}  // namespace omnes::perf
