// Telling a forked child from its parent without a system call.
//
// A child has copies of our memory and descriptors, but not our threads: what was made before the
// fork must not be used in it. Whoever makes such a thing notes the generation, and compares before
// use. Thread-safe.
#pragma once

#include <cstdint>

namespace omnes::base {

// Grows by one in the child at each fork since the first call in this process.
uint32_t forkGeneration();

}  // namespace omnes::base
