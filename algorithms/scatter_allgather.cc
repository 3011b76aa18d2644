// "scatter_allgather": broadcast as scatter and all-gather, and "reduce_scatter_gather": reduce as
// reduce-scatter and gather; for messages too long for a tree and ranks too many for a chain.
//
// Rank r has the position v = (r - root) mod n. The message is cut into n blocks inside the slice;
// block v is that of position v. Scatter and gather use the binomial tree of knomial_tree.h, where
// the subtree of v is the range of blocks [v, v + size(v)); the other halves are the rounds (s', s)
// of circulant.cc, among positions.
//
//   broadcast  scatter: take the blocks of the own subtree from the parent into the output, send
//              each child those of its subtree. All-gather: in a round v needs the blocks
//              v + s .. v + s' - 1 of v + s; it has the first size(v) blocks behind v already, so
//              only those from v + max(s, size(v)) on are sent, and nothing if none are left. So
//              every block comes to every position once, and none to the root.
//   reduce     reduce-scatter as in circulant.cc; then every position takes the finished blocks of
//              its children's subtrees and sends those of its own to its parent; a leaf sends its
//              block in the step that finishes it.
//
// The output of a broadcast is the buffer from which the other blocks are sent on. In a reduce only
// the root has one, so scratch holds 2n blocks: sums R[i] in block v + i (no wrap needed), finished
// blocks u in n + u. They never meet: sums take v .. v + n/2, finished ones n + v .. 2n - 1.
//
// Order of additions: that of circulant.cc for the position that owns the block.
//
// Delays: 0. Credits: 1. Scatter and gather go one way through a tree; in a round everybody sends
// before it receives. A link may carry two chunks a slice, one of each half; the first is then
// taken in an earlier phase than that in which the second is sent.
#include <algorithm>
#include <vector>

#include "algorithms/circulant_rounds.h"
#include "algorithms/families.h"
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
using plan::partialRef;
using plan::Plan;
using plan::range;
using plan::Ref;
using plan::Space;

struct Place {
  int32_t nranks;
  int32_t root;
  int32_t position;
  KnomialTree tree;

  explicit Place(const PlanRequest& request)
      : nranks(request.nranks),
        root(request.root),
        position((request.rank - request.root + request.nranks) % request.nranks),
        tree(request.nranks, 2) {}

  bool isRoot() const { return position == 0; }
  Ref link(int32_t other, Mark mark = Mark::kInput) const {
    return linkRef(kStreamScatter, at(root + other), mark);
  }
  Ref parent() const { return link(tree.parentOf(position)); }
  plan::Run blocksOf(int32_t other) const { return range(other, tree.sizeOf(other)); }
};

Plan makeBroadcast(const PlanRequest& request) {
  const Place place(request);
  const int32_t n = request.nranks, v = place.position;
  Builder builder(Collective::kBroadcast, "scatter_allgather", request.rank, n, request.root);
  builder.blocks(n);
  const auto held = place.isRoot() ? inputRef : outputRef;
  if (!place.isRoot()) builder.move({place.parent()}, Op::kNone, {held(place.blocksOf(v))});
  const std::vector<int32_t> children = place.tree.childrenOf(v);
  for (auto child = children.rbegin(); child != children.rend(); ++child)
    builder.move({held(place.blocksOf(*child))}, Op::kNone, {place.link(*child)});
  const std::vector<CirculantRound> rounds = circulantRounds(n);
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    const auto [wide, half] = *round;
    const int32_t taker = (v - half + n) % n;
    const int32_t takerHas = std::max(half, place.tree.sizeOf(taker));
    const int32_t has = std::max(half, place.tree.sizeOf(v));
    builder.move({held(range(taker + takerHas, wide - takerHas))}, Op::kNone, {place.link(taker)});
    builder.move({place.link(v + half)}, Op::kNone, {outputRef(range(v + has, wide - has))});
  }
  if (place.isRoot()) builder.move({held(range(0, n))}, Op::kNone, {outputRef(range(0, n))});
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = n / 2;
  return plan;
}

Ref finishedRef(plan::Run run) { return plan::sliceRef(Space::kScratch, run, Mark::kInput); }

