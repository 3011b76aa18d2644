// Which plans a command line means: a file, or a registered algorithm for some ranks.
//
// Value types and functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/hierarchy.h"
#include "plan/plan.h"

namespace omnes::cli {

struct PlanWords {
  std::vector<std::string> words;  // FILE, or COLLECTIVE ALGORITHM
  std::optional<int32_t> nranks;
  std::optional<int32_t> root;
  std::string hosts;  // "3,1": so many ranks on each host; empty: all alike
};

// In any case, "all_reduce" and "all-reduce" as well as "AllReduce". The error lists all.
base::Result<plan::Collective> collectiveOf(std::string_view name);

// The levels for ranks on hosts of the given sizes, one rank behind the other.
base::Result<plan::Hierarchy> hierarchyOf(const std::string& hosts);

// The number of ranks: as given, or as the hosts have, or 8. They must agree.
base::Result<int32_t> nranksOf(const PlanWords& words, const plan::Hierarchy* hierarchy);

// Plans in a file: our JSON, or MSCCL's XML when the text begins with <. Errors begin with the
// path.
base::Result<std::vector<plan::Plan>> plansIn(const std::string& path);

// One plan a rank. Not proven: verify() them.
base::Result<std::vector<plan::Plan>> plansOf(const PlanWords& words);

}  // namespace omnes::cli
