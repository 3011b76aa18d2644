#include "plan/hierarchical.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "plan/builder.h"
#include "plan/weave.h"

namespace omnes::plan {
namespace {

constexpr int32_t kMinCredits = 2;

// One level, seen by one rank: who owns which of its L parts.
class Parts {
 public:
  Parts(const Hierarchy& hierarchy, int32_t rank)
      : groups_(hierarchy.levels[0]),
        rank_(rank),
        group_(groups_.groupOf(rank)),
        position_(groups_.positionOf(rank)) {}

  const Groups& groups() const { return groups_; }
  int32_t count() const { return groups_.largest(); }
  int32_t group() const { return group_; }
  int32_t position() const { return position_; }
  std::span<const int32_t> members() const { return groups_.membersOf(group_); }
  int32_t size() const { return groups_.sizeOf(group_); }

  // The parts of the member at a position of a group: from firstOf on, behindOf is not one any
  // more.
  int32_t firstOf(int32_t group, int32_t position) const {
    const int32_t g = groups_.sizeOf(group);
    return (position * count() + g - 1) / g;
  }
  int32_t behindOf(int32_t group, int32_t position) const { return firstOf(group, position + 1); }

  // The owner of a part in each group.
  std::vector<int32_t> ownersOf(int32_t part) const {
    std::vector<int32_t> owners;
    for (int32_t group = 0; group < groups_.count(); ++group)
      owners.push_back(groups_.membersOf(
          group)[static_cast<size_t>(int64_t{part} * groups_.sizeOf(group) / count())]);
    return owners;
  }

  // Where each rank has a block of its own: the ranks whose blocks part `part` is made of, by
  // group; -1 for a group that adds none. A rank's block is in the first of its parts.
  int32_t rankIn(int32_t part, int32_t group) const {
    const int32_t position = static_cast<int32_t>(int64_t{part} * groups_.sizeOf(group) / count());
    return firstOf(group, position) == part
               ? groups_.membersOf(group)[static_cast<size_t>(position)]
               : -1;
  }
  std::vector<std::vector<int32_t>> blocksOf(int32_t part) const {
    std::vector<std::vector<int32_t>> blocks(static_cast<size_t>(groups_.count()));
    for (int32_t group = 0; group < groups_.count(); ++group)
      if (const int32_t rank = rankIn(part, group); rank >= 0)
        blocks[static_cast<size_t>(group)].push_back(rank);
    return blocks;
  }
  // All blocks of the parts of a member of a group, ascending.
  std::vector<int32_t> heldBy(int32_t group, int32_t position) const {
    std::vector<int32_t> held;
    for (int32_t part = firstOf(group, position); part < behindOf(group, position); ++part)
      for (const auto& blocks : blocksOf(part))
        held.insert(held.end(), blocks.begin(), blocks.end());
    std::sort(held.begin(), held.end());
    return held;
  }

  // Whether some pair of ranks meets in several parts: then a link carries several chunks of a
  // slice in a row, for which slots are too few if they are taken a wave later.
  bool pairsMeetAgain() const;
  // The most parts in a row of which each shares an owner with the next, in one group or another.
  int32_t longestRow() const;

