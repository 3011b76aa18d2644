// Which algorithm runs a call: a function of agreed inputs only, so that all ranks choose alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/registry.h"
#include "base/status.h"
#include "core/exec/prepared.h"

namespace omnes::core {

struct SelectionRules {
  std::string forced;  // OMNES_ALGO: the algorithm for every collective that has it; empty = choose
  bool deterministic = false;  // only algorithms that add in the order of the ranks
};

// kInvalidArgument when `forced` names no algorithm (the message lists them); kInvalidUsage when it
// contradicts `deterministic`.
base::Status checkRules(const SelectionRules& rules);

// What all ranks know of where they run.
struct JobShape {
  int32_t nranks = 1;
  bool usesNetwork = false;  // not all pairs of ranks share memory
  bool sharesCores = false;  // some ranks of a machine take turns on its processors
};

// Best first. The first one that prepares is run: whether one does is a function of agreed inputs
// too.
std::vector<const algorithms::Algorithm*> candidates(const SelectionRules& rules,
                                                     const Shape& shape, const JobShape& job);

}  // namespace omnes::core
