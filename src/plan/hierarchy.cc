#include "plan/hierarchy.h"

#include <algorithm>
#include <map>
#include <string>

namespace omnes::plan {
namespace {

using base::Code;
using base::Status;

// Its groups numbered by their lowest ranks.
Level renumbered(const Level& level) {
  std::map<int32_t, int32_t> numbers;
  Level out;
  out.group.reserve(level.group.size());
  for (const int32_t group : level.group)
    out.group.push_back(
        numbers.try_emplace(group, static_cast<int32_t>(numbers.size())).first->second);
  return out;
}

int32_t groupsIn(const Level& renumbered) {
  const auto most = std::max_element(renumbered.group.begin(), renumbered.group.end());
  return most == renumbered.group.end() ? 0 : *most + 1;
}

}  // namespace

Status checkHierarchy(const Hierarchy& hierarchy) {
  for (size_t l = 0; l < hierarchy.levels.size(); ++l) {
    const std::vector<int32_t>& group = hierarchy.levels[l].group;
    if (group.size() != static_cast<size_t>(std::max(hierarchy.nranks, 0)))
      return Status(Code::kInvalidArgument, "level " + std::to_string(l) +
                                                " of the hierarchy names groups of " +
                                                std::to_string(group.size()) + " ranks, not of " +
                                                std::to_string(hierarchy.nranks));
    if (l == 0) continue;
    std::map<int32_t, int32_t> outerOf;
    for (size_t rank = 0; rank < group.size(); ++rank) {
      const int32_t inner = hierarchy.levels[l - 1].group[rank];
      if (outerOf.try_emplace(inner, group[rank]).first->second != group[rank])
        return Status(Code::kInvalidArgument,
                      "level " + std::to_string(l) + " of the hierarchy takes rank " +
                          std::to_string(rank) + " out of its group of level " +
                          std::to_string(l - 1));
    }
  }
  return Status::ok();
}

Hierarchy simplified(const Hierarchy& hierarchy) {
  Hierarchy out = Hierarchy::flat(hierarchy.nranks);
  for (const Level& level : hierarchy.levels) {
    Level next = renumbered(level);
    const int32_t groups = groupsIn(next);
    if (groups == hierarchy.nranks || groups <= 1) continue;
    if (!out.levels.empty() && next == out.levels.back()) continue;
    out.levels.push_back(std::move(next));
  }
  return out;
}

Hierarchy unitsOf(const Hierarchy& hierarchy) {
  const Groups units(hierarchy.levels[0]);
  Hierarchy out = Hierarchy::flat(units.count());
  for (size_t l = 1; l < hierarchy.levels.size(); ++l) {
    Level level;
    for (int32_t unit = 0; unit < units.count(); ++unit)
      level.group.push_back(
          hierarchy.levels[l].group[static_cast<size_t>(units.membersOf(unit)[0])]);
    out.levels.push_back(std::move(level));
  }
  return out;
}

Groups::Groups(const Level& level) : groupOf_(renumbered(level).group) {
  for (size_t rank = 0; rank < groupOf_.size(); ++rank) {
    if (at(groupOf_[rank]) == members_.size()) members_.emplace_back();
    std::vector<int32_t>& members = members_[at(groupOf_[rank])];
    positionOf_.push_back(static_cast<int32_t>(members.size()));
    members.push_back(static_cast<int32_t>(rank));
    largest_ = std::max(largest_, static_cast<int32_t>(members.size()));
  }
}

}  // namespace omnes::plan
