// "tree": all-reduce as a k-nomial reduce to rank 0 and a k-nomial broadcast from it, k = 4, for
// short messages between hosts when the fewest messages count.
//
// The tree is that of knomial_tree.h, with rank 0 as its root.
//   up    add the own contribution and the sums of the children in one step, send the sum to the
//         parent; rank 0 has the result, and sends it to its children in the step that adds
//   down  take the result from the parent, write it and send it on to the children
//
// 2(n - 1) messages in all, like "linear", but nobody has more than k - 1 of them for each of its
// log_k(n) levels. Order of additions: a node adds its own contribution and then its children's in
// ascending order, which are ranges of ranks that follow each other: a bracketed sum in the order
// of the ranks, made once, by rank 0.
//
// Delays: up 0; down 2t at depth t. At the time at which a rank of depth t sends slice w up, rank 0
// adds slice w - t, and what has come down to depth t is slice w - 2t; so a rank waits for nothing
// that is still on its way, and all levels work side by side on different slices.
//
// Credits: 2. Rank 0 or any other node sends slice s down in wave s + 2t and its child takes it in
// wave s + 2t + 2. So with K slots, wave w waits for the child's wave w - K + 2, and the child
// waits in its wave for the parent to have taken slice w - K in wave w - K. K = 2: for the child's
// wave w, which waits for earlier waves and for its own children. K = 1: for the child's wave w +
// 1, a rank ahead of its parent for ever, and for rank 0, which adds and sends in one step, a
// deadlock.
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
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::outputRef;
using plan::Plan;
using plan::Ref;

constexpr int32_t kRadix = 4;
constexpr int32_t kDelayPerLevel = 2;

Plan makeAllReduce(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  const KnomialTree tree(n, kRadix);
  Builder builder(Collective::kAllReduce, "tree", r, n);
  builder.minCredits(n > 1 ? 2 : 1);
  std::vector<Ref> sinks = {outputRef(at(0))};
  const std::vector<int32_t> children = tree.childrenOf(r);
  for (auto child = children.rbegin(); child != children.rend(); ++child)
    sinks.push_back(linkRef(kStreamScatter, at(*child), Mark::kInput));
  addKnomialReduce(&builder, tree, r, 0, n, sinks);
  if (r > 0) {
    builder.delay(static_cast<uint16_t>(kDelayPerLevel * tree.depthOf(r)))
        .move({linkRef(kStreamScatter, at(tree.parentOf(r)), Mark::kInput)}, Op::kNone, sinks);
  }
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = n > 1 ? 1 : 0;
  plan.maxPartialChunkBlocks = tree.depth() > 1 ? 1 : 0;
  return plan;
}

Cost costOfAllReduce(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  const int64_t children = knomialChildren(n, r, kRadix);
  const int64_t up = r > 0 ? 1 : 0;
  const bool adds = children > 0 || r == 0;
  return {.rounds = int64_t{2} * KnomialTree(n, kRadix).depth(),
          .messages = up + children,
          .inputBlocks = children + (adds ? 0 : up),
          .partialBlocks = adds ? up : 0,
          .operands = adds ? 1 + children : 0};
}

constexpr Algorithm kFamily[] = {
    {"tree", Collective::kAllReduce, supportsFlat, makeAllReduce, costOfAllReduce, true, false},
};

}  // namespace

std::span<const Algorithm> treeAllReduceFamily() { return kFamily; }

}  // namespace omnes::algorithms
