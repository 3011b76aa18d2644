// The description of all-to-all for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

inline Layout alltoallLayout(uint64_t elements, int nranks, int rank, int) {
  const auto n = static_cast<uint64_t>(nranks);
  const uint64_t block = elements / n, own = static_cast<uint64_t>(rank) * block;
  Layout layout{block, n * block, n * block, n * block, 0, 0, {}};
  for (int source = 0; source < nranks; ++source)
    layout.expected.push_back({static_cast<uint64_t>(source) * block, block, source, own});
  return layout;
}

inline double alltoallBusFactor(int nranks) { return static_cast<double>(nranks - 1) / nranks; }

inline omnesResult_t runAlltoall(const Call& call) {
  return omnesAlltoAll(call.send, call.recv, call.count, call.type, call.comm, nullptr);
}

inline constexpr Collective kAlltoall = {
    .program = "alltoall_perf",
    .call = "omnesAlltoAll",
    .reduces = false,
    .rooted = false,
    .layout = alltoallLayout,
    .busFactor = alltoallBusFactor,
    .run = runAlltoall,
    .hasInPlace = false,
};

}  // namespace omnes::perf
