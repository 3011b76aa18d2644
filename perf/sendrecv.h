// The description of a ring of sends and receives for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

inline Layout sendrecvLayout(uint64_t elements, int nranks, int rank, int) {
  const int before = (rank + nranks - 1) % nranks;
  return {elements, elements, elements, elements, 0, 0, {{0, elements, before, 0}}};
}

inline double sendrecvBusFactor(int) { return 1; }

inline omnesResult_t runSendrecv(const Call& call) {
  omnesResult_t result = omnesGroupStart();
  if (result != omnesSuccess) return result;
  const int after = (call.rank + 1) % call.nranks;
  const int before = (call.rank + call.nranks - 1) % call.nranks;
  result = omnesSend(call.send, call.count, call.type, after, call.comm, nullptr);
  if (result == omnesSuccess)
    result = omnesRecv(call.recv, call.count, call.type, before, call.comm, nullptr);
  const omnesResult_t ended = omnesGroupEnd();
  return result != omnesSuccess ? result : ended;
}

inline constexpr Collective kSendrecv = {
    .program = "sendrecv_perf",
    .call = "omnesSend and omnesRecv",
    .reduces = false,
    .rooted = false,
    .layout = sendrecvLayout,
    .busFactor = sendrecvBusFactor,
    .run = runSendrecv,
    .hasInPlace = false,
};

}  // namespace omnes::perf
