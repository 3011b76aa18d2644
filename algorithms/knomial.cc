// "binomial", "knomial4", "knomial8": broadcast, reduce, gather and scatter on a k-nomial tree with
// k = 2, 4, 8; about log_k(n) rounds, for short messages and many ranks.
//
// Rank r has the position v = (r - root) mod n in the tree of knomial_tree.h. What flows down:
//   broadcast  take the message from the parent (the root: from the input), keep it and send it to
//              all children, the one with the largest subtree first;
//   scatter    take the blocks of the own subtree from the parent, send each child the blocks of
//              its subtree, keep the own block.
// What flows up:
//   reduce     add the own contribution and the sums of the children, in one step, and send the sum
//              to the parent (the root: write it);
//   gather     take each child's blocks, the blocks of its subtree, and send them to the parent
//              together with the own one.
// The blocks of a subtree are consecutive modulo n, so a chunk is one run of blocks; inner nodes
// keep them in scratch, a block in the scratch block of its number.
//
// Order of additions: a node adds its own contribution and then its children's sums in ascending
// order. These are sums over ranges of positions that follow each other, so the whole is a
// bracketed sum over root, root + 1, ..., n - 1, 0, ..., root - 1; the brackets depend on n and k
// only.
//
// Delays: 0. A rank does no more for slice w than it can do at once, and ranks may be in different
// waves, so slices follow each other down or up the tree without any.
//
// Credits: 1. Data flows one way through a tree, a link carries one chunk a slice, and in wave w a
// rank waits for chunks of slice w from one side and for slots that were freed for slice w - 1 on
// the other: by induction over the waves and the depth everybody gets on.
#include <string_view>
#include <vector>

#include "algorithms/families.h"
#include "algorithms/knomial_steps.h"
#include "algorithms/knomial_tree.h"
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
using plan::range;
using plan::Ref;
using plan::Space;

constexpr std::string_view nameOfRadix(int32_t radix) {
  return radix == 2 ? "binomial" : radix == 4 ? "knomial4" : "knomial8";
}

// One rank's place in the tree.
struct Place {
  int32_t nranks;
  int32_t root;
  int32_t position;
  KnomialTree tree;

  Place(const PlanRequest& request, int32_t radix)
      : nranks(request.nranks),
        root(request.root),
        position((request.rank - request.root + request.nranks) % request.nranks),
        tree(request.nranks, radix) {}

  bool isRoot() const { return position == 0; }
  Ref link(int32_t other, Mark mark = Mark::kInput) const {
    return linkRef(kStreamScatter, at(root + other), mark);
  }
  Ref parent(Mark mark = Mark::kInput) const { return link(tree.parentOf(position), mark); }
  // The blocks of the subtree of a position.
  plan::Run blocksOf(int32_t other) const { return range(root + other, tree.sizeOf(other)); }
};

Ref keptRef(plan::Run run) { return plan::sliceRef(Space::kScratch, run, Mark::kInput); }

template <int32_t kRadix>
Plan makeBroadcast(const PlanRequest& request) {
  const Place place(request, kRadix);
  Builder builder(Collective::kBroadcast, nameOfRadix(kRadix), request.rank, request.nranks,
                  request.root);
  std::vector<Ref> sinks = {outputRef(at(0))};
  const std::vector<int32_t> children = place.tree.childrenOf(place.position);
  for (auto child = children.rbegin(); child != children.rend(); ++child)
    sinks.push_back(place.link(*child));
  builder.move({place.isRoot() ? inputRef(at(0)) : place.parent()}, Op::kNone, sinks);
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = request.nranks > 1 ? 1 : 0;
  return plan;
}

template <int32_t kRadix>
Plan makeReduce(const PlanRequest& request) {
  const Place place(request, kRadix);
  Builder builder(Collective::kReduce, nameOfRadix(kRadix), request.rank, request.nranks,
                  request.root);
  addKnomialReduce(&builder, place.tree, place.position, place.root, request.nranks,
                   {outputRef(at(0))});
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = request.nranks > 1 ? 1 : 0;
  plan.maxPartialChunkBlocks = place.tree.depth() > 1 ? 1 : 0;
  return plan;
}

