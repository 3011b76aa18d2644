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

}  // namespace omnes::plan
