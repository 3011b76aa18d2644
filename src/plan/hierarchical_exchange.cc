// The hierarchical all-to-all.
//
// Item (s, d) is the block that rank s has for rank d. In phase k = 0, 1, ... it moves within the
// group of level k that s belongs to; after the last phase, which is among all ranks, it is at d.
// Every rank knows the way of every item, so both ends of a link list the same items in the same
// order.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "plan/builder.h"
#include "plan/hierarchical.h"
#include "plan/weave.h"

namespace omnes::plan {
namespace {

constexpr int32_t kMinCredits = 2;

struct Item {
  int32_t source = 0;
  int32_t destination = 0;
};

// A chunk: items that travel together from one rank to another in one phase.
struct Chunk {
  std::vector<Item> items;
  bool isFinal = false;  // the receiver is their destination
};

class Router {
 public:
  explicit Router(const Hierarchy& hierarchy);

  int32_t phases() const { return static_cast<int32_t>(levels_.size()) + 1; }
  // Who has it after a phase; phase -1: before the first.
  int32_t holder(int32_t phase, const Item& item) const;
  // The ranks that `rank` may exchange with in a phase, and the sources of what it may have then.
  std::vector<int32_t> reachOf(int32_t phase, int32_t rank) const;
  // Whether the group of a rank has several parts in a phase. If not, nothing moves.
  bool isActive(int32_t phase, int32_t rank) const;
  // What goes from one rank to another in a phase, in the order and the pieces of the plan.
  std::vector<Chunk> chunksOf(int32_t phase, int32_t from, int32_t to) const;

  // The most chunks that a rank has for another in a phase.
  size_t mostChunks(int32_t phase) const;

  int32_t scratchBlocks() const { return static_cast<int32_t>(levels_.size()) * copies_ * nranks_; }
  int32_t longestChunk() const { return longest_; }
  // How many waves after it was sent a chunk is taken: one in the last phase of regular groups of
  // one level, where a link carries one chunk a slice. Elsewhere chunks are taken in rounds.
  uint16_t lateness(int32_t phase) const {
    return isRegular() && levels_.size() == 1 && phase == 1 ? 1 : 0;
  }
  // Whether the groups are equally large and of neighbours: then no two items that a rank keeps in
  // a phase have the same extent, and in every phase a chunk is one run.
  bool isRegular() const { return copies_ == 1; }

  int32_t extentOf(const Item& item) const {
    return (item.destination - item.source + nranks_) % nranks_;
  }
  // Where a rank keeps it in the scratch of a phase.
  int32_t scratchIndex(int32_t phase, const Item& item) const {
    return (phase * copies_ + copyOf(item.source)) * nranks_ + extentOf(item);
  }

 private:
  // Position of a rank's unit within its group of a level: of the groups of the level inside, or of
  // ranks.
  struct Tree {
    Groups groups;
    std::vector<std::vector<int32_t>> unitsOf;  // by group: groups of the level inside, or ranks
    std::vector<int32_t> unitPosition;          // by rank
  };
  int32_t copyOf(int32_t source) const {
    return copies_ == 1 ? 0 : levels_.back().groups.positionOf(source);
  }
  // The items of a list in pieces that are one run at both ends.
  void cut(const std::vector<Item>& list, bool isFinal, std::vector<Chunk>* chunks) const;
  // Inside group `group` of a level: the rank at the place that `destination` has in its own group.
  int32_t counterpart(int32_t level, int32_t group, int32_t destination) const;

