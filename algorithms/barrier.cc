// Barriers: nobody leaves before everybody has entered.
//
// "dissemination": in round k rank r signals r + 2^k and waits for r - 2^k. After round k it has
// heard, directly or not, of the 2^(k+1) ranks up to itself; ceil(log2 n) rounds reach all of them,
// for every n.
//
// "direct": everybody signals everybody and waits for everybody: one round, n - 1 signals, cheap
// where a multicast is one store. It goes over the exchange streams, which are the multicast ones.
//
// Credits: 1. A rank signals before it waits, and a link carries one signal a barrier (the
// distances 2^k < n differ).
#include "algorithms/families.h"
#include "plan/builder.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::kStreamExchange;
using plan::kStreamSignal;
using plan::linkRef;
using plan::Mark;
using plan::othersOf;
using plan::Plan;

Plan makeDissemination(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kBarrier, "dissemination", r, n);
  for (int64_t distance = 1; distance < n; distance *= 2) {
    const auto d = static_cast<int32_t>(distance % n);
    builder.signal({linkRef(kStreamSignal, at((r + d) % n), Mark::kInput)});
    builder.wait({linkRef(kStreamSignal, at(r - d), Mark::kInput)});
  }
  return builder.build();
}

Plan makeDirect(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kBarrier, "direct", r, n);
  builder.signal({linkRef(kStreamExchange, othersOf(r, n), Mark::kInput)});
  builder.wait({linkRef(kStreamExchange, othersOf(r, n), Mark::kInput)});
  return builder.build();
}

Cost costOfDissemination(const PlanRequest& request) {
  int64_t rounds = 0;
  while ((int64_t{1} << rounds) < request.nranks) ++rounds;
  return {.rounds = rounds, .messages = rounds};
}

Cost costOfDirect(const PlanRequest& request) {
  return {.rounds = request.nranks > 1 ? 1 : 0, .messages = request.nranks - 1};
}

constexpr Algorithm kFamily[] = {
    {"dissemination", Collective::kBarrier, supportsFlat, makeDissemination, costOfDissemination,
     true, true},
    {"direct", Collective::kBarrier, supportsFlat, makeDirect, costOfDirect, false, true},
};

}  // namespace

std::span<const Algorithm> barrierFamily() { return kFamily; }

}  // namespace omnes::algorithms
