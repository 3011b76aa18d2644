// "ring": every rank talks to its two neighbours only. Optimal volume, 2(n - 1) rounds, any
// topology with a cycle.
//
// Two lanes, one a direction: lane 0 sends to r + 1, lane 1 to r - 1. Let d be +1 or -1
// accordingly.
//
// Reduce-scatter: the sum of block b starts at rank b + d with that rank's input, moves on by d and
// ends after n - 1 hops at its owner b. So rank r sends input block r - d first, then receives,
// adds to and passes on blocks r - 2d, r - 3d, ..., and keeps block r - nd = r. The chunk of the
// first hop is an untouched input, the others are partial sums. Order of additions for block b:
// ((x[b+d] + x[b+2d]) + ...) + x[b], the incoming sum being the first operand. In lane 0 these are
// ascending ranks with one wrap.
//
// All-gather: block b starts at its owner and moves on by d for n - 1 hops; rank r receives blocks
// r - d, r - 2d, ..., and sends on all but the last.
//
// The middle hops are LOOPs with affine indices: the plan of a rank has the same few steps for
// every n.
//
// Delays: 0. A skew of one per hop would need more than 2n - 2 slots a link; a bounded one was
// measured to gain little.
//
// Credits: let a slice put chunks 0 .. L-1 on each link (all-reduce: L = 2n - 2, its parts: n - 1).
// Step c of a rank sends chunk c and step c + 1 receives chunk c, so for 0 < c < L a step needs its
// chunk to have arrived (step c - 1 of the rank before) and a slot: with K slots chunk c - K has
// been taken, by step c - K + 1 of the rank behind. K = 2: both lie at c - 1, progress by induction
// over (wave, c). K = 1: step c of every rank waits for step c of the next, all the way around: a
// deadlock as soon as there is a step that both receives and sends, which is when L > 1. L = 1 is
// the half-collective of two ranks: K = 1.
#include "algorithms/families.h"
#include "plan/builder.h"
#include "plan/combinators.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::inputRef;
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::outputRef;
using plan::Plan;
using plan::streamOf;

constexpr int kDirections = 2;
constexpr int32_t directionOf(int lane) { return lane == 0 ? 1 : -1; }
constexpr int32_t creditsFor(int64_t chunksPerSlice) { return chunksPerSlice > 1 ? 2 : 1; }

Plan makeReduceScatter(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kReduceScatter, "ring", r, n);
  builder.minCredits(creditsFor(n - 1));
  for (int lane = 0; lane < kDirections; ++lane) {
    if (lane > 0) builder.lane();
    const int32_t d = directionOf(lane);
    const uint8_t stream = streamOf(kStreamScatter, lane);
    const auto in = [&](Mark mark) { return linkRef(stream, at(r - d), mark); };
    const auto out = [&](Mark mark) { return linkRef(stream, at(r + d), mark); };
    if (n == 1) {
      builder.move({inputRef(at(0))}, Op::kReduce, {outputRef(at(0))});
      continue;
    }
    builder.move({inputRef(at(r - d))}, Op::kNone, {out(Mark::kInput)});
    if (n > 2) {
      builder.move({in(Mark::kInput), inputRef(at(r - 2 * d))}, Op::kReduce, {out(Mark::kPartial)});
    }
    builder.loop(n - 3)
        .move({in(Mark::kPartial), inputRef(at(r - 3 * d, -d))}, Op::kReduce, {out(Mark::kPartial)})
        .endLoop();
    builder.move({in(n > 2 ? Mark::kPartial : Mark::kInput), inputRef(at(r))}, Op::kReduce,
                 {outputRef(at(0))});
  }
  return builder.build();
}

Plan makeAllGather(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kAllGather, "ring", r, n);
  builder.minCredits(creditsFor(n - 1));
  for (int lane = 0; lane < kDirections; ++lane) {
    if (lane > 0) builder.lane();
    const int32_t d = directionOf(lane);
    const uint8_t stream = streamOf(kStreamScatter, lane);
    const plan::Ref in = linkRef(stream, at(r - d), Mark::kInput);
    const plan::Ref out = linkRef(stream, at(r + d), Mark::kInput);
    if (n == 1) {
      builder.move({inputRef(at(0))}, Op::kNone, {outputRef(at(0))});
      continue;
    }
    builder.move({inputRef(at(0))}, Op::kNone, {outputRef(at(r)), out});
    builder.loop(n - 2).move({in}, Op::kNone, {outputRef(at(r - d, -d)), out}).endLoop();
    builder.move({in}, Op::kNone, {outputRef(at(r - d * (n - 1)))});
  }
  return builder.build();
}

Plan makeAllReduce(const PlanRequest& request) {
  return plan::compose(makeReduceScatter(request), makeAllGather(request),
                       creditsFor(2 * (request.nranks - 1)));
}

// Blocks sent by the reduce-scatter: one untouched, the other n - 2 partial.
Cost costOfReduceScatter(const PlanRequest& request) {
  const int64_t n = request.nranks;
  if (n == 1) return {.operands = 1};
  return {.rounds = n - 1,
          .messages = n - 1,
          .inputBlocks = 1,
          .partialBlocks = n - 2,
          .operands = 2 * (n - 1)};
}

Cost costOfAllGather(const PlanRequest& request) {
  const int64_t n = request.nranks;
  return {.rounds = n - 1, .messages = n - 1, .inputBlocks = n - 1};
}

Cost costOfAllReduce(const PlanRequest& request) {
  const int64_t n = request.nranks;
  if (n == 1) return {.operands = 1};
  return {.rounds = 2 * (n - 1),
          .messages = 2 * (n - 1),
          .inputBlocks = n,
          .partialBlocks = n - 2,
          .operands = 2 * (n - 1)};
}

constexpr Algorithm kFamily[] = {
    {"ring", Collective::kAllReduce, supportsFlat, makeAllReduce, costOfAllReduce, false, true},
    {"ring", Collective::kReduceScatter, supportsFlat, makeReduceScatter, costOfReduceScatter,
     false, true},
    {"ring", Collective::kAllGather, supportsFlat, makeAllGather, costOfAllGather, false, true},
};

}  // namespace

std::span<const Algorithm> ringFamily() { return kFamily; }

}  // namespace omnes::algorithms
