// Property 3 (and the uninitialised reads of 5): what every block holds after one slice.
//
// Replays the order found by match() on symbolic values. Up to 64 ranks a value is the exact
// multiset of the contributions in it; above, it is the sum of random weights over the field of
// 2^61 - 1 elements, which is wrong about a plan with probability below (blocks touched) / 2^61.
// A contribution is known by its rank, since extents tell blocks apart; in an all-to-all, where a
// rank has a block of the same extent for each of its peers, by source and destination, always by
// weights. Beside the value goes a hash of the expression that made it. Extents never mix, so large
// sets are done in bands of extents to bound memory. Private to src/plan.
#pragma once

#include "base/status.h"
#include "plan/proof_match.h"
#include "plan/proof_program.h"

namespace omnes::plan::proof {

// *sameOrder: whether each extent ends as the same expression wherever an output holds it.
base::Status checkValues(const Program& program, const Matching& matching, bool* sameOrder);

}  // namespace omnes::plan::proof
