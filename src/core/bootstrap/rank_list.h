// Ranks as people read them: "rank 3", "ranks 2, 5-7". Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace omnes::core::bootstrap {

// `ranks` is ascending. Long lists are cut after some twenty ranges and end in "...".
std::string formatRanks(std::span<const uint32_t> ranks);

}  // namespace omnes::core::bootstrap
