// "tree": all-gather and reduce-scatter over one k-nomial tree with root 0 and k = 4.
//
//   all-gather       gather the blocks to rank 0, then broadcast all of them
//   reduce-scatter   reduce all blocks to rank 0, then scatter the results
//
// The tree is that of knomial_tree.h with rank 0 as its root: what is below a rank is a range of
// ranks, so its blocks are one run, and the children's follow each other. (MPICH, Open MPI and UCC,
// whose default radix for these is 4, call it k-nomial.)
//
// All-gather. A rank takes its children's runs into their places in the output, the small ones
// first, and sends its own run up. Downwards, a child is sent what is not below it: the blocks from
// behind its run around to its first, again one run. So no block is written twice.
//
// Reduce-scatter. A rank adds its input and what its children send, all of it in one step, in the
// order of the ranks since a child's contributions are consecutive and behind those of the child
// before it; it passes the sum on without keeping it. Rank 0 keeps the results in scratch;
// downwards a child is sent the run below it. A leaf's input travels untouched, sums of inner ranks
// do not.
//
// Few messages in all, 2(n - 1), and 2 log_k n rounds, at the price of rank 0 moving up to (k - 1)
// log_k n times all blocks: for short blocks on many ranks whose links cost alike. Everything goes
// through one rank, so nothing about it is symmetric.
//
// Delays: 0. (A delay of one on the way down would let the next slice go up meanwhile, but then the
// two directions of a link pair could not be shared with another half by compose(); and long
// messages are not what this is for.) Credits: 1. A link carries one chunk a slice, and a rank
// waits for the chunk from its parent, hence for all that it has sent, before it begins the next
// slice.
#include <cstdint>
#include <vector>

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
using plan::Plan;
using plan::range;
using plan::Ref;
using plan::Run;
using plan::sliceRef;
using plan::Space;

constexpr int32_t kRadix = 4;
constexpr int32_t kRoot = 0;

// Children that differ in nothing but their place: `first`, first + distance, ..., with `size`
// ranks below each, themselves counted.
struct Siblings {
  int32_t first;
  int32_t distance;
  int32_t count;
  int32_t size;

  Run ranks() const { return range(first, count, distance); }
};

// All children in ascending order. The last one at a distance may have fewer ranks below it than
// the others there.
std::vector<Siblings> siblingsOf(const KnomialTree& tree, int32_t rank) {
  std::vector<Siblings> all;
  for (const auto& [first, distance, count] : tree.levelsOf(rank)) {
    const int32_t last = first + (count - 1) * distance;
    const int32_t size = tree.sizeOf(last);
    const int32_t full = size == distance ? count : count - 1;
    if (full > 0) all.push_back({first, distance, full, distance});
    if (full < count) all.push_back({last, distance, 1, size});
  }
  return all;
}

Ref link(int32_t peer, Mark mark) { return linkRef(kStreamScatter, at(peer), mark); }

// Calls add(peer, blocks) for each child in turn, in a loop where there are several alike; the run
// begins `offset` blocks behind the child's.
template <typename Add>
void forEachChild(Builder& builder, const Siblings& siblings, int32_t offset, int32_t count,
                  const Add& add) {
  const int32_t step = siblings.count > 1 ? siblings.distance : 0;
  if (siblings.count > 1) builder.loop(siblings.count);
  add(linkRef(kStreamScatter, at(siblings.first, step), Mark::kInput),
      Run{{siblings.first + offset, step}, 1, count});
  if (siblings.count > 1) builder.endLoop();
}

Plan makeAllGather(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  const KnomialTree tree(n, kRadix);
  const std::vector<Siblings> children = siblingsOf(tree, r);
  const int32_t size = tree.sizeOf(r);
  Builder builder(Collective::kAllGather, "tree", r, n);
  std::vector<Ref> own = {outputRef(at(r))};
  if (r != kRoot && size == 1) own.push_back(link(tree.parentOf(r), Mark::kInput));
  builder.move({inputRef(at(0))}, Op::kNone, own);
  for (const Siblings& siblings : children) {
    forEachChild(builder, siblings, 0, siblings.size, [&](const Ref& child, const Run& blocks) {
      builder.move({child}, Op::kNone, {outputRef(blocks)});
    });
  }
  if (r != kRoot) {
    if (size > 1) {
      builder.move({outputRef(range(r, size))}, Op::kNone, {link(tree.parentOf(r), Mark::kInput)});
    }
    builder.move({link(tree.parentOf(r), Mark::kInput)}, Op::kNone,
                 {outputRef(range(r + size, n - size))});
  }
  for (auto siblings = children.rbegin(); siblings != children.rend(); ++siblings) {
    forEachChild(builder, *siblings, siblings->size, n - siblings->size,
                 [&](const Ref& child, const Run& blocks) {
                   builder.move({outputRef(blocks)}, Op::kNone, {child});
                 });
  }
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = n - 1;  // what is not below a leaf, whoever sends it
  return plan;
}

