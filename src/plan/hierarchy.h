// Who shares what: the levels that algorithms may know about, innermost first (core group, node,
// rack, ...).
//
// Value types and pure functions. Groups need not be equally large, nor their ranks neighbours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace omnes::plan {

struct Level {
  // group[r] = index of the group that rank r belongs to at this level; groups nest in the next
  // level's groups.
  std::vector<int32_t> group;
  bool operator==(const Level&) const = default;
};

struct Hierarchy {
  int32_t nranks = 1;
  std::vector<Level> levels;  // empty = all ranks equal
  bool operator==(const Hierarchy&) const = default;

  static Hierarchy flat(int32_t nranks) { return Hierarchy{nranks, {}}; }
};

// kInvalidArgument names the level and a rank when a level does not name a group for each rank, or
// splits a group of the level inside it.
base::Status checkHierarchy(const Hierarchy& hierarchy);

// The same hierarchy without the levels that say nothing: groups of one rank each, the groups of
// the level inside, one group of all ranks. Groups are numbered by their lowest ranks.
Hierarchy simplified(const Hierarchy& hierarchy);

// What is left when each innermost group counts as one rank. There must be a level.
Hierarchy unitsOf(const Hierarchy& hierarchy);

// One level as lists of ranks. Groups are numbered by their lowest ranks.
class Groups {
 public:
  explicit Groups(const Level& level);

  int32_t count() const { return static_cast<int32_t>(members_.size()); }
  int32_t largest() const { return largest_; }
  int32_t sizeOf(int32_t group) const { return static_cast<int32_t>(members_[at(group)].size()); }
  // Ascending.
  std::span<const int32_t> membersOf(int32_t group) const { return members_[at(group)]; }
  int32_t groupOf(int32_t rank) const { return groupOf_[at(rank)]; }
  // The number of members of its group that are lower.
  int32_t positionOf(int32_t rank) const { return positionOf_[at(rank)]; }

 private:
  static size_t at(int32_t index) { return static_cast<size_t>(index); }

  std::vector<std::vector<int32_t>> members_;
  std::vector<int32_t> groupOf_;
  std::vector<int32_t> positionOf_;
  int32_t largest_ = 0;
};

}  // namespace omnes::plan