// Where the sum of the own block goes: to the result, to the parent, or to where the blocks of the
// subtree are gathered.
Ref ownSink(const Place& place) {
  if (place.isRoot()) return outputRef(at(0));
  if (place.tree.isLeaf(place.position)) return place.parent();
  return finishedRef(at(place.nranks + place.position));
}

void addReduceScatter(Builder* builder, const Place& place) {
  const int32_t n = place.nranks, v = place.position;
  if (n == 1) builder->move({inputRef(at(0))}, Op::kReduce, {outputRef(at(0))});
  if (hasStraggler(n)) {
    const plan::Run straggler = at(v + (n - 1) / 2);
    builder->move({inputRef(straggler)}, Op::kReduce, {partialRef(straggler)});
  }
  bool first = true;
  for (const auto [wide, half] : circulantRounds(n)) {
    const plan::Run given = range(v + half, wide - half), kept = range(v, wide - half);
    const bool untouched = first || n == 3;
    const Ref outgoing = untouched ? inputRef(given) : partialRef(given);
    builder->move({outgoing}, Op::kNone, {place.link(v + half, outgoing.mark)});
    builder->move({place.link(v - half, outgoing.mark), first ? inputRef(kept) : partialRef(kept)},
                  Op::kReduce, {half == 1 ? ownSink(place) : partialRef(kept)});
    first = false;
  }
}

Plan makeReduce(const PlanRequest& request) {
  const Place place(request);
  const int32_t n = request.nranks, v = place.position;
  Builder builder(Collective::kReduce, "reduce_scatter_gather", request.rank, n, request.root);
  builder.blocks(n).scratch(n > 2 ? 2 * n : 0);
  addReduceScatter(&builder, place);
  for (const int32_t child : place.tree.childrenOf(v)) {
    plan::Run blocks = place.blocksOf(child);
    if (!place.isRoot()) blocks.start.base += n;
    builder.move({place.link(child)}, Op::kNone,
                 {place.isRoot() ? outputRef(blocks) : finishedRef(blocks)});
  }
  if (!place.isRoot() && !place.tree.isLeaf(v))
    builder.move({finishedRef(range(n + v, place.tree.sizeOf(v)))}, Op::kNone, {place.parent()});
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = n / 2;
  return plan;
}

// The longest chain goes down the scatter and then through every round of the all-gather. Round 1
// is over distance 1, and even positions have the block behind theirs from the scatter, so it leads
// from an even position to an odd one; even positions are as deep as a tree over half of them.
Cost costOfBroadcast(const PlanRequest& request) {
  const Place place(request);
  const int32_t n = request.nranks, v = place.position;
  Cost cost{.rounds = ceilLog2(n) + KnomialTree((n + 1) / 2, 2).depth(),
            .messages = knomialChildren(n, v, 2),
            .inputBlocks = place.tree.sizeOf(v) - 1};
  for (const auto [wide, half] : circulantRounds(n)) {
    const int32_t missing = wide - std::max(half, place.tree.sizeOf((v - half + n) % n));
    cost.messages += missing > 0 ? 1 : 0;
    cost.inputBlocks += std::max(missing, 0);
  }
  return cost;
}

Cost costOfReduce(const PlanRequest& request) {
  const Place place(request);
  const int64_t n = request.nranks;
  if (n == 1) return {.operands = 1};
  const int64_t gathered = place.isRoot() ? 0 : place.tree.sizeOf(place.position);
  return {.rounds = ceilLog2(n) + place.tree.depth(),
          .messages = ceilLog2(n) + (place.isRoot() ? 0 : 1),
          .inputBlocks = untouchedBlocks(n) + gathered,
          .partialBlocks = n - 1 - untouchedBlocks(n),
          .operands = 2 * (n - 1) + (hasStraggler(request.nranks) ? 1 : 0)};
}

constexpr Algorithm kFamily[] = {
    {"scatter_allgather", Collective::kBroadcast, supportsRooted, makeBroadcast, costOfBroadcast,
     true, false},
    {"reduce_scatter_gather", Collective::kReduce, supportsRooted, makeReduce, costOfReduce, true,
     false},
};

}  // namespace

std::span<const Algorithm> scatterAllgatherFamily() { return kFamily; }

}  // namespace omnes::algorithms
