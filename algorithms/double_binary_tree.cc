// "double_binary_tree": all-reduce, broadcast and reduce on two binary trees at once, each of which
// carries half of the slices; for middle sizes between many hosts.
//
// A binary tree alone wastes links: its leaves, half of the ranks, never send downwards (or never
// receive upwards). So lane 0 uses a tree in which the ranks at even places are inner nodes, and
// lane 1 the same tree moved by one place, in which the others are. Every rank is an inner node in
// at most one of the trees, and with half of the message on each no rank sends or receives much
// more than the message once, in either direction. (Sanders, Speck and Traeff, see
// docs/algorithms.md.)
//
// The tree over places 1 .. m is read in order; the level of a place is its lowest set bit b:
//
//     m = 6        4            left child   p - b/2
//                /   \          right child  p + b/2, or p + b/4, ... the first that is <= m
//              2       6        root         the largest power of two <= m
//             / \     /
//            1   3   5          odd places are the leaves, even ones have a left child
//
// All-reduce: m = n, member u = rank u. Broadcast and reduce: the trees are over the other m = n -
// 1 ranks, member u = root + 1 + u, and the root is attached above the root of each tree. In lane l
// member u has place (u + l) mod m + 1.
//   up    {left child, own contribution, right child} to the parent
//   down  from the parent, keep and send to both children
// The root of a tree sends the result down in the step that adds it.
//
// Order of additions: a node adds its left subtree, itself and its right subtree, which are three
// ranges of places in a row: a bracketed sum in the order of the places. That is the order of the
// ranks in lane 0; in lane 1 the last member comes first. The root of a reduce comes before all.
//
// Delays: up 0; down 2t at depth t in the all-reduce, for the reason given in tree_all_reduce.cc;
// broadcast and reduce alone go one way and need none.
//
// Credits: one way 1, as in knomial.cc; the all-reduce 2, as in tree_all_reduce.cc.
#include <algorithm>
#include <vector>

#include "algorithms/families.h"
#include "plan/builder.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::inputRef;
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::outputRef;
using plan::Plan;
using plan::Ref;
using plan::streamOf;

constexpr std::string_view kName = "double_binary_tree";
constexpr int kTrees = 2;
constexpr int32_t kDelayPerLevel = 2;

// The tree over places 1 .. places; 0 stands for "none".
struct InOrderTree {
  int32_t places;

  static bool isLeaf(int32_t place) { return place % 2 == 1; }
  int32_t root() const {
    int32_t place = 1;
    while (place <= places / 2) place *= 2;
    return place;
  }
  static int32_t leftOf(int32_t place) { return isLeaf(place) ? 0 : place - lowBit(place) / 2; }
  int32_t rightOf(int32_t place) const {
    for (int32_t step = lowBit(place) / 2; step > 0; step /= 2)
      if (place + step <= places) return place + step;
    return 0;
  }
  int32_t childrenOf(int32_t place) const {
    return (leftOf(place) > 0 ? 1 : 0) + (rightOf(place) > 0 ? 1 : 0);
  }
  // Of the tree without an end, until there is one within it.
  int32_t parentOf(int32_t place) const {
    if (place == root()) return 0;
    int64_t parent = place;
    do {
      const int64_t bit = parent & -parent;
      parent += (parent & (2 * bit)) != 0 ? -bit : bit;
    } while (parent > places);
    return static_cast<int32_t>(parent);
  }
  int32_t depthOf(int32_t place) const {
    int32_t depth = 0;
    for (; place != root(); place = parentOf(place)) ++depth;
    return depth;
  }
  // The left subtree of the root is complete, and no other place is deeper.
  int32_t depth() const {
    int32_t depth = 0;
    while (places >> (depth + 1) > 0) ++depth;
    return depth;
  }

 private:
  static int32_t lowBit(int32_t place) { return place & -place; }
};

