// "recursive_doubling", "recursive_doubling4", "recursive_doubling8": all-reduce of whole vectors
// in about log_k(n) rounds of exchanges in groups of k = 2, 4, 8, for short messages between hosts.
//
// fold.h takes the ranks too many out beforehand, and leaves p = c k^j positions.
//   fold
//     the odd rank of a pair sends its input to the even one, which adds it to its own.
//   round i, for i < j, and round j if c > 1
//     the k (or c) positions that differ in digit i of base k only send what they have to each
//     other, and all add everything, in the order of the positions.
//   unfold
//     the even rank of a pair sends the result to the odd one, in the step that computes it.
//
// Before round i positions m k^i .. (m + 1) k^i - 1 hold one sum, of a contiguous range of ranks,
// so every addition is over ranges that follow each other: all ranks evaluate the same expression
// tree with the same order of operands, hence have the same bits.
//
// Sums under way live in two scratch blocks by turns: round i sends (lends) one and writes the
// other, which was lent in round i - 1 and is free when that round's partners have added. So a
// write waits for an earlier round only. What a position sends in round 0 is its untouched input
// unless it was folded; the receiver knows which by arithmetic.
//
// A single round is special, since in place all would write over the input that they lend each
// other, in the step that reads the others'. Without a fold it is the one-shot exchange, of all
// with all; so it uses the exchange stream, which is never lent. With a fold and more than one
// position that was not folded, the sum goes to scratch, and from there to the output in a step of
// its own. (With more rounds a lent input is read in an earlier round than the one that writes the
// output; a single position that was not folded has partners that lend scratch.)
//
// Credits: 1. A link carries one chunk a slice, and a rank sends in each round before it receives;
// the step that does both (the last addition of a folded pair) sends on a link that the odd rank
// emptied in the slice before.
#include <algorithm>
#include <string_view>
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
using plan::kStreamExchange;
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::othersOf;
using plan::outputRef;
using plan::partialRef;
using plan::Plan;
using plan::Ref;

constexpr std::string_view nameOfRadix(int32_t radix) {
  return radix == 2   ? "recursive_doubling"
         : radix == 4 ? "recursive_doubling4"
                      : "recursive_doubling8";
}

bool isOneExchange(const Fold& fold) { return fold.rounds == 1 && fold.extra == 0; }
// Whether the sum of the only round may not be written where it is read.
bool finishesApart(const Fold& fold) {
  return fold.rounds == 1 && fold.extra > 0 && fold.positions - fold.extra > 1;
}

Ref link(int32_t peer, Mark mark) { return linkRef(kStreamScatter, at(peer), mark); }

// The odd rank of a pair: gives its input, gets the result.
void addOutsider(Builder* builder, int32_t rank) {
  builder->move({inputRef(at(0))}, Op::kNone, {link(rank - 1, Mark::kInput)});
  builder->move({link(rank - 1, Mark::kInput)}, Op::kNone, {outputRef(at(0))});
}

// Sends `mine` to the others of the group, the next one first; returns the operands of the sum.
std::vector<Ref> addExchange(Builder* builder, const Fold& fold, int32_t rank, int32_t round,
                             int32_t weight, const Ref& mine) {
  const int32_t n = fold.positions + fold.extra, position = fold.positionOf(rank);
  const int32_t group = fold.groupOf(round), digit = position / weight % group;
  const int32_t first = position - digit * weight;
  const bool isExchange = isOneExchange(fold);
  std::vector<Ref> sinks, operands;
  for (int32_t i = 1; i < group && !isExchange; ++i)
    sinks.push_back(link(fold.rankAt(first + (digit + i) % group * weight), mine.mark));
  if (isExchange) sinks = {linkRef(kStreamExchange, othersOf(rank, n), mine.mark)};
  builder->move({mine}, Op::kNone, sinks);
  for (int32_t i = 0; i < group; ++i) {
    const int32_t peer = fold.rankAt(first + i * weight);
    const bool isUntouched = round == 0 && !fold.isPaired(peer);
    const Ref theirs = linkRef(isExchange ? kStreamExchange : kStreamScatter, at(peer),
                               isUntouched ? Mark::kInput : Mark::kPartial);
    operands.push_back(i == digit ? mine : theirs);
  }
  return operands;
}

