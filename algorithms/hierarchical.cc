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

template <Collective collective>
Cost cost(const PlanRequest& request) {
  return find(collective, "direct")->cost(request);
}

template <Collective collective>
constexpr Algorithm entry(bool equivariant) {
  return {"hierarchical",   collective, supportsHierarchy, make<collective>,
          cost<collective>, false,      equivariant};
}

constexpr Algorithm kFamily[] = {entry<Collective::kAllReduce>(false),
                                 entry<Collective::kReduceScatter>(false),
                                 entry<Collective::kAllGather>(true)};

}  // namespace

std::span<const Algorithm> hierarchicalFamily() { return kFamily; }

}  // namespace omnes::algorithms