// One rank's place in the tree of one lane.
struct Place {
  InOrderTree tree;
  int32_t lane;
  int32_t first;  // rank of member 0
  int32_t nranks;
  int32_t root;   // -1: none above the tree
  int32_t place;  // 0 for the root above the tree

  // root < 0: all ranks are members.
  Place(const PlanRequest& request, int laneNumber)
      : tree{request.root < 0 ? request.nranks : request.nranks - 1},
        lane(laneNumber),
        first(request.root < 0 ? 0 : request.root + 1),
        nranks(request.nranks),
        root(request.root),
        place(request.rank == request.root ? 0 : placeOf(request.rank)) {}

  int32_t placeOf(int32_t rank) const {
    const int32_t member = (rank - first + nranks) % nranks;
    return (member + lane) % tree.places + 1;
  }
  Ref link(int32_t other, Mark mark) const {
    const int32_t member = (other - 1 - lane + tree.places) % tree.places;
    return linkRef(streamOf(kStreamScatter, lane), at(first + member), mark);
  }
  // A place, or the root above the tree.
  Ref parent(Mark mark) const {
    const int32_t above = tree.parentOf(place);
    return above > 0 ? link(above, mark) : linkRef(streamOf(kStreamScatter, lane), at(root), mark);
  }
  // What a place sends up: a leaf its untouched contribution.
  static Mark markOf(int32_t place) {
    return InOrderTree::isLeaf(place) ? Mark::kInput : Mark::kPartial;
  }
  Op upOp() const { return InOrderTree::isLeaf(place) ? Op::kNone : Op::kReduce; }
  std::vector<Ref> downSinks() const {
    std::vector<Ref> sinks = {outputRef(at(0))};
    for (const int32_t child : {InOrderTree::leftOf(place), tree.rightOf(place)})
      if (child > 0) sinks.push_back(link(child, Mark::kInput));
    return sinks;
  }
  std::vector<Ref> upSources() const {
    const int32_t left = InOrderTree::leftOf(place), right = tree.rightOf(place);
    std::vector<Ref> sources;
    if (left > 0) sources.push_back(link(left, markOf(left)));
    sources.push_back(inputRef(at(0)));
    if (right > 0) sources.push_back(link(right, markOf(right)));
    return sources;
  }
};

Plan makeAllReduce(const PlanRequest& request) {
  const int32_t n = request.nranks;
  Builder builder(Collective::kAllReduce, kName, request.rank, n);
  builder.minCredits(n > 1 ? 2 : 1);
  for (int lane = 0; lane < kTrees; ++lane) {
    if (lane > 0) builder.lane();
    const Place here(request, lane);
    if (here.place == here.tree.root()) {
      builder.move(here.upSources(), Op::kReduce, here.downSinks());
      continue;
    }
    builder.move(here.upSources(), here.upOp(), {here.parent(Place::markOf(here.place))});
    builder.delay(static_cast<uint16_t>(kDelayPerLevel * here.tree.depthOf(here.place)))
        .move({here.parent(Mark::kInput)}, Op::kNone, here.downSinks());
  }
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = n > 1 ? 1 : 0;
  plan.maxPartialChunkBlocks = n > 3 ? 1 : 0;  // an inner node that is not the root
  return plan;
}

Plan makeBroadcast(const PlanRequest& request) {
  const int32_t n = request.nranks;
  Builder builder(Collective::kBroadcast, kName, request.rank, n, request.root);
  for (int lane = 0; lane < kTrees; ++lane) {
    if (lane > 0) builder.lane();
    if (n == 1) {
      builder.move({inputRef(at(0))}, Op::kNone, {outputRef(at(0))});
      continue;
    }
    const Place here(request, lane);
    if (here.place == 0) {
      builder.move({inputRef(at(0))}, Op::kNone,
                   {outputRef(at(0)), here.link(here.tree.root(), Mark::kInput)});
    } else {
      builder.move({here.parent(Mark::kInput)}, Op::kNone, here.downSinks());
    }
  }
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = n > 1 ? 1 : 0;
  return plan;
}

