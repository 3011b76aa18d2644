// Who shares what: the levels that algorithms may know about, innermost first (core group, node,
// rack, ...). Issue A1 only has the flat case; the struct is the one that src/topo fills later.
#pragma once

#include <cstdint>
#include <vector>

namespace omnes::plan {

struct Level {
  // group[r] = index of the group that rank r belongs to at this level; groups nest in the next
  // level's groups.
  std::vector<int32_t> group;
};

struct Hierarchy {
  int32_t nranks = 1;
  std::vector<Level> levels;  // empty = all ranks equal

  static Hierarchy flat(int32_t nranks) { return Hierarchy{nranks, {}}; }
};

}  // namespace omnes::plan