template <int32_t kRadix>
Plan makeGather(const PlanRequest& request) {
  const Place place(request, kRadix);
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kGather, nameOfRadix(kRadix), r, n, request.root);
  if (!place.isRoot() && place.tree.isLeaf(place.position)) {
    builder.move({inputRef(at(0))}, Op::kNone, {place.parent()});
  } else {
    const auto kept = place.isRoot() ? outputRef : keptRef;
    builder.scratch(place.isRoot() ? 0 : n);
    builder.move({inputRef(at(0))}, Op::kNone, {kept(at(r))});
    for (const int32_t child : place.tree.childrenOf(place.position))
      builder.move({place.link(child)}, Op::kNone, {kept(place.blocksOf(child))});
    if (!place.isRoot())
      builder.move({kept(place.blocksOf(place.position))}, Op::kNone, {place.parent()});
  }
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = place.tree.largestSubtree();
  return plan;
}

template <int32_t kRadix>
Plan makeScatter(const PlanRequest& request) {
  const Place place(request, kRadix);
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kScatter, nameOfRadix(kRadix), r, n, request.root);
  if (!place.isRoot() && place.tree.isLeaf(place.position)) {
    builder.move({place.parent()}, Op::kNone, {outputRef(at(0))});
  } else {
    const auto kept = place.isRoot() ? inputRef : keptRef;
    if (!place.isRoot()) {
      builder.scratch(n);
      builder.move({place.parent()}, Op::kNone, {kept(place.blocksOf(place.position))});
    }
    const std::vector<int32_t> children = place.tree.childrenOf(place.position);
    for (auto child = children.rbegin(); child != children.rend(); ++child)
      builder.move({kept(place.blocksOf(*child))}, Op::kNone, {place.link(*child)});
    builder.move({kept(at(r))}, Op::kNone, {outputRef(at(0))});
  }
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = place.tree.largestSubtree();
  return plan;
}

template <int32_t kRadix>
Cost costOfBroadcast(const PlanRequest& request) {
  const Place place(request, kRadix);
  const int64_t children = knomialChildren(place.nranks, place.position, kRadix);
  return {.rounds = place.tree.depth(), .messages = children, .inputBlocks = children};
}

template <int32_t kRadix>
Cost costOfReduce(const PlanRequest& request) {
  const Place place(request, kRadix);
  const int64_t children = knomialChildren(place.nranks, place.position, kRadix);
  const int64_t sent = place.isRoot() ? 0 : 1;
  return {.rounds = place.tree.depth(),
          .messages = sent,
          .inputBlocks = children == 0 ? sent : 0,
          .partialBlocks = children == 0 ? 0 : sent,
          .operands = children > 0 || place.isRoot() ? 1 + children : 0};
}

template <int32_t kRadix>
Cost costOfGather(const PlanRequest& request) {
  const Place place(request, kRadix);
  if (place.isRoot()) return {.rounds = place.tree.depth()};
  return {.rounds = place.tree.depth(),
          .messages = 1,
          .inputBlocks = place.tree.sizeOf(place.position)};
}

template <int32_t kRadix>
Cost costOfScatter(const PlanRequest& request) {
  const Place place(request, kRadix);
  return {.rounds = place.tree.depth(),
          .messages = knomialChildren(place.nranks, place.position, kRadix),
          .inputBlocks = place.tree.sizeOf(place.position) - 1};
}

template <int32_t kRadix>
constexpr Algorithm entry(Collective collective, Plan (*make)(const PlanRequest&),
                          Cost (*cost)(const PlanRequest&)) {
  return {nameOfRadix(kRadix), collective, supportsRooted, make, cost, true, true};
}

constexpr Algorithm kFamily[] = {
    entry<2>(Collective::kBroadcast, makeBroadcast<2>, costOfBroadcast<2>),
    entry<4>(Collective::kBroadcast, makeBroadcast<4>, costOfBroadcast<4>),
    entry<8>(Collective::kBroadcast, makeBroadcast<8>, costOfBroadcast<8>),
    entry<2>(Collective::kReduce, makeReduce<2>, costOfReduce<2>),
    entry<4>(Collective::kReduce, makeReduce<4>, costOfReduce<4>),
    entry<8>(Collective::kReduce, makeReduce<8>, costOfReduce<8>),
    entry<2>(Collective::kGather, makeGather<2>, costOfGather<2>),
    entry<4>(Collective::kGather, makeGather<4>, costOfGather<4>),
    entry<8>(Collective::kGather, makeGather<8>, costOfGather<8>),
    entry<2>(Collective::kScatter, makeScatter<2>, costOfScatter<2>),
    entry<4>(Collective::kScatter, makeScatter<4>, costOfScatter<4>),
    entry<8>(Collective::kScatter, makeScatter<8>, costOfScatter<8>),
};

}  // namespace

std::span<const Algorithm> knomialFamily() { return kFamily; }

}  // namespace omnes::algorithms