Plan makeReduce(const PlanRequest& request) {
  const int32_t n = request.nranks;
  Builder builder(Collective::kReduce, kName, request.rank, n, request.root);
  for (int lane = 0; lane < kTrees; ++lane) {
    if (lane > 0) builder.lane();
    if (n == 1) {
      builder.move({inputRef(at(0))}, Op::kReduce, {outputRef(at(0))});
      continue;
    }
    const Place here(request, lane);
    if (here.place == 0) {
      const int32_t top = here.tree.root();
      builder.move({inputRef(at(0)), here.link(top, Place::markOf(top))}, Op::kReduce,
                   {outputRef(at(0))});
    } else {
      builder.move(here.upSources(), here.upOp(), {here.parent(Place::markOf(here.place))});
    }
  }
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = n > 1 ? 1 : 0;
  plan.maxPartialChunkBlocks = n > 2 ? 1 : 0;  // from place 2
  return plan;
}

// Of one lane; the all-reduce's.
Cost costUpAndDown(const Place& here) {
  const int64_t children = here.tree.childrenOf(here.place);
  const bool isRoot = here.place == here.tree.root();
  const bool adds = isRoot || !InOrderTree::isLeaf(here.place);
  return {.rounds = 2 * here.tree.depth(),
          .messages = children + (isRoot ? 0 : 1),
          .inputBlocks = children + (adds ? 0 : 1),
          .partialBlocks = adds && !isRoot ? 1 : 0,
          .operands = adds ? 1 + children : 0};
}

Cost costDown(const Place& here) {
  const int64_t sent = here.place == 0 ? 1 : here.tree.childrenOf(here.place);
  return {.rounds = 1 + here.tree.depth(), .messages = sent, .inputBlocks = sent};
}

Cost costUp(const Place& here) {
  if (here.place == 0) return {.rounds = 1 + here.tree.depth(), .operands = 2};
  const bool isLeaf = InOrderTree::isLeaf(here.place);
  return {.rounds = 1 + here.tree.depth(),
          .messages = 1,
          .inputBlocks = isLeaf ? 1 : 0,
          .partialBlocks = isLeaf ? 0 : 1,
          .operands = isLeaf ? 0 : 1 + here.tree.childrenOf(here.place)};
}

// A slice runs in one of the lanes: the larger of both, number by number.
Cost largest(const PlanRequest& request, Cost (*costOf)(const Place&)) {
  const Cost a = costOf(Place(request, 0)), b = costOf(Place(request, 1));
  return {.rounds = std::max(a.rounds, b.rounds),
          .messages = std::max(a.messages, b.messages),
          .inputBlocks = std::max(a.inputBlocks, b.inputBlocks),
          .partialBlocks = std::max(a.partialBlocks, b.partialBlocks),
          .operands = std::max(a.operands, b.operands)};
}

Cost costOfAllReduce(const PlanRequest& request) { return largest(request, costUpAndDown); }

Cost costOfBroadcast(const PlanRequest& request) {
  return request.nranks == 1 ? Cost{} : largest(request, costDown);
}

Cost costOfReduce(const PlanRequest& request) {
  return request.nranks == 1 ? Cost{.operands = 1} : largest(request, costUp);
}

constexpr Algorithm kFamily[] = {
    {kName, Collective::kAllReduce, supportsFlat, makeAllReduce, costOfAllReduce, true, false},
    {kName, Collective::kBroadcast, supportsRooted, makeBroadcast, costOfBroadcast, true, true},
    {kName, Collective::kReduce, supportsRooted, makeReduce, costOfReduce, true, true},
};

}  // namespace

std::span<const Algorithm> doubleBinaryTreeFamily() { return kFamily; }

}  // namespace omnes::algorithms
