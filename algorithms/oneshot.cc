// "oneshot": everybody sends everything to everybody, once; for messages so small that one round is
// all that counts.
//
// All-reduce: each rank multicasts its whole input and adds all n contributions itself, in the
// order of the ranks, so all ranks compute the same bits. All-gather: each rank multicasts its
// block and takes the others'. The reduce-scatter of this kind is the one called "direct": it has
// one round already.
//
// These two shapes, [own -> all; all -> own], are what the executor's exchange routine looks for.
//
// Exchange streams are never lent (plan.h), which is what makes the all-reduce right in place.
//
// Credits: 1. Everything has delay 0, a rank sends before it receives, so the slot that slice w
// needs was freed in the readers' wave w - 1.
#include "algorithms/families.h"
#include "plan/builder.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::inputRef;
using plan::kStreamExchange;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::othersOf;
using plan::outputRef;
using plan::Plan;
using plan::range;

Plan makeAllReduce(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kAllReduce, "oneshot", r, n);
  builder.move({inputRef(at(0))}, Op::kNone,
               {linkRef(kStreamExchange, othersOf(r, n), Mark::kInput)});
  builder.move({linkRef(kStreamExchange, range(0, r), Mark::kInput), inputRef(at(0)),
                linkRef(kStreamExchange, range(r + 1, n - 1 - r), Mark::kInput)},
               Op::kReduce, {outputRef(at(0))});
  return builder.build();
}

Plan makeAllGather(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kAllGather, "oneshot", r, n);
  builder.move({inputRef(at(0))}, Op::kNone,
               {outputRef(at(r)), linkRef(kStreamExchange, othersOf(r, n), Mark::kInput)});
  builder.loop(n - 1)
      .move({linkRef(kStreamExchange, at(r + 1, 1), Mark::kInput)}, Op::kNone,
            {outputRef(at(r + 1, 1))})
      .endLoop();
  return builder.build();
}

Cost costOfAllReduce(const PlanRequest& request) {
  const int64_t n = request.nranks;
  return {.rounds = n > 1 ? 1 : 0, .messages = n - 1, .inputBlocks = n - 1, .operands = n};
}

Cost costOfAllGather(const PlanRequest& request) {
  const int64_t n = request.nranks;
  return {.rounds = n > 1 ? 1 : 0, .messages = n - 1, .inputBlocks = n - 1};
}

// The all-reduce adds in the order of the ranks and has one block, which does not shift: not
// equivariant.
constexpr Algorithm kFamily[] = {
    {"oneshot", Collective::kAllReduce, supportsFlat, makeAllReduce, costOfAllReduce, false, false,
     true},
    {"oneshot", Collective::kAllGather, supportsFlat, makeAllGather, costOfAllGather, false, true},
};

}  // namespace

std::span<const Algorithm> oneshotFamily() { return kFamily; }

}  // namespace omnes::algorithms