  int32_t nranks_;
  std::vector<Tree> levels_;
  int32_t copies_ = 1;
  int32_t longest_ = 1;
};

bool isRegularLevel(const Groups& groups) {
  for (int32_t group = 0; group < groups.count(); ++group) {
    const auto members = groups.membersOf(group);
    if (groups.sizeOf(group) != groups.largest() ||
        members.back() - members.front() != groups.largest() - 1)
      return false;
  }
  return true;
}

Router::Router(const Hierarchy& hierarchy) : nranks_(hierarchy.nranks) {
  bool isRegular = true;
  for (size_t l = 0; l < hierarchy.levels.size(); ++l) {
    Tree tree{Groups(hierarchy.levels[l]), {}, {}};
    tree.unitsOf.resize(static_cast<size_t>(tree.groups.count()));
    tree.unitPosition.resize(static_cast<size_t>(nranks_));
    for (int32_t rank = 0; rank < nranks_; ++rank) {
      const int32_t unit = l == 0 ? rank : levels_[l - 1].groups.groupOf(rank);
      auto& units = tree.unitsOf[static_cast<size_t>(tree.groups.groupOf(rank))];
      const auto place = std::find(units.begin(), units.end(), unit);
      tree.unitPosition[static_cast<size_t>(rank)] = static_cast<int32_t>(place - units.begin());
      if (place == units.end()) units.push_back(unit);
    }
    isRegular = isRegular && isRegularLevel(tree.groups);
    longest_ = std::max(longest_, nranks_ / std::max(tree.groups.largest(), 1));
    levels_.push_back(std::move(tree));
  }
  copies_ = isRegular ? 1 : levels_.back().groups.largest();
  longest_ = std::max(longest_, levels_.back().groups.largest());
}

int32_t Router::counterpart(int32_t level, int32_t group, int32_t destination) const {
  for (;; --level) {
    const Tree& tree = levels_[static_cast<size_t>(level)];
    const auto& units = tree.unitsOf[static_cast<size_t>(group)];
    const auto wanted = static_cast<size_t>(tree.unitPosition[static_cast<size_t>(destination)]);
    group = units[wanted % units.size()];
    if (level == 0) return group;
  }
}

int32_t Router::holder(int32_t phase, const Item& item) const {
  if (phase < 0) return item.source;
  if (phase + 1 == phases()) return item.destination;
  return counterpart(phase, levels_[static_cast<size_t>(phase)].groups.groupOf(item.source),
                     item.destination);
}

std::vector<int32_t> Router::reachOf(int32_t phase, int32_t rank) const {
  if (phase < 0) return {rank};
  std::vector<int32_t> ranks;
  if (phase + 1 == phases()) {
    for (int32_t other = 0; other < nranks_; ++other) ranks.push_back(other);
  } else {
    const Groups& groups = levels_[static_cast<size_t>(phase)].groups;
    const auto members = groups.membersOf(groups.groupOf(rank));
    ranks.assign(members.begin(), members.end());
  }
  return ranks;
}

bool Router::isActive(int32_t phase, int32_t rank) const {
  if (phase + 1 == phases()) return true;
  const Tree& tree = levels_[static_cast<size_t>(phase)];
  return tree.unitsOf[static_cast<size_t>(tree.groups.groupOf(rank))].size() > 1;
}

std::vector<Chunk> Router::chunksOf(int32_t phase, int32_t from, int32_t to) const {
  std::vector<Item> lists[2];  // final, to be passed on
  for (const int32_t source : reachOf(phase - 1, from)) {
    for (int32_t extent = 0; extent < nranks_; ++extent) {
      const Item item{source, (source + extent) % nranks_};
      const bool isThere = from == item.destination;
      if (isThere || holder(phase - 1, item) != from || holder(phase, item) != to) continue;
      lists[item.destination == to ? 0 : 1].push_back(item);
    }
  }
  std::vector<Chunk> chunks;
  cut(lists[0], true, &chunks);
  cut(lists[1], false, &chunks);
  return chunks;
}

void Router::cut(const std::vector<Item>& list, bool isFinal, std::vector<Chunk>* chunks) const {
  // Evenly spaced wherever either end may keep them: by extent alone in input, output and a single
  // copy of scratch, by copy as well in several.
  std::vector<int32_t> places;
  for (const Item& item : list) places.push_back(scratchIndex(0, item));
  size_t begin = 0;
  while (begin < list.size()) {
    const auto numbers = std::span(places).subspan(begin);
    size_t count = stretchesOf(numbers, static_cast<size_t>(longest_)).front().count;
    // A block of the input or the output belongs to one rank; and no extent twice in a chunk.
    const auto fits = [&](size_t n) {
      bool oneSource = true, oneDestination = true;
      for (size_t i = begin; i < begin + n; ++i) {
        oneSource = oneSource && list[i].source == list[begin].source;
        oneDestination = oneDestination && list[i].destination == list[begin].destination;
      }
      return oneSource || oneDestination;
    };
    while (copies_ > 1 && !fits(count)) --count;
    chunks->push_back({{list.begin() + static_cast<std::ptrdiff_t>(begin),
                        list.begin() + static_cast<std::ptrdiff_t>(begin + count)},
                       isFinal});
    begin += count;
  }
}

size_t Router::mostChunks(int32_t phase) const {
  size_t most = 0;
  for (int32_t from = 0; from < nranks_; ++from) {
    if (!isActive(phase, from)) continue;
    // As chunksOf(), for all receivers in one go.
    std::map<int32_t, std::vector<Item>> lists[2];
    for (const int32_t source : reachOf(phase - 1, from)) {
      for (int32_t extent = 0; extent < nranks_; ++extent) {
        const Item item{source, (source + extent) % nranks_};
        if (from == item.destination || holder(phase - 1, item) != from) continue;
        const int32_t to = holder(phase, item);
        if (to != from) lists[item.destination == to ? 0 : 1][to].push_back(item);
      }
    }
    std::map<int32_t, std::vector<Chunk>> chunks;
    for (const bool isFinal : {true, false})
      for (const auto& [to, list] : lists[isFinal ? 0 : 1]) cut(list, isFinal, &chunks[to]);
    for (const auto& [to, list] : chunks) most = std::max(most, list.size());
  }
  return most;
}

// Writes one rank's plan.
class Exchange {
 public:
  Exchange(const Router& router, int32_t rank, Plan* plan)
      : router_(router), rank_(rank), plan_(*plan) {}