// What a rank adds: its input, then its children's contributions.
std::vector<Ref> operandsOf(const std::vector<Siblings>& children, const Run& blocks) {
  std::vector<Ref> operands = {inputRef(blocks)};
  for (const Siblings& siblings : children) {
    operands.push_back(linkRef(kStreamScatter, siblings.ranks(),
                               siblings.size == 1 ? Mark::kInput : Mark::kPartial));
  }
  return operands;
}

// A result that waits for being sent on.
Ref resultRef(const Run& blocks) { return sliceRef(Space::kScratch, blocks, Mark::kInput); }

// Whether there is a rank with both a parent and a child.
constexpr bool hasInnerRanks(int32_t nranks) { return nranks > kRadix + 1; }

Plan makeReduceScatter(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  const KnomialTree tree(n, kRadix);
  const std::vector<Siblings> children = siblingsOf(tree, r);
  const int32_t size = tree.sizeOf(r);
  Builder builder(Collective::kReduceScatter, "tree", r, n);
  const Run all = range(0, n);
  if (n == 1) {
    builder.move({inputRef(all)}, Op::kReduce, {outputRef(at(0))});
  } else if (r == kRoot) {
    builder.scratch(n);
    builder.move(operandsOf(children, all), Op::kReduce, {resultRef(all)});
    builder.move({resultRef(at(r))}, Op::kNone, {outputRef(at(0))});
  } else if (size == 1) {
    builder.move({inputRef(all)}, Op::kNone, {link(tree.parentOf(r), Mark::kInput)});
    builder.move({link(tree.parentOf(r), Mark::kInput)}, Op::kNone, {outputRef(at(0))});
  } else {
    builder.scratch(n);
    builder.move(operandsOf(children, all), Op::kReduce, {link(tree.parentOf(r), Mark::kPartial)});
    builder.move({link(tree.parentOf(r), Mark::kInput)}, Op::kNone, {resultRef(range(r, size))});
    builder.move({resultRef(at(r))}, Op::kNone, {outputRef(at(0))});
  }
  for (auto siblings = children.rbegin(); siblings != children.rend(); ++siblings) {
    forEachChild(builder, *siblings, 0, siblings->size, [&](const Ref& child, const Run& blocks) {
      builder.move({resultRef(blocks)}, Op::kNone, {child});
    });
  }
  Plan plan = builder.build();
  // Of all ranks: a leaf sends all of its input, an inner rank all of its sums.
  plan.maxInputChunkBlocks = n > 1 ? n : 0;
  plan.maxPartialChunkBlocks = hasInnerRanks(n) ? n : 0;
  return plan;
}

// Up: the own run. Down: to each child all but its own run, and those make up size - 1.
Cost costOfAllGather(const PlanRequest& request) {
  const KnomialTree tree(request.nranks, kRadix);
  const int64_t n = request.nranks, size = tree.sizeOf(request.rank);
  const int64_t children = knomialChildren(request.nranks, request.rank, kRadix);
  const bool isRoot = request.rank == kRoot;
  return {.rounds = 2 * tree.depth(),
          .messages = children + (isRoot ? 0 : 1),
          .inputBlocks = children * n - (size - 1) + (isRoot ? 0 : size)};
}

Cost costOfReduceScatter(const PlanRequest& request) {
  const KnomialTree tree(request.nranks, kRadix);
  const int64_t n = request.nranks, size = tree.sizeOf(request.rank);
  const int64_t children = knomialChildren(request.nranks, request.rank, kRadix);
  const bool isRoot = request.rank == kRoot;
  const bool isLeaf = children == 0;
  Cost cost{.rounds = 2 * tree.depth(),
            .messages = children + (isRoot ? 0 : 1),
            .inputBlocks = size - 1 + (isLeaf && !isRoot ? n : 0),
            .partialBlocks = isLeaf || isRoot ? 0 : n,
            .operands = isLeaf && !isRoot ? 0 : n * (1 + children)};
  return cost;
}

constexpr Algorithm kFamily[] = {
    {"tree", Collective::kReduceScatter, supportsFlat, makeReduceScatter, costOfReduceScatter, true,
     false},
    {"tree", Collective::kAllGather, supportsFlat, makeAllGather, costOfAllGather, true, false},
};

}  // namespace

std::span<const Algorithm> treeFamily() { return kFamily; }

}  // namespace omnes::algorithms
