// "rabenseifner": all-reduce by recursive halving and recursive doubling, for comparison with
// "circulant": of the same volume and rounds for powers of two, and worse for any other number.
//
// Let p = 2^m be the largest power of two with p <= n; fold.h takes the other ranks out beforehand,
// with their whole input, and gives them the whole result in the end. The message has p blocks.
//   halve, k = 0 .. m-1   position i exchanges with position i xor 2^k the half of its blocks that
//                         the other keeps, and adds to the half that it keeps: the lower half if
//                         bit k of i is 0. After m rounds it has one block, the sum of all.
//   double, k = m-1 .. 0  the same partners exchange all blocks that they have.
//
// The long messages go to the nearest ranks. After round k positions j 2^k .. (j + 1) 2^k - 1 have
// been added, so every addition joins two neighbouring ranges of ranks, lower first: a balanced
// tree in the order of the ranks, evaluated once for each block, by its owner.
//
// Sums under way live in scratch, block b in scratch block b. What a round gives away is not
// written again in the slice. The result of a position goes to the output in a step of its own and
// is sent from there: a step that did both would wait for the partner's, which waits for it.
//
// Delays: 0. Credits: 1. Two partners exchange two chunks a slice, and take the first before either
// sends the second; in a round everybody sends before it receives.
#include <utility>
#include <vector>

#include "algorithms/families.h"
#include "algorithms/fold.h"
#include "plan/builder.h"

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
using plan::partialRef;
using plan::Plan;
using plan::range;
using plan::Ref;

constexpr int32_t kRadix = 2;

Ref link(int32_t peer, Mark mark = Mark::kInput) { return linkRef(kStreamScatter, at(peer), mark); }

// The blocks that a position has after `round` rounds of halving.
plan::Run blocksAfter(int32_t position, int32_t round, int32_t positions) {
  int32_t first = 0;
  for (int32_t k = 0; k < round; ++k)
    if ((position >> k & 1) != 0) first += positions >> (k + 1);
  return range(first, positions >> round);
}

void addHalving(Builder* builder, const Fold& fold, int32_t rank) {
  const int32_t position = fold.positionOf(rank), p = fold.positions;
  for (int32_t round = 0; round < fold.rounds; ++round) {
    const int32_t partner = position ^ (1 << round);
    const bool mineUntouched = round == 0 && !fold.isPaired(rank);
    const bool theirsUntouched = round == 0 && !fold.isPaired(fold.rankAt(partner));
    const auto mine = mineUntouched ? inputRef : partialRef;
    const plan::Run kept = blocksAfter(position, round + 1, p);
    const Ref given = mine(blocksAfter(partner, round + 1, p));
    const int32_t peer = fold.rankAt(partner);
    builder->move({given}, Op::kNone, {link(peer, given.mark)});
    std::vector<Ref> operands = {mine(kept),
                                 link(peer, theirsUntouched ? Mark::kInput : Mark::kPartial)};
    if (partner < position) std::swap(operands[0], operands[1]);
    builder->move(std::move(operands), Op::kReduce,
                  {round + 1 < fold.rounds ? partialRef(kept) : outputRef(kept)});
  }
}

void addDoubling(Builder* builder, const Fold& fold, int32_t rank) {
  const int32_t position = fold.positionOf(rank), p = fold.positions;
  for (int32_t round = fold.rounds - 1; round >= 0; --round) {
    const int32_t partner = position ^ (1 << round);
    const int32_t peer = fold.rankAt(partner);
    builder->move({outputRef(blocksAfter(position, round + 1, p))}, Op::kNone, {link(peer)});
    builder->move({link(peer)}, Op::kNone, {outputRef(blocksAfter(partner, round + 1, p))});
  }
}

Plan makeAllReduce(const PlanRequest& request) {
  const Fold fold(request.nranks, kRadix);
  const int32_t n = request.nranks, r = request.rank, p = fold.positions;
  const plan::Run all = range(0, p);
  Builder builder(Collective::kAllReduce, "rabenseifner", r, n);
  builder.blocks(p);
  if (fold.isOut(r)) {
    builder.move({inputRef(all)}, Op::kNone, {link(r - 1)});
    builder.move({link(r - 1)}, Op::kNone, {outputRef(all)});
  } else {
    builder.scratch(n > 2 ? p : 0);
    if (n == 1) builder.move({inputRef(all)}, Op::kReduce, {outputRef(all)});
    if (fold.isPaired(r))
      builder.move({inputRef(all), link(r + 1)}, Op::kReduce, {partialRef(all)});
    addHalving(&builder, fold, r);
    addDoubling(&builder, fold, r);
    if (fold.isPaired(r)) builder.move({outputRef(all)}, Op::kNone, {link(r + 1)});
  }
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = fold.extra > 0 ? p : p / 2;
  plan.maxPartialChunkBlocks = fold.extra > 0 ? p / 2 : p / 4;
  return plan;
}

Cost costOfAllReduce(const PlanRequest& request) {
  const Fold fold(request.nranks, kRadix);
  const int64_t p = fold.positions, paired = fold.isPaired(request.rank) ? 1 : 0;
  // There and back again: a chain of hops that begins with a fold can end at the same pair.
  Cost cost{.rounds = 2 * fold.rounds + (fold.extra > 0 ? 2 : 0)};
  if (request.nranks == 1) {
    cost.operands = 1;
  } else if (fold.isOut(request.rank)) {
    cost.messages = 1;
    cost.inputBlocks = p;
  } else {
    cost.messages = 2 * fold.rounds + paired;
    cost.inputBlocks = p - 1 + (paired > 0 ? p : p / 2);
    cost.partialBlocks = p - 1 - (paired > 0 ? 0 : p / 2);
    cost.operands = 2 * (p - 1) + paired * 2 * p;
  }
  return cost;
}

constexpr Algorithm kFamily[] = {
    {"rabenseifner", Collective::kAllReduce, supportsFlat, makeAllReduce, costOfAllReduce, true,
     false},
};

}  // namespace

std::span<const Algorithm> rabenseifnerFamily() { return kFamily; }

}  // namespace omnes::algorithms
