// "circulant": reduce-scatter and all-gather in ceil(log2 n) rounds each at the optimal volume of
// n - 1 blocks, for every n and not only for powers of two (after Traeff, see docs/algorithms.md).
//
// Let R[i] be rank r's sum for block (r + i) mod n, i = 0 .. n-1. Halve s from n down to 1: a round
// takes s' = s and s = ceil(s' / 2).
//   reduce-scatter
//     send R[s .. s'-1] to r + s; receive s' - s blocks from r - s, add them to R[0 .. s'-s-1].
//     (What r + s receives are blocks r + s, r + s + 1, ..., its own R[0], R[1], ...)
//     At the end R[0] is the result of block r.
//   all-gather, the same rounds backwards
//     send the first s' - s known blocks r, r + 1, ... to r - s;
//     receive the blocks r + s .. r + s' - 1 from r + s.
// ceil(log2 n) halvings lead from n to 1, and a round moves s' - s blocks, which add up to n - 1.
//
// Nothing is rotated: block indices wrap, so a chunk is one run of blocks. Sums live in scratch
// (block b in scratch block b); R[i] is read from the input as long as nothing was added to it.
//
// A chunk has one mark. The first round's chunk is all input, and travels as such (half the bytes
// for 16-bit floats). Later chunks are sums, with one exception: for odd n, R[(n-1)/2] is still
// untouched when round 2 sends it. It is widened into scratch first, by a one-operand reduction, so
// that the round stays one message. (n = 3: it is the whole chunk, which goes as input.)
//
// Order of additions: the incoming sum first, the own one second; the tree depends on n and the
// block only, and each block is summed by its owner alone, so all ranks have the same bits.
//
// Delays: 0. Credits: 1 for every link that carries one chunk a slice, since a rank sends in each
// round before it receives. In the all-reduce a link may carry two (distance s of one half equal to
// n - s of the other), but then the first was taken in an earlier round than the second is sent;
// the exception is n = 2, where the step that ends the reduce-scatter receives the first chunk and
// sends the second, at both ends: 2.
#include <vector>

#include "algorithms/circulant_rounds.h"
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
using plan::partialRef;
using plan::Plan;
using plan::range;
using plan::Ref;

Plan makeReduceScatter(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kReduceScatter, "circulant", r, n);
  builder.scratch(n > 2 ? n : 0);
  if (n == 1) builder.move({inputRef(at(0))}, Op::kReduce, {outputRef(at(0))});
  if (hasStraggler(n)) {
    const plan::Run straggler = at(r + (n - 1) / 2);
    builder.move({inputRef(straggler)}, Op::kReduce, {partialRef(straggler)});
  }
  bool first = true;
  for (const CirculantRound& round : circulantRounds(n)) {
    const auto [wide, half] = round;
    const plan::Run given = range(r + half, round.moved());
    const plan::Run kept = range(r, round.moved());
    const bool untouched = first || n == 3;
    const Ref outgoing = untouched ? inputRef(given) : partialRef(given);
    const Ref incoming = linkRef(kStreamScatter, at(r - half), outgoing.mark);
    builder.move({outgoing}, Op::kNone, {linkRef(kStreamScatter, at(r + half), outgoing.mark)});
    builder.move({incoming, first ? inputRef(kept) : partialRef(kept)}, Op::kReduce,
                 {half == 1 ? outputRef(at(0)) : partialRef(kept)});
    first = false;
  }
  return builder.build();
}

Plan makeAllGather(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kAllGather, "circulant", r, n);
  if (n == 1) builder.move({inputRef(at(0))}, Op::kNone, {outputRef(at(0))});
  const std::vector<CirculantRound> rounds = circulantRounds(n);
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    const Ref out = linkRef(kStreamScatter, at(r - round->half), Mark::kInput);
    if (round == rounds.rbegin()) {
      builder.move({inputRef(at(0))}, Op::kNone, {outputRef(at(r)), out});
    } else {
      builder.move({outputRef(range(r, round->moved()))}, Op::kNone, {out});
    }
    builder.move({linkRef(kStreamScatter, at(r + round->half), Mark::kInput)}, Op::kNone,
                 {outputRef(range(r + round->half, round->moved()))});
  }
  return builder.build();
}

Plan makeAllReduce(const PlanRequest& request) {
  return plan::compose(makeReduceScatter(request), makeAllGather(request),
                       request.nranks == 2 ? 2 : 1);
}

Cost costOfReduceScatter(const PlanRequest& request) {
  const int64_t n = request.nranks;
  if (n == 1) return {.operands = 1};
  const int64_t untouched = untouchedBlocks(n);
  return {.rounds = ceilLog2(n),
          .messages = ceilLog2(n),
          .inputBlocks = untouched,
          .partialBlocks = n - 1 - untouched,
          .operands = 2 * (n - 1) + (hasStraggler(request.nranks) ? 1 : 0)};
}

Cost costOfAllGather(const PlanRequest& request) {
  const int64_t n = request.nranks;
  return {.rounds = ceilLog2(n), .messages = ceilLog2(n), .inputBlocks = n - 1};
}

Cost costOfAllReduce(const PlanRequest& request) {
  Cost cost = costOfReduceScatter(request);
  const Cost gather = costOfAllGather(request);
  cost.rounds += gather.rounds;
  cost.messages += gather.messages;
  cost.inputBlocks += gather.inputBlocks;
  return cost;
}

constexpr Algorithm kFamily[] = {
    {"circulant", Collective::kAllReduce, supportsFlat, makeAllReduce, costOfAllReduce, true, true},
    {"circulant", Collective::kReduceScatter, supportsFlat, makeReduceScatter, costOfReduceScatter,
     true, true},
    {"circulant", Collective::kAllGather, supportsFlat, makeAllGather, costOfAllGather, true, true},
};

}  // namespace

std::span<const Algorithm> circulantFamily() { return kFamily; }

}  // namespace omnes::algorithms
