// What the subcommands of "omnes plan" do. Each gives the text to print, or an error to show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/plan_source.h"

namespace omnes::cli {

// A table of the registered algorithms with their costs; empty collective: of all.
base::Result<std::string> listPlans(const std::string& collective, const PlanWords& words);

// The steps, of one rank or all.
base::Result<std::string> showPlans(const PlanWords& words, std::optional<int32_t> rank);

// The facts of the proof in place and out of place. An error when there is none: it names the step.
base::Result<std::string> verifyPlans(const PlanWords& words);

// format: json, goal or chakra. bytes: the size of the message that goal and chakra are for.
base::Result<std::string> exportPlans(const PlanWords& words, const std::string& format,
                                      uint64_t bytes);

// A file from outside, read, proven, and as our JSON.
base::Result<std::string> importPlans(const std::string& path);

// An SVG. At most 16 ranks.
base::Result<std::string> drawPlans(const PlanWords& words);

}  // namespace omnes::cli