 private:
  const Groups groups_;
  int32_t rank_;
  int32_t group_;
  int32_t position_;
};

bool Parts::pairsMeetAgain() const {
  // How many groups have each size; two with all members own no two parts together.
  std::vector<int32_t> groupsOfSize(static_cast<size_t>(count()) + 1);
  for (int32_t group = 0; group < groups_.count(); ++group)
    ++groupsOfSize[static_cast<size_t>(groups_.sizeOf(group))];
  for (int64_t a = 1; a < count(); ++a) {
    for (int64_t b = a; b < count(); ++b) {
      const bool bothThere = groupsOfSize[static_cast<size_t>(a)] > 0 &&
                             groupsOfSize[static_cast<size_t>(b)] > (a == b ? 1 : 0);
      if (!bothThere) continue;
      for (int64_t part = 1; part < count(); ++part)
        if (part * a / count() == (part - 1) * a / count() &&
            part * b / count() == (part - 1) * b / count())
          return true;
    }
  }
  return false;
}

int32_t Parts::longestRow() const {
  int32_t longest = 1;
  int32_t row = 1;
  for (int32_t part = 1; part < count(); ++part) {
    bool isShared = false;
    for (int32_t group = 0; group < groups_.count() && !isShared; ++group) {
      const int64_t g = groups_.sizeOf(group);
      isShared = part * g / count() == (part - 1) * g / count();
    }
    row = isShared ? row + 1 : 1;
    longest = std::max(longest, row);
  }
  return longest;
}

// The members of a group but the own one, beginning behind it.
std::vector<int32_t> othersOfGroup(const Parts& parts) {
  std::vector<int32_t> positions;
  for (int32_t i = 1; i < parts.size(); ++i)
    positions.push_back((parts.position() + i) % parts.size());
  return positions;
}

int32_t memberAt(const Parts& parts, int32_t position) {
  return parts.members()[static_cast<size_t>(position)];
}

void addMove(Plan* plan, uint16_t delay, std::vector<Ref> sources, Op op, std::vector<Ref> sinks) {
  Step step;
  step.op = op;
  step.delay = delay;
  step.sources = std::move(sources);
  step.sinks = std::move(sinks);
  plan->lanes.back().steps.push_back(std::move(step));
}

// What every member of a group sends to each other or gets from each other: lists of extents, cut.
class GroupLists {
 public:
  explicit GroupLists(std::vector<std::vector<int32_t>> lists) : lists_(std::move(lists)) {
    for (const auto& list : lists_) {
      stretches_.push_back(stretchesOf(list));
      rounds_ = std::max(rounds_, stretches_.back().size());
    }
  }
  size_t rounds() const { return rounds_; }
  // Empty when the member has fewer.
  std::span<const int32_t> of(int32_t position, size_t round) const {
    const auto p = static_cast<size_t>(position);
    if (round >= stretches_[p].size()) return {};
    return std::span(lists_[p]).subspan(stretches_[p][round].begin, stretches_[p][round].count);
  }

