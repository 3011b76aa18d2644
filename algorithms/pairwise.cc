// "pairwise": all-to-all, one partner at a time.
//
//   round d = 1 .. n - 1:  send to r + d, then receive from r - d
//
// Each block takes one hop, from the input of its owner into the output where it belongs, and since
// everybody keeps the same distance, a rank is sent to by one other at a time: no receiver has to
// take n - 1 senders at once, as it may in "direct". The price is n - 1 rounds, one waiting for the
// other, and that one late rank holds up the others.
//
// Partner r xor d would pair ranks off, so that both directions of one link are used at a time, but
// for n no power of two r xor d is not always a rank: whole rounds would have idle ranks, up to
// twice as many rounds would be needed, and a peer would be no affine function of d. The shift
// works for every n. (Thakur, Rabenseifner and Gropp, IJHPCA 2005, have both.)
//
// Delays: 0. Credits: 1. A link carries one chunk a slice, which its receiver takes in the same
// round after sending its own, and that waits for an earlier slice only.
#include "algorithms/families.h"
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
using plan::Plan;

Plan makeAllToAll(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kAllToAll, "pairwise", r, n);
  builder.move({inputRef(at(r))}, Op::kNone, {outputRef(at(r))});
  builder.loop(n - 1)
      .move({inputRef(at(r + 1, 1))}, Op::kNone,
            {linkRef(kStreamScatter, at(r + 1, 1), Mark::kInput)})
      .move({linkRef(kStreamScatter, at(r - 1, -1), Mark::kInput)}, Op::kNone,
            {outputRef(at(r - 1, -1))})
      .endLoop();
  return builder.build();
}

Cost costOfAllToAll(const PlanRequest& request) {
  const int64_t others = request.nranks - 1;
  return {.rounds = others, .messages = others, .inputBlocks = others};
}

constexpr Algorithm kFamily[] = {
    {"pairwise", Collective::kAllToAll, supportsFlat, makeAllToAll, costOfAllToAll, false, true},
};

}  // namespace

std::span<const Algorithm> pairwiseFamily() { return kFamily; }

}  // namespace omnes::algorithms
