// Hierarchical collectives: plans for groups of ranks made from plans for equal ranks.
//
// A level's groups share something that is faster than what joins the groups. So a collective does
// within the groups what can be done there, lets one member of each group speak for it about a part
// of the data, and does the rest within the groups again; between the groups it is a collective of
// the groups as units, hierarchical itself when there are more levels. Groups may have any sizes.
//
// With L members in the largest group there are L parts; part m belongs, in a group of g members,
// to the member at position floor(m g / L). So in the largest group each member has one part and,
// in a smaller one, several.
//
// The hierarchy must be valid and simplified, and have a level. `flat` gives a plan for equal
// ranks: a proven one, without untouched contributions of others in scratch; its first lane is
// used.
//
// Pure functions. Two slots a link are enough for all results.
#pragma once

#include <cstdint>

#include "plan/hierarchy.h"
#include "plan/plan.h"

namespace omnes::plan {

using FlatMaker = Plan (*)(Collective collective, int32_t rank, int32_t nranks);

// Within each group every part is added by its owner; the owners of a part all-reduce it between
// the groups; then they give the result to their group. A part has as many blocks as the plan
// between the groups wants.
Plan hierarchicalAllReduce(const Hierarchy& hierarchy, int32_t rank, FlatMaker flat);

// Every block is gathered by one member of every group, between the groups first; then the members
// of a group give each other what they have.
Plan hierarchicalAllGather(const Hierarchy& hierarchy, int32_t rank, FlatMaker flat);

// The other way round: within a group every block is added by one member, then between the groups.
Plan hierarchicalReduceScatter(const Hierarchy& hierarchy, int32_t rank, FlatMaker flat);

// The most link hops that follow from each other in one of the three above, where `flat` has so
// many among equal ranks. What makes it more than one way there, one between the groups and one
// back:
// * A rank with several parts does one after the other, and whoever shares a part with it waits. So
//   the most parts in a row count of which each shares an owner with the next: all L of them when
//   there is a group of one rank. It does them side by side, and they count once, if each hop of
//   `flat` is taken in a wave of its own and no two ranks meet in several parts, as they do in
//   groups of 4, 2 and 2 ranks: for that a link would need more slots.
// * Blocks of a member that are not evenly spaced are several chunks, of which as many as a link
//   has slots (two) take one hop.
// Exact for an all-reduce of one level with "direct" between the groups.
struct FlatHops {
  int64_t count = 0;           // in a row
  bool eachInItsWave = false;  // what one hop brings is sent on a wave (a delay) later
};
using FlatCounter = FlatHops (*)(Collective collective, int32_t nranks);
int64_t hierarchicalRounds(Collective collective, const Hierarchy& hierarchy, FlatCounter flat);

// Within each group a block goes to the member that has the position of its destination in the
// destination's group; then between the groups, level by level in the same way, and in the last
// step to the destination itself. So one message a pair of groups and position carries what all
// members of a group have for a rank.
Plan hierarchicalAllToAll(const Hierarchy& hierarchy, int32_t rank);

// The most link hops that follow from each other in it: one a phase, and one more for each two
// chunks that some rank has for another in a phase beyond the first two. Uneven groups and ranks
// that are no neighbours have more chunks.
int64_t hierarchicalAllToAllRounds(const Hierarchy& hierarchy);

}  // namespace omnes::plan
