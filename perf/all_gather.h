// The description of all-gather for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

inline Layout allGatherLayout(uint64_t elements, int nranks, int rank, int) {
  const auto n = static_cast<uint64_t>(nranks);
  const uint64_t block = elements / n;
  Layout layout{block, block, n * block, n * block, static_cast<uint64_t>(rank) * block, 0, {}};
  for (int source = 0; source < nranks; ++source)
    layout.expected.push_back({static_cast<uint64_t>(source) * block, block, source, 0});
  return layout;
}

// Of what a rank ends with it has a share of 1/n itself.
inline double allGatherBusFactor(int nranks) { return static_cast<double>(nranks - 1) / nranks; }

inline omnesResult_t runAllGather(const Call& call) {
  return omnesAllGather(call.send, call.recv, call.count, call.type, call.comm, nullptr);
}

inline constexpr Collective kAllGather = {
    .program = "all_gather_perf",
    .call = "omnesAllGather",
    .reduces = false,
    .rooted = false,
    .layout = allGatherLayout,
    .busFactor = allGatherBusFactor,
    .run = runAllGather,
};

}  // namespace omnes::perf
