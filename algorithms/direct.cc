// "direct": every contribution goes straight to the owner of its block, every result straight to
// everybody.
//
// Rank r owns block r. The reduce-scatter sends input block p to rank p, beginning with r + 1 so
// that no rank is everyone's first target, and then adds all contributions to block r in one step,
// in the order of the ranks: rounded once, the same order whatever the path, the best order we
// have. The all-gather multicasts the own block. All-reduce is the one after the other (two shots);
// the step that adds also sends.
//
// Delays: 0 scatter, 1 reduce, 2 gather, so the scatter of slice w is on its way while slice w - 1
// is added and slice w - 2 is copied out.
//
// Credits: 2. In wave w a rank sends slice w on a scatter link and needs, with K slots, its
// receiver to have taken slice w - K, which happens in the receiver's wave w - K + 1. With K = 2
// that is an earlier wave, so by induction over waves every step gets its turn. With K = 1 it is
// wave w, after the receiver's own scatter, which waits for us in the same way: no progress. The
// gather link is sent in delay 1 and read in delay 2: the same difference, the same argument.
#include "algorithms/families.h"
#include "plan/builder.h"
#include "plan/combinators.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::inputRef;
using plan::kStreamGather;
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::othersOf;
using plan::outputRef;
using plan::Plan;
using plan::range;

constexpr int32_t creditsFor(int32_t nranks) { return nranks == 1 ? 1 : 2; }

Plan makeReduceScatter(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kReduceScatter, "direct", r, n);
  builder.minCredits(creditsFor(n));
  builder.loop(n - 1)
      .move({inputRef(at(r + 1, 1))}, Op::kNone,
            {linkRef(kStreamScatter, at(r + 1, 1), Mark::kInput)})
      .endLoop();
  builder.delay(n == 1 ? 0 : 1)
      .move({linkRef(kStreamScatter, range(0, r), Mark::kInput), inputRef(at(r)),
             linkRef(kStreamScatter, range(r + 1, n - 1 - r), Mark::kInput)},
            Op::kReduce, {outputRef(at(0))});
  return builder.build();
}

Plan makeAllGather(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kAllGather, "direct", r, n);
  builder.minCredits(creditsFor(n));
  builder.move({inputRef(at(0))}, Op::kNone,
               {outputRef(at(r)), linkRef(kStreamGather, othersOf(r, n), Mark::kInput)});
  builder.delay(1)
      .loop(n - 1)
      .move({linkRef(kStreamGather, at(r + 1, 1), Mark::kInput)}, Op::kNone,
            {outputRef(at(r + 1, 1))})
      .endLoop();
  return builder.build();
}

Plan makeAllReduce(const PlanRequest& request) {
  return plan::compose(makeReduceScatter(request), makeAllGather(request),
                       creditsFor(request.nranks));
}

Cost costOfReduceScatter(const PlanRequest& request) {
  const int64_t n = request.nranks;
  return {.rounds = n > 1 ? 1 : 0, .messages = n - 1, .inputBlocks = n - 1, .operands = n};
}

Cost costOfAllGather(const PlanRequest& request) {
  const int64_t n = request.nranks;
  return {.rounds = n > 1 ? 1 : 0, .messages = n - 1, .inputBlocks = n - 1};
}

Cost costOfAllReduce(const PlanRequest& request) {
  const int64_t n = request.nranks;
  return {
      .rounds = n > 1 ? 2 : 0, .messages = 2 * (n - 1), .inputBlocks = 2 * (n - 1), .operands = n};
}

// Not equivariant where it adds: the operands stand in the order of the ranks, not in an order
// relative to the own one. Not logRounds either: a constant number of rounds, but n - 1 messages a
// rank.
constexpr Algorithm kFamily[] = {
    {"direct", Collective::kAllReduce, supportsFlat, makeAllReduce, costOfAllReduce, false, false,
     true},
    {"direct", Collective::kReduceScatter, supportsFlat, makeReduceScatter, costOfReduceScatter,
     false, false, true},
    {"direct", Collective::kAllGather, supportsFlat, makeAllGather, costOfAllGather, false, true},
};

}  // namespace

std::span<const Algorithm> directFamily() { return kFamily; }

}  // namespace omnes::algorithms
