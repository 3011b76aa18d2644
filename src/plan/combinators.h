// Combinators: plans made from plans. They work on one rank's plan at a time and know no algorithm.
#pragma once

#include "plan/plan.h"

namespace omnes::plan {

// All-reduce = reduce-scatter, then all-gather, for the same rank, nranks and number of lanes.
//
// The all-reduce has one extent a rank. Output block `rank` takes the place of the reduce-scatter's
// output and of the all-gather's input, so nothing is copied in between. Where the reduce-scatter
// ends with the step that writes its output and the all-gather begins with a plain copy of its
// input, the two become one step that writes the result and sends it on while it is hot. The delays
// of the all-gather are counted from the last delay of the reduce-scatter.
//
// Both parts may use the same links; then their sends and receives must differ by the same delay.
// What the result needs of its links follows from neither part alone: the caller gives minCredits,
// and the verifier judges it.
Plan compose(const Plan& reduceScatter, const Plan& allGather, int32_t minCredits);

// Turns the data flow around: an all-gather becomes a reduce-scatter, a reduce-scatter an
// all-gather.
//
// Every send becomes a receive from the same peer and the other way round, the steps come in
// reverse order, and copying a block out becomes adding the incoming sum to the own one (the
// incoming operands first). Delays d become D - d for the largest delay D. A link with K slots
// forbids the same orders read backwards, so minCredits stays what it is.
//
// All links of the result are unicast: an OUT to a group becomes an IN from each of its members,
// and an IN from several peers a loop of OUTs. In a reversed all-gather all chunks are partial
// sums, even those of the first hop, since a rank cannot know from its own plan what its peer had
// added by then; where that matters (16-bit floats travel as FP32) write the reduce-scatter by
// hand. Sums live in scratch, block b in scratch block b.
//
// The plan must be one that the verifier accepts, and without an IN from several peers in a loop.
// An all-gather must not use scratch, nor bring a rank a block twice (or its own), which would be
// added twice. Loops stay loops unless an iteration differs from the others in what it finds
// untouched.
Plan reverse(const Plan& plan);

}  // namespace omnes::plan