 private:
  std::vector<std::vector<int32_t>> lists_;
  std::vector<std::vector<Stretch>> stretches_;
  size_t rounds_ = 0;
};

// What a member sends the others in a round of reduceInGroup(), and what it adds then.
void sendToOwners(const Parts& parts, const GroupLists& owned, size_t round, Plan* plan) {
  for (const int32_t other : othersOfGroup(parts)) {
    const auto theirs = owned.of(other, round);
    if (theirs.empty()) continue;
    addMove(plan, 0, {slice(Space::kInput, theirs, Mark::kInput)}, Op::kNone,
            {linkRef(kStreamForth, at(memberAt(parts, other)), Mark::kInput)});
  }
}
void addOwned(const Parts& parts, std::span<const int32_t> mine, Plan* plan) {
  if (mine.empty()) return;
  std::vector<Ref> operands;
  for (int32_t position = 0; position < parts.size(); ++position) {
    if (position == parts.position()) {
      operands.push_back(slice(Space::kInput, mine, Mark::kInput));
    } else {
      operands.push_back(linkRef(kStreamForth, at(memberAt(parts, position)), Mark::kInput));
    }
  }
  addMove(plan, 0, std::move(operands), Op::kReduce,
          {slice(Space::kScratch, mine, Mark::kPartial)});
}

// Every member sends the others what they own, and adds what it owns, in the order of the members,
// into scratch. As many chunks at once as a link has slots: the fewer turns, the fewer rounds.
void reduceInGroup(const Parts& parts, const GroupLists& owned, Plan* plan) {
  for (size_t turn = 0; turn < owned.rounds(); turn += kMinCredits) {
    const size_t end = std::min(owned.rounds(), turn + kMinCredits);
    for (size_t round = turn; round < end; ++round) sendToOwners(parts, owned, round, plan);
    for (size_t round = turn; round < end; ++round)
      addOwned(parts, owned.of(parts.position(), round), plan);
  }
}

// Every member sends the others what it has in the output, and takes what they have. In turns, as
// above.
void gatherInGroup(const Parts& parts, const GroupLists& held, uint16_t delay, Plan* plan) {
  const std::vector<int32_t> others = othersOfGroup(parts);
  if (others.empty()) return;
  std::vector<Ref> sinks;
  for (const int32_t other : others)
    sinks.push_back(linkRef(kStreamBack, at(memberAt(parts, other)), Mark::kInput));
  for (size_t turn = 0; turn < held.rounds(); turn += kMinCredits) {
    const size_t end = std::min(held.rounds(), turn + kMinCredits);
    for (size_t round = turn; round < end; ++round) {
      const auto mine = held.of(parts.position(), round);
      if (!mine.empty())
        addMove(plan, delay, {slice(Space::kOutput, mine, Mark::kInput)}, Op::kNone, sinks);
    }
    for (size_t round = turn; round < end; ++round) {
      for (const int32_t other : others) {
        const auto theirs = held.of(other, round);
        if (theirs.empty()) continue;
        addMove(plan, delay, {linkRef(kStreamBack, at(memberAt(parts, other)), Mark::kInput)},
                Op::kNone, {slice(Space::kOutput, theirs, Mark::kInput)});
      }
    }
  }
}

// The longest chunk within any group, for lists that each member of a group owns.
template <typename ListOf>
int32_t longestChunk(const Groups& groups, const ListOf& listOf) {
  size_t longest = 0;
  for (int32_t group = 0; group < groups.count(); ++group) {
    if (groups.sizeOf(group) == 1) continue;
    for (int32_t position = 0; position < groups.sizeOf(group); ++position)
      for (const Stretch& stretch : stretchesOf(listOf(group, position)))
        longest = std::max(longest, stretch.count);
  }
  return static_cast<int32_t>(longest);
}

Plan startPlan(Collective collective, int32_t rank, int32_t nranks, int32_t blocks) {
  Builder builder(collective, "hierarchical", rank, nranks);
  builder.minCredits(kMinCredits).blocks(blocks);
  return builder.build();
}

int32_t copiesOf(const Plan& part) { return (part.scratchBlocks + part.blocks - 1) / part.blocks; }

Plan betweenGroups(const Hierarchy& hierarchy, int32_t unit, FlatMaker flat,
                   Collective collective) {
  const Hierarchy units = simplified(unitsOf(hierarchy));
  if (units.levels.empty()) return flat(collective, unit, units.nranks);
  switch (collective) {
    case Collective::kAllReduce: return hierarchicalAllReduce(units, unit, flat);
    case Collective::kAllGather: return hierarchicalAllGather(units, unit, flat);
    default: return hierarchicalReduceScatter(units, unit, flat);
  }
}

// Turns of the longest exchange of whole blocks within any group.
int64_t turnsInGroups(const Parts& parts) {
  size_t turns = 0;
  for (int32_t group = 0; group < parts.groups().count(); ++group) {
    if (parts.groups().sizeOf(group) == 1) continue;
    for (int32_t position = 0; position < parts.groups().sizeOf(group); ++position)
      turns =
          std::max(turns, (stretchesOf(parts.heldBy(group, position)).size() + kMinCredits - 1) /
                              kMinCredits);
  }
  return static_cast<int64_t>(turns);
}

void finish(Plan* plan) {
  plan->scratchCopies = scratchCopiesFor(plan->lanes[0]);
  normalise(*plan);
}

}  // namespace

int64_t hierarchicalRounds(Collective collective, const Hierarchy& hierarchy, FlatCounter flat) {
  const Parts parts(hierarchy, 0);
  const Hierarchy units = simplified(unitsOf(hierarchy));
  const FlatHops between = units.levels.empty()
                               ? flat(collective, units.nranks)
                               : FlatHops{hierarchicalRounds(collective, units, flat), false};
  const bool isSideBySide = between.eachInItsWave && !parts.pairsMeetAgain();
  return (isSideBySide ? 1 : parts.longestRow()) * between.count +
         (collective == Collective::kAllReduce ? 2 : turnsInGroups(parts));
}

Plan hierarchicalAllReduce(const Hierarchy& hierarchy, int32_t rank, FlatMaker flat) {
  const Parts parts(hierarchy, rank);
  const Plan between = betweenGroups(hierarchy, parts.group(), flat, Collective::kAllReduce);
  const int32_t k = between.blocks;
  Plan plan = startPlan(Collective::kAllReduce, rank, hierarchy.nranks, parts.count() * k);
  // Copy 0 of the blocks holds the sums of the group, the others are the scratch between groups.
  plan.scratchBlocks = plan.blocks * (1 + copiesOf(between));

  const auto blocksOf = [&](int32_t group, int32_t position) {
    std::vector<int32_t> blocks(static_cast<size_t>(
        (parts.behindOf(group, position) - parts.firstOf(group, position)) * k));
    std::iota(blocks.begin(), blocks.end(), parts.firstOf(group, position) * k);
    return blocks;
  };
  std::vector<std::vector<int32_t>> lists;
  for (int32_t position = 0; position < parts.size(); ++position)
    lists.push_back(blocksOf(parts.group(), position));
  const GroupLists owned(std::move(lists));

  reduceInGroup(parts, owned, &plan);
  const bool oneDelay = parts.pairsMeetAgain();
  uint16_t delay = 0;
  for (int32_t part = parts.firstOf(parts.group(), parts.position());
       part < parts.behindOf(parts.group(), parts.position()); ++part) {
    const std::vector<int32_t> owners = parts.ownersOf(part);
    Embedding embedding{.ranks = owners,
                        .extents = {},
                        .input = Space::kScratch,
                        .inputCopy = 0,
                        .untouched = Mark::kPartial,
                        .scratchCopy = 1,
                        .oneDelay = oneDelay};
    for (int32_t i = 0; i < k; ++i) embedding.extents.push_back({part * k + i});
    delay = embed(between, embedding, &plan);
  }
  gatherInGroup(parts, owned, delay, &plan);

  const int32_t longest = longestChunk(parts.groups(), blocksOf);
  plan.maxInputChunkBlocks = std::max(longest, between.maxInputChunkBlocks);
  plan.maxPartialChunkBlocks = std::max(between.maxInputChunkBlocks, between.maxPartialChunkBlocks);
  finish(&plan);
  return plan;
}

Plan hierarchicalAllGather(const Hierarchy& hierarchy, int32_t rank, FlatMaker flat) {
  const Parts parts(hierarchy, rank);
  const Plan between = betweenGroups(hierarchy, parts.group(), flat, Collective::kAllGather);
  Plan plan = startPlan(Collective::kAllGather, rank, hierarchy.nranks, hierarchy.nranks);
  plan.scratchBlocks = plan.blocks * copiesOf(between);

  const bool oneDelay = parts.pairsMeetAgain();
  uint16_t delay = 0;
  for (int32_t part = parts.firstOf(parts.group(), parts.position());
       part < parts.behindOf(parts.group(), parts.position()); ++part) {
    const std::vector<int32_t> owners = parts.ownersOf(part);
    delay = embed(between, {.ranks = owners, .extents = parts.blocksOf(part), .oneDelay = oneDelay},
                  &plan);
  }
  std::vector<std::vector<int32_t>> lists;
  for (int32_t position = 0; position < parts.size(); ++position)
    lists.push_back(parts.heldBy(parts.group(), position));
  gatherInGroup(parts, GroupLists(std::move(lists)), delay, &plan);

  const int32_t longest = longestChunk(parts.groups(), [&](int32_t group, int32_t position) {
    return parts.heldBy(group, position);
  });
  plan.maxInputChunkBlocks = std::max(longest, between.maxInputChunkBlocks);
  finish(&plan);
  return plan;
}

Plan hierarchicalReduceScatter(const Hierarchy& hierarchy, int32_t rank, FlatMaker flat) {
  const Parts parts(hierarchy, rank);
  const Plan between = betweenGroups(hierarchy, parts.group(), flat, Collective::kReduceScatter);
  Plan plan = startPlan(Collective::kReduceScatter, rank, hierarchy.nranks, hierarchy.nranks);
  plan.scratchBlocks = plan.blocks * (1 + copiesOf(between));

  std::vector<std::vector<int32_t>> lists;
  for (int32_t position = 0; position < parts.size(); ++position)
    lists.push_back(parts.heldBy(parts.group(), position));
  reduceInGroup(parts, GroupLists(std::move(lists)), &plan);
  const bool oneDelay = parts.pairsMeetAgain();
  for (int32_t part = parts.firstOf(parts.group(), parts.position());
       part < parts.behindOf(parts.group(), parts.position()); ++part) {
    const std::vector<int32_t> owners = parts.ownersOf(part);
    embed(between,
          {.ranks = owners,
           .extents = parts.blocksOf(part),
           .input = Space::kScratch,
           .inputCopy = 0,
           .untouched = Mark::kPartial,
           .scratchCopy = 1,
           .oneDelay = oneDelay},
          &plan);
  }

  plan.maxInputChunkBlocks = longestChunk(parts.groups(), [&](int32_t group, int32_t position) {
    return parts.heldBy(group, position);
  });
  plan.maxPartialChunkBlocks = std::max(between.maxInputChunkBlocks, between.maxPartialChunkBlocks);
  finish(&plan);
  return plan;
}

}  // namespace omnes::plan
