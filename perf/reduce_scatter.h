// The description of reduce-scatter for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

inline Layout reduceScatterLayout(uint64_t elements, int nranks, int rank, int) {
  const auto n = static_cast<uint64_t>(nranks);
  const uint64_t block = elements / n, own = static_cast<uint64_t>(rank) * block;
  return {block, n * block, block, n * block, 0, own, {{0, block, kReduced, own}}};
}

inline double reduceScatterBusFactor(int nranks) {
  return static_cast<double>(nranks - 1) / nranks;
}

inline omnesResult_t runReduceScatter(const Call& call) {
  return omnesReduceScatter(call.send, call.recv, call.count, call.type, call.op, call.comm,
                            nullptr);
}

inline constexpr Collective kReduceScatter = {
    .program = "reduce_scatter_perf",
    .call = "omnesReduceScatter",
    .reduces = true,
    .rooted = false,
    .layout = reduceScatterLayout,
    .busFactor = reduceScatterBusFactor,
    .run = runReduceScatter,
};

}  // namespace omnes::perf