void addPosition(Builder* builder, const Fold& fold, int32_t rank) {
  Ref mine = inputRef(at(0));
  std::vector<Ref> resultSinks = {outputRef(at(0))};
  int32_t writes = 0;
  if (fold.isPaired(rank)) {
    resultSinks.push_back(link(rank + 1, Mark::kInput));
    const Ref sum = partialRef(at(writes++ % 2));
    builder->move({mine, link(rank + 1, Mark::kInput)}, Op::kReduce, {sum});
    mine = sum;
  }
  int32_t weight = 1;
  for (int32_t round = 0; round < fold.rounds; ++round, weight *= fold.radix) {
    std::vector<Ref> operands = addExchange(builder, fold, rank, round, weight, mine);
    if (round + 1 == fold.rounds && !finishesApart(fold)) {
      builder->move(std::move(operands), Op::kReduce, resultSinks);
    } else {
      mine = partialRef(at(writes++ % 2));
      builder->move(std::move(operands), Op::kReduce, {mine});
    }
  }
  if (fold.rounds == 0 || finishesApart(fold)) builder->move({mine}, Op::kReduce, resultSinks);
  builder->scratch(std::min(writes, 2));
}

template <int32_t kRadix>
Plan makeAllReduce(const PlanRequest& request) {
  const Fold fold(request.nranks, kRadix);
  Builder builder(Collective::kAllReduce, nameOfRadix(kRadix), request.rank, request.nranks);
  if (fold.isOut(request.rank)) {
    addOutsider(&builder, request.rank);
  } else {
    addPosition(&builder, fold, request.rank);
  }
  Plan plan = builder.build();
  // Of all ranks, not of this one: an odd rank sends no sum, and nobody does in a single exchange.
  plan.maxInputChunkBlocks = request.nranks > 1 ? 1 : 0;
  plan.maxPartialChunkBlocks = fold.rounds > 1 || fold.extra > 0 ? 1 : 0;
  return plan;
}

template <int32_t kRadix>
Cost costOfAllReduce(const PlanRequest& request) {
  const Fold fold(request.nranks, kRadix);
  Cost cost;
  // A chain of hops that begins with a fold adds a hop in the end if it arrives at a folded
  // position with a hop in every round, that is with all digits changed. Folded positions are those
  // below e. With c > 1 all of them have the leading digit 0. Else 100..0 and 011..1 differ in all
  // digits, are below e if e > p / k, and no two are otherwise.
  const bool foldsTwice = fold.leading == 1 && fold.extra > fold.positions / kRadix;
  cost.rounds = fold.rounds + (fold.extra == 0 ? 0 : foldsTwice ? 2 : 1);
  if (request.nranks == 1) {
    cost.operands = 1;
  } else if (fold.isOut(request.rank)) {
    cost.messages = cost.inputBlocks = 1;
  } else {
    const int64_t paired = fold.isPaired(request.rank) ? 1 : 0;
    const int64_t sent = fold.members() - fold.rounds;
    cost.messages = sent + paired;
    // Round 0 of the unfolded, the result for the odd rank of the folded.
    cost.inputBlocks = paired > 0 ? 1 : fold.groupOf(0) - 1;
    cost.partialBlocks = cost.messages - cost.inputBlocks;
    cost.operands = fold.members() + 2 * paired + (finishesApart(fold) ? 1 : 0);
  }
  return cost;
}

template <int32_t kRadix>
constexpr Algorithm kEntry = {nameOfRadix(kRadix),
                              Collective::kAllReduce,
                              supportsFlat,
                              makeAllReduce<kRadix>,
                              costOfAllReduce<kRadix>,
                              true,
                              false};
constexpr Algorithm kFamily[] = {kEntry<2>, kEntry<4>, kEntry<8>};

}  // namespace

std::span<const Algorithm> recursiveDoublingFamily() { return kFamily; }

}  // namespace omnes::algorithms
