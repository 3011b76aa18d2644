// The k-nomial tree: arithmetic on positions 0 .. n-1, of which 0 is the root. Private to this
// folder; pure functions.
//
// Written in base k, the parent of a position is the position with its lowest digit that is not
// zero set to zero. So the subtree of a position is the range of positions that begins with it and
// is as long as the weight of that digit (or as n allows), and its children, in ascending order,
// begin ranges that follow each other:
//
//     k = 2, n = 8                  k = 4, n = 8
//     0 -+- 1                       0 -+- 1
//        +- 2 --- 3                    +- 2
//        +- 4 -+- 5                    +- 3
//              +- 6 --- 7              +- 4 -+- 5
//                                            +- 6
//                                            +- 7
//
// The depth of a position is the number of its digits that are not zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace omnes::algorithms {

// Children of one position at one distance: first, first + distance, ... `count` of them. Each of
// them but possibly the last has a subtree of `distance` positions.
struct KnomialLevel {
  int32_t first;
  int32_t distance;
  int32_t count;
};

class KnomialTree {
 public:
  // radix >= 2, positions >= 1.
  KnomialTree(int32_t positions, int32_t radix) : positions_(positions), radix_(radix) {}

  // Positions in the subtree of `position`, itself included.
  int32_t sizeOf(int32_t position) const {
    return static_cast<int32_t>(std::min<int64_t>(weightOf(position), positions_ - position));
  }
  bool isLeaf(int32_t position) const { return sizeOf(position) == 1; }
  // Not of the root.
  int32_t parentOf(int32_t position) const {
    const auto weight = static_cast<int32_t>(weightOf(position));
    return position - position / weight % radix_ * weight;
  }
  int32_t depthOf(int32_t position) const {
    int32_t depth = 0;
    for (; position > 0; position /= radix_) depth += position % radix_ != 0 ? 1 : 0;
    return depth;
  }
  // The children in ascending order.
  std::vector<KnomialLevel> levelsOf(int32_t position) const {
    std::vector<KnomialLevel> levels;
    const int64_t weight = weightOf(position);
    for (int64_t distance = 1; distance < weight && position + distance < positions_;
         distance *= radix_) {
      const auto d = static_cast<int32_t>(distance);
      levels.push_back({position + d, d, std::min(radix_ - 1, (positions_ - 1 - position) / d)});
    }
    return levels;
  }
  std::vector<int32_t> childrenOf(int32_t position) const {
    std::vector<int32_t> children;
    for (const KnomialLevel& level : levelsOf(position))
      for (int32_t j = 0; j < level.count; ++j)
        children.push_back(level.first + j * level.distance);
    return children;
  }
  // The largest subtree but the whole; 0 for one position.
  int32_t largestSubtree() const {
    int32_t most = 0;
    for (const int32_t child : childrenOf(0)) most = std::max(most, sizeOf(child));
    return most;
  }
  // Depth of the deepest position: the first one of depth D is 11...1 (D digits in base k), that is
  // (k^D - 1) / (k - 1).
  int32_t depth() const {
    int32_t depth = 0;
    for (int64_t first = 1; first < positions_; first = first * radix_ + 1) ++depth;
    return depth;
  }

 private:
  // Weight of the lowest digit that is not zero; for the root a power of the radix >= positions.
  int64_t weightOf(int32_t position) const {
    int64_t weight = 1;
    while (position == 0 ? weight < positions_ : position / weight % radix_ == 0) weight *= radix_;
    return weight;
  }

  int32_t positions_;
  int32_t radix_;
};

// Number of children, for cost formulas: of the levels below the lowest digit that is not zero,
// each has radix - 1, or as many as there are positions.
constexpr int64_t knomialChildren(int32_t positions, int32_t position, int32_t radix) {
  const int64_t behind = positions - 1 - position;
  int64_t children = 0;
  for (int64_t weight = 1; weight <= behind && position % (weight * radix) == 0; weight *= radix)
    children += std::min<int64_t>(radix - 1, behind / weight);
  return children;
}

}  // namespace omnes::algorithms
