// The description of scatter for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

inline Layout scatterLayout(uint64_t elements, int nranks, int rank, int root) {
  const auto n = static_cast<uint64_t>(nranks);
  const uint64_t block = elements / n, own = static_cast<uint64_t>(rank) * block;
  Layout layout{block, 0, block, n * block, 0, 0, {{0, block, root, own}}};
  if (rank != root) return layout;
  layout.sendCount = n * block;
  layout.inPlaceRecv = own;
  return layout;
}

// What goes through the root's link.
inline double scatterBusFactor(int nranks) { return static_cast<double>(nranks - 1) / nranks; }

inline omnesResult_t runScatter(const Call& call) {
  return omnesScatter(call.send, call.recv, call.count, call.type, call.root, call.comm, nullptr);
}

inline constexpr Collective kScatter = {
    .program = "scatter_perf",
    .call = "omnesScatter",
    .reduces = false,
    .rooted = true,
    .layout = scatterLayout,
    .busFactor = scatterBusFactor,
    .run = runScatter,
};

}  // namespace omnes::perf