  void run();

 private:
  using Peers = std::vector<std::pair<int32_t, std::vector<Chunk>>>;

  void addPhase(int32_t phase);
  void add(uint16_t delay, Ref source, Ref sink) {
    Step step;
    step.delay = delay;
    step.sources.push_back(source);
    step.sinks.push_back(sink);
    plan_.lanes.back().steps.push_back(std::move(step));
  }
  // Where this rank has the items of a chunk before a phase, and where it puts those that it gets.
  Ref before(const Chunk& chunk) const;
  Ref behind(int32_t phase, const Chunk& chunk) const;

  const Router& router_;
  int32_t rank_;
  Plan& plan_;
  int32_t kept_ = -1;  // the phase in whose scratch its items are; -1: the input
};

Ref Exchange::before(const Chunk& chunk) const {
  std::vector<int32_t> indices;
  for (const Item& item : chunk.items) {
    // Counted on beyond the last block, as indices are.
    indices.push_back(kept_ < 0 ? rank_ + router_.extentOf(item)
                                : router_.scratchIndex(kept_, item));
  }
  return slice(kept_ < 0 ? Space::kInput : Space::kScratch, indices, Mark::kInput);
}

Ref Exchange::behind(int32_t phase, const Chunk& chunk) const {
  std::vector<int32_t> indices;
  for (const Item& item : chunk.items)
    indices.push_back(chunk.isFinal ? rank_ - router_.extentOf(item)
                                    : router_.scratchIndex(phase, item));
  return slice(chunk.isFinal ? Space::kOutput : Space::kScratch, indices, Mark::kInput);
}

void Exchange::addPhase(int32_t phase) {
  if (!router_.isActive(phase, rank_)) return;
  const uint16_t late = router_.lateness(phase);
  std::vector<int32_t> peers = router_.reachOf(phase, rank_);
  // Beginning behind the own rank.
  std::rotate(peers.begin(), std::upper_bound(peers.begin(), peers.end(), rank_), peers.end());
  Peers out, in;
  size_t rounds = 0;
  for (const int32_t peer : peers) {
    if (peer == rank_) continue;
    out.emplace_back(peer, router_.chunksOf(phase, rank_, peer));
    in.emplace_back(peer, router_.chunksOf(phase, peer, rank_));
    rounds = std::max({rounds, out.back().second.size(), in.back().second.size()});
  }
  for (const Chunk& chunk : router_.chunksOf(phase, rank_, rank_))
    add(0, before(chunk), behind(phase, chunk));
  // As many chunks at once as a link has slots: the fewer turns, the fewer hops in a row.
  for (size_t turn = 0; turn < rounds; turn += kMinCredits) {
    for (size_t round = turn; round < turn + kMinCredits; ++round)
      for (const auto& [peer, chunks] : out)
        if (round < chunks.size())
          add(0, before(chunks[round]), linkRef(kStreamForth, at(peer), Mark::kInput));
    for (size_t round = turn; round < turn + kMinCredits; ++round)
      for (const auto& [peer, chunks] : in)
        if (round < chunks.size())
          add(late, linkRef(kStreamForth, at(peer), Mark::kInput), behind(phase, chunks[round]));
  }
  kept_ = phase;
}

void Exchange::run() {
  add(0, inputRef(at(rank_)), outputRef(at(rank_)));
  for (int32_t phase = 0; phase < router_.phases(); ++phase) addPhase(phase);
}

}  // namespace

int64_t hierarchicalAllToAllRounds(const Hierarchy& hierarchy) {
  const Router router(hierarchy);
  size_t rounds = 0;
  for (int32_t phase = 0; phase < router.phases(); ++phase)
    rounds += (router.mostChunks(phase) + kMinCredits - 1) / kMinCredits;
  return static_cast<int64_t>(rounds);
}

Plan hierarchicalAllToAll(const Hierarchy& hierarchy, int32_t rank) {
  const Router router(hierarchy);
  Builder builder(Collective::kAllToAll, "hierarchical", rank, hierarchy.nranks);
  builder.minCredits(kMinCredits).scratch(router.scratchBlocks());
  Plan plan = builder.build();
  Exchange(router, rank, &plan).run();
  plan.maxInputChunkBlocks = router.longestChunk();
  // What is lent out of scratch comes back as late as it is taken: not in the wave that writes the
  // next slice there.
  plan.scratchCopies = 1 + router.lateness(router.phases() - 1);
  normalise(plan);
  return plan;
}

}  // namespace omnes::plan
