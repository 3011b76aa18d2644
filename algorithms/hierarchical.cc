// "hierarchical": within the groups that share memory, then between them, then within again; for
// long messages, or many ranks, where what joins the groups is slower than what they share.
//
// The combinators of plan/hierarchical.h do it, for any number of levels and any sizes of groups.
// Between the groups it is "direct" for up to eight of them, whose order of additions is the best
// and whose steps work on different slices side by side, and "circulant" beyond, for fewer
// messages. Without a hierarchy, or with one that says nothing, all ranks are one group, and it is
// "direct".
//
// Credits: 2 between groups, where a chunk is taken a wave after it was sent.
#include "plan/hierarchical.h"

#include <cassert>

#include "algorithms/families.h"
#include "plan/verifier.h"

namespace omnes::algorithms {
namespace {

using plan::Collective;
using plan::Hierarchy;
using plan::Plan;

constexpr int32_t kMostForDirect = 8;

// What there is to go by: nothing when the ranks are equal, as far as the request knows.
Hierarchy hierarchyOf(const PlanRequest& request) {
  return request.hierarchy == nullptr ? Hierarchy::flat(request.nranks)
                                      : plan::simplified(*request.hierarchy);
}

bool supportsHierarchy(const PlanRequest& request) {
  if (!supportsFlat(request)) return false;
  return request.hierarchy == nullptr || (request.hierarchy->nranks == request.nranks &&
                                          plan::checkHierarchy(*request.hierarchy).isOk());
}

Plan flatPlan(Collective collective, const char* name, int32_t rank, int32_t nranks) {
  const Algorithm* algorithm = find(collective, name);
  assert(algorithm != nullptr);
  return algorithm->make({.rank = rank, .nranks = nranks});
}

Plan betweenGroups(Collective collective, int32_t rank, int32_t nranks) {
  return flatPlan(collective, nranks <= kMostForDirect ? "direct" : "circulant", rank, nranks);
}

template <Collective collective>
Plan make(const PlanRequest& request) {
  const Hierarchy hierarchy = hierarchyOf(request);
  if (hierarchy.levels.empty()) {
    Plan plan = flatPlan(collective, "direct", request.rank, request.nranks);
    plan.algorithm = "hierarchical";
    return plan;
  }
  switch (collective) {
    case Collective::kAllReduce:
      return plan::hierarchicalAllReduce(hierarchy, request.rank, betweenGroups);
    case Collective::kAllGather:
      return plan::hierarchicalAllGather(hierarchy, request.rank, betweenGroups);
    case Collective::kReduceScatter:
      return plan::hierarchicalReduceScatter(hierarchy, request.rank, betweenGroups);
    default: return plan::hierarchicalAllToAll(hierarchy, request.rank);
  }
}

// g ranks in the group of a rank, H groups, L ranks in the largest, m of L parts for the rank. What
// it sends and adds within its group, and between the groups ("direct").
struct Shares {
  int64_t g = 1, groups = 1, largest = 1, parts = 1;
};

Shares sharesOf(const plan::Groups& groups, int32_t rank) {
  const int64_t g = groups.sizeOf(groups.groupOf(rank)), largest = groups.largest();
  const int64_t position = groups.positionOf(rank);
  const auto firstOf = [&](int64_t at) { return (at * largest + g - 1) / g; };
  return {g, groups.count(), largest, firstOf(position + 1) - firstOf(position)};
}

Cost costOfAllReduce(const Shares& s, int64_t rounds) {
  const int64_t h = s.groups;  // also the blocks of a part
  return {.rounds = rounds,
          .messages = 2 * (s.g - 1) + 2 * (h - 1) * s.parts,
          .inputBlocks = h * (s.largest - s.parts) + (s.g - 1) * h * s.parts + (h - 1) * s.parts,
          .partialBlocks = (h - 1) * s.parts,
          .operands = (s.g + 1) * h * s.parts};
}

// Of groups of g neighbours each: one part a rank, H blocks in it.
Cost costOfRegular(Collective collective, const Shares& s) {
  const int64_t g = s.g, h = s.groups;
  switch (collective) {
    case Collective::kAllGather:
      return {.rounds = 2, .messages = g - 1 + h - 1, .inputBlocks = h - 1 + (g - 1) * h};
    case Collective::kReduceScatter:
      return {.rounds = 2,
              .messages = g - 1 + h - 1,
              .inputBlocks = (g - 1) * h,
              .partialBlocks = h - 1,
              .operands = g * h + h};
    default:
      return {
          .rounds = 2, .messages = 2 * (g - 1) + h - 1, .inputBlocks = (g - 1) * h + (h - 1) * g};
  }
}

bool areRegular(const plan::Groups& groups) {
  for (int32_t group = 0; group < groups.count(); ++group) {
    const auto members = groups.membersOf(group);
    if (groups.sizeOf(group) != groups.largest() ||
        members.back() - members.front() != groups.largest() - 1)
      return false;
  }
  return true;
}

plan::FlatHops hopsBetween(Collective collective, int32_t nranks) {
  const bool isDirect = nranks <= kMostForDirect;
  const Algorithm* algorithm = find(collective, isDirect ? "direct" : "circulant");
  return {algorithm->cost({.rank = 0, .nranks = nranks}).rounds, isDirect};
}

// The formulas above hold for one level of up to eight groups, those but the all-reduce's for
// regular ones. The runs into which uneven lists of blocks are cut have none: there it is counted
// from the plan, and the rounds are the most that there can be (plan/hierarchical.h).
template <Collective collective>
Cost cost(const PlanRequest& request) {
  const Hierarchy hierarchy = hierarchyOf(request);
  if (hierarchy.levels.empty()) return find(collective, "direct")->cost(request);
  const plan::Groups groups(hierarchy.levels[0]);
  const bool isExact = hierarchy.levels.size() == 1 && groups.count() <= kMostForDirect;
  if (isExact && collective != Collective::kAllReduce && areRegular(groups))
    return costOfRegular(collective, sharesOf(groups, request.rank));
  const int64_t rounds = collective == Collective::kAllToAll
                             ? plan::hierarchicalAllToAllRounds(hierarchy)
                             : plan::hierarchicalRounds(collective, hierarchy, hopsBetween);
  if (isExact && collective == Collective::kAllReduce)
    return costOfAllReduce(sharesOf(groups, request.rank), rounds);
  const plan::Counters counted = plan::countersOf(make<collective>(request));
  return {.rounds = rounds,
          .messages = counted.messages,
          .inputBlocks = counted.inputBlocks,
          .partialBlocks = counted.partialBlocks,
          .operands = counted.operands};
}

template <Collective collective>
constexpr Algorithm entry(bool equivariant) {
  return {"hierarchical",   collective, supportsHierarchy, make<collective>,
          cost<collective>, false,      equivariant};
}

constexpr Algorithm kFamily[] = {
    entry<Collective::kAllReduce>(false), entry<Collective::kReduceScatter>(false),
    entry<Collective::kAllGather>(true), entry<Collective::kAllToAll>(true)};

}  // namespace

std::span<const Algorithm> hierarchicalFamily() { return kFamily; }

}  // namespace omnes::algorithms
