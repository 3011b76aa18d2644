// The registry: every algorithm the library may run, by collective and name.
//
// An algorithm is a pure function of (collective, rank, nranks, root, hierarchy); same input, same
// plan. Nothing enters the registry that tests/plan does not prove for n = 1..64 and the samples
// above, with every root for n <= 17.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "plan/hierarchy.h"
#include "plan/plan.h"

namespace omnes::algorithms {

struct PlanRequest {
  int32_t rank = 0;
  int32_t nranks = 1;
  int32_t root = -1;                           // -1: the collective has none
  const plan::Hierarchy* hierarchy = nullptr;  // null = flat
};

// What one rank's plan costs per slice, as declared by the algorithm and checked by the verifier
// against the plan. Blocks are counted with multiplicity; a multicast OUT counts once per reader in
// `messages` and the block counters.
struct Cost {
  int64_t rounds =
      0;  // length of the longest chain of link hops in the whole collective (delay-free, 1 slice)
  int64_t messages = 0;       // chunks this rank puts on links, signals included
  int64_t inputBlocks = 0;    // blocks it sends with Mark::kInput
  int64_t partialBlocks = 0;  // blocks it sends with Mark::kPartial
  int64_t operands = 0;       // block operands it feeds to Op::kReduce
  bool operator==(const Cost&) const = default;
};

struct Algorithm {
  std::string_view name;
  plan::Collective collective;
  bool (*supports)(const PlanRequest& request);
  plan::Plan (*make)(const PlanRequest& request);
  Cost (*cost)(const PlanRequest& request);  // closed form, not derived from the plan
  bool logRounds;                            // O(log n) rounds: verified up to 4096 ranks
  // Rank r's plan is rank 0's with every peer and block, and the root, shifted by r (not the
  // scratch of an all-to-all, whose blocks stand for distances).
  bool equivariant;
  // Each result is the sum over the ranks in order, rounded once: the same bits as of all others
  // that do so. Of reductions only.
  bool addsInRankOrder = false;
};

std::span<const Algorithm> all();
// Null when there is none of that name for the collective.
const Algorithm* find(plan::Collective collective, std::string_view name);

}  // namespace omnes::algorithms
