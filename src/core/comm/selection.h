// Which algorithm runs a call: a function of agreed inputs only, so that all ranks choose alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/registry.h"
#include "base/status.h"
#include "core/comm/algorithm_choice.h"
#include "core/exec/prepared.h"
#include "plan/hierarchy.h"

namespace omnes::core {

struct SelectionRules {
  AlgorithmChoice choice;      // OMNES_ALGO
  bool deterministic = false;  // only sums that run over the ranks in order, rounded once
};

// kInvalidUsage when the choice contradicts `deterministic`: it names algorithms for a collective
// that adds, and none that does so in the order of the ranks.
base::Status checkRules(const SelectionRules& rules);

// What all ranks know of where they run.
struct JobShape {
  int32_t nranks = 1;
  bool usesNetwork = false;   // not all pairs of ranks share memory
  bool sharesCores = false;   // some ranks of a machine take turns on its processors
  plan::Hierarchy hierarchy;  // who shares memory, simplified; no level when that says nothing

  // Whether some ranks share memory and some do not.
  bool hasHosts() const { return usesNetwork && !hierarchy.levels.empty(); }
  algorithms::PlanRequest request(int32_t rank, int32_t root) const {
    return {.rank = rank, .nranks = nranks, .root = root, .hierarchy = &hierarchy};
  }
};

// What a call prefers, best first, before the rules: names of algorithms that the collective has. A
// name may come twice. The algorithms that are not named come after these.
std::vector<std::string_view> preferredNames(const Shape& shape, const JobShape& job);

struct Candidates {
  // Best first. The first one that prepares is run: whether one does is a function of agreed inputs
  // too. Those that were not asked for come last, for when nothing else works. Never empty when the
  // collective has an algorithm.
  std::vector<const algorithms::Algorithm*> algorithms;
  size_t asked = 0;     // so many of them, from the front, are what the rules ask for
  std::string refused;  // what the rules ask for and cannot have, and why; for a message
};
Candidates candidates(const SelectionRules& rules, const Shape& shape, const JobShape& job);

}  // namespace omnes::core
