#include "core/bootstrap/rank_list.h"

namespace omnes::core::bootstrap {

std::string formatRanks(std::span<const uint32_t> ranks) {
  constexpr int kMaxRanges = 20;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  int ranges = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (ranges != 0) text += ", ";
    if (++ranges > kMaxRanges) return text + "...";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace omnes::core::bootstrap
