// A plan set as a picture: ranks down, rounds across, arrows for chunks with their blocks on them.
// Pure function, thread-safe.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "plan/plan.h"

namespace omnes::plan {

inline constexpr int32_t kMostDrawnRanks = 16;

// An SVG of its own, without scripts or outside fonts; one panel a lane, each of one slice. Sends
// and receives must meet (verify() says more). kInvalidArgument for more than 16 ranks or 4000
// arrows, which nobody can follow.
base::Result<std::string> toSvg(std::span<const Plan> plans);

}  // namespace omnes::plan
