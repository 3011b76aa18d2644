// The description of all-reduce for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

inline Layout allReduceLayout(uint64_t elements, int, int, int) {
  return {elements, elements, elements, elements, 0, 0, {{0, elements, kReduced, 0}}};
}

// An all-reduce moves at least 2(n-1)/n of its size through each rank's link, so this factor makes
// busbw comparable with the speed of the hardware, whatever n is.
inline double allReduceBusFactor(int nranks) { return 2.0 * (nranks - 1) / nranks; }

inline omnesResult_t runAllReduce(const Call& call) {
  return omnesAllReduce(call.send, call.recv, call.count, call.type, call.op, call.comm, nullptr);
}

inline constexpr Collective kAllReduce = {"all_reduce_perf", "omnesAllReduce",   true,        false,
                                          allReduceLayout,   allReduceBusFactor, runAllReduce};

}  // namespace omnes::perf
