// "recursive_doubling": all-reduce of whole vectors in about log2(n) rounds, for short messages
// between hosts.
//
// Let p be the largest power of two with p <= n, and e = n - p the number of ranks too many.
//   fold
//     ranks 2i and 2i + 1 for i < e form a pair: the odd one sends its input to the even one and
//     waits for the result. That leaves p positions: i is rank 2i for i < e, else rank i + e.
//   round k, for 2^k < p
//     position i exchanges what it has with position i xor 2^k, and both add.
//   unfold
//     the even rank of a pair sends the result to the odd one, in the step that computes it.
//
// Positions j 2^k .. (j + 1) 2^k - 1 hold a contiguous range of ranks, so every addition is (lower
// ranks) + (higher ranks): all ranks evaluate the same expression tree with the same order of
// operands, hence have the same bits.
//
// Sums under way live in two scratch blocks by turns: round k sends (lends) one and writes the
// other, which was lent in round k - 1 and is free when that round's partner has added. So a write
// waits for an earlier round only. What a position sends in round 0 is its untouched input unless
// it was folded; the receiver knows which by arithmetic.
//
// Two ranks are the one-shot exchange: both would write, in place, over the input that they lend
// each other. So they use the exchange stream, which is never lent. With more ranks a lent input is
// read in an earlier round than the one that writes the output, or by a partner that has not lent
// its own (n = 3).
//
// Credits: 1. A link carries one chunk a slice, and a rank sends in each round before it receives;
// the step that does both (the last addition of a folded pair) sends on a link that the odd rank
// emptied in the slice before.
#include <algorithm>
#include <vector>

#include "algorithms/families.h"
#include "plan/builder.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::inputRef;
using plan::kStreamExchange;
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::outputRef;
using plan::partialRef;
using plan::Plan;
using plan::Ref;

struct Fold {
  int32_t positions = 1;  // p
  int32_t extra = 0;      // e
  int32_t rounds = 0;     // log2 p

  explicit Fold(int32_t nranks) {
    while (nranks / 2 >= positions) {
      positions *= 2;
      ++rounds;
    }
    extra = nranks - positions;
  }
  bool isPaired(int32_t rank) const { return rank < 2 * extra; }
  bool isOut(int32_t rank) const { return isPaired(rank) && rank % 2 == 1; }
  int32_t positionOf(int32_t rank) const { return isPaired(rank) ? rank / 2 : rank - extra; }
  int32_t rankAt(int32_t position) const {
    return position < extra ? 2 * position : position + extra;
  }
};

Ref link(int32_t peer, Mark mark, uint8_t stream = kStreamScatter) {
  return linkRef(stream, at(peer), mark);
}

// The odd rank of a pair: gives its input, gets the result.
void addOutsider(Builder& builder, int32_t rank) {
  builder.move({inputRef(at(0))}, Op::kNone, {link(rank - 1, Mark::kInput)});
  builder.move({link(rank - 1, Mark::kInput)}, Op::kNone, {outputRef(at(0))});
}

void addPosition(Builder& builder, int32_t rank, const Fold& fold) {
  const int32_t position = fold.positionOf(rank);
  const uint8_t stream = fold.positions == 2 && fold.extra == 0 ? kStreamExchange : kStreamScatter;
  Ref mine = inputRef(at(0));
  int32_t writes = 0;
  if (fold.isPaired(rank)) {
    const Ref sum = partialRef(at(writes++ % 2));
    builder.move({mine, link(rank + 1, Mark::kInput)}, Op::kReduce, {sum});
    mine = sum;
  }
  for (int32_t round = 0; round < fold.rounds; ++round) {
    const int32_t partner = fold.rankAt(position ^ (1 << round));
    const bool partnerUntouched = round == 0 && !fold.isPaired(partner);
    builder.move({mine}, Op::kNone, {link(partner, mine.mark, stream)});
    const Ref theirs = link(partner, partnerUntouched ? Mark::kInput : Mark::kPartial, stream);
    std::vector<Ref> operands = {mine, theirs};
    if (partner < rank) operands = {theirs, mine};
    if (round + 1 < fold.rounds) {
      mine = partialRef(at(writes++ % 2));
      builder.move(operands, Op::kReduce, {mine});
    } else {
      std::vector<Ref> sinks = {outputRef(at(0))};
      if (fold.isPaired(rank)) sinks.push_back(link(rank + 1, Mark::kInput));
      builder.move(operands, Op::kReduce, sinks);
    }
  }
  if (fold.positions == 1) builder.move({mine}, Op::kReduce, {outputRef(at(0))});
  builder.scratch(std::min(writes, 2));
}

Plan makeAllReduce(const PlanRequest& request) {
  const Fold fold(request.nranks);
  Builder builder(Collective::kAllReduce, "recursive_doubling", request.rank, request.nranks);
  if (fold.isOut(request.rank)) {
    addOutsider(builder, request.rank);
  } else {
    addPosition(builder, request.rank, fold);
  }
  Plan plan = builder.build();
  // Of all ranks, not of this one: an odd rank sends no sum, and nobody does if there are two.
  plan.maxInputChunkBlocks = request.nranks > 1 ? 1 : 0;
  plan.maxPartialChunkBlocks = request.nranks > 2 ? 1 : 0;
  return plan;
}

Cost costOfAllReduce(const PlanRequest& request) {
  const Fold fold(request.nranks);
  Cost cost;
  // A chain of hops that begins with a fold ends, after a hop in every round, at the position with
  // all bits inverted. Is that one folded too, the unfold adds a hop; p - 1 - i and i are both
  // below e for some i if 2e > p.
  const int64_t ends = fold.extra == 0 ? 0 : 2 * fold.extra > fold.positions ? 2 : 1;
  cost.rounds = fold.rounds + ends;
  if (request.nranks == 1) {
    cost.operands = 1;
  } else if (fold.isOut(request.rank)) {
    cost.messages = cost.inputBlocks = 1;
  } else {
    const int64_t paired = fold.isPaired(request.rank) ? 1 : 0;
    cost.messages = fold.rounds + paired;
    cost.inputBlocks = 1;  // round 0 of the unfolded, the result for the odd rank of the folded
    cost.partialBlocks = fold.rounds - 1 + paired;
    cost.operands = 2 * (fold.rounds + paired);
  }
  return cost;
}

constexpr Algorithm kFamily[] = {
    {"recursive_doubling", Collective::kAllReduce, supportsFlat, makeAllReduce, costOfAllReduce,
     true, false},
};

}  // namespace

std::span<const Algorithm> recursiveDoublingFamily() { return kFamily; }

}  // namespace omnes::algorithms
