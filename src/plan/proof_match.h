// Properties 1 and 7: one slice of all ranks, run with links that never fill up.
//
// Pairs every receive with its send in wave order and compares what they say about the chunk. Plans
// have no choice in them (every receive names its link), so the pairs are the same in every
// schedule, and so is the order of events that comes out, as far as it matters. Private to
// src/plan.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "plan/proof_program.h"

namespace omnes::plan::proof {

struct Matching {
  std::vector<uint32_t> order;    // all operations of one slice, each after all that it depends on
  std::vector<uint32_t> chunkOf;  // as Program::ins: the out that this receive takes
  int64_t rounds = 0;             // longest chain of link hops
  bool writesAfterAllPeers = true;
};

base::Status match(const Program& program, Matching* matching);

}  // namespace omnes::plan::proof
