// Plans as traces for simulators: what is sent when, without what it means. One slice of a message
// of the given size; the extents of its blocks differ by a byte at most. Sends and receives must
// meet. Reductions and copies take no time. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "plan/plan.h"

namespace omnes::plan {

// GOAL, the text of LogGOPSim and ATLAHS. A step is its receives, a calculation of 0 that requires
// them and the step before, and its sends, which require that. The tag is the stream. A chunk
// without bytes counts as one byte, since GOAL has no empty messages.
base::Result<std::string> toGoal(std::span<const Plan> plans, uint64_t bytes);

// Chakra execution traces in the JSON form of their protobuf: {"ranks": [{"rank", "nodes"}]}. The
// nodes of a step are as in GOAL, with data_deps for requires.
base::Result<std::string> toChakra(std::span<const Plan> plans, uint64_t bytes);

}  // namespace omnes::plan
