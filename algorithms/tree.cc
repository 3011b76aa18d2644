// "tree": all-gather and reduce-scatter over one k-nomial tree with root 0 and k = 4.
//
//   all-gather       gather the blocks to rank 0, then broadcast all of them
//   reduce-scatter   reduce all blocks to rank 0, then scatter the results
//
// Write a rank in base k, and let p be the place of its lowest digit that is not 0 (of rank 0:
// above all digits). Its parent has a 0 there, its children are r + j k^q for q < p and 0 < j < k,
// as far as they exist, and what is below it is the ranks r .. r + k^p - 1: the blocks of a subtree
// are one run. (Binomial trees with a radix; MPICH, Open MPI and UCC, whose default for these is 4,
// call them k-nomial.)
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
#include <algorithm>
#include <cstdint>
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
using plan::partialRef;
using plan::Plan;
using plan::range;
using plan::Ref;
using plan::Run;
using plan::sliceRef;
using plan::Space;

constexpr int32_t kRadix = 4;
constexpr int32_t kRoot = 0;

// Children that differ in nothing but their place: `first`, first + weight, ..., with `size` ranks
// below each, themselves counted.
struct Siblings {
  int32_t first = 0;
  int32_t weight = 1;  // k^q
  int32_t count = 0;
  int32_t size = 1;

  Run ranks() const { return range(first, count, weight); }
};

struct Node {
  int32_t parent = -1;
  int32_t size = 1;                // ranks below it, itself counted
  std::vector<Siblings> children;  // ascending, none empty

  Node(int32_t rank, int32_t nranks) {
    int64_t weight = 1;
    for (; weight < nranks && rank / weight % kRadix == 0; weight *= kRadix) {
      const auto step = static_cast<int32_t>(weight);
      const auto there = static_cast<int32_t>(
          std::min<int64_t>(kRadix - 1, (int64_t{nranks} - 1 - rank) / weight));
      const auto full = static_cast<int32_t>(
          std::min<int64_t>(kRadix - 1, (int64_t{nranks} - rank) / weight - 1));
      if (full > 0) children.push_back({rank + step, step, full, step});
      // The last one may have fewer ranks below it than its siblings.
      const int32_t last = rank + there * step;
      if (there > std::max(full, 0)) children.push_back({last, step, 1, nranks - last});
    }
    size = static_cast<int32_t>(std::min<int64_t>(weight, int64_t{nranks} - rank));
    if (rank != kRoot) parent = rank - static_cast<int32_t>(rank / weight % kRadix * weight);
  }
};

Ref in(int32_t peer, Mark mark) { return linkRef(kStreamScatter, at(peer), mark); }
Ref out(int32_t peer, Mark mark) { return linkRef(kStreamScatter, at(peer), mark); }

// Calls add(peer, blocks) for each child in turn, in a loop where there are several alike; the run
// begins `offset` blocks behind the child's.
template <typename Add>
void forEachChild(Builder& builder, const Siblings& siblings, int32_t offset, int32_t count,
                  const Add& add) {
  const int32_t step = siblings.count > 1 ? siblings.weight : 0;
  if (siblings.count > 1) builder.loop(siblings.count);
  add(linkRef(kStreamScatter, at(siblings.first, step), Mark::kInput),
      Run{{siblings.first + offset, step}, 1, count});
  if (siblings.count > 1) builder.endLoop();
}

Plan makeAllGather(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  const Node node(r, n);
  Builder builder(Collective::kAllGather, "tree", r, n);
  std::vector<Ref> own = {outputRef(at(r))};
  if (r != kRoot && node.size == 1) own.push_back(out(node.parent, Mark::kInput));
  builder.move({inputRef(at(0))}, Op::kNone, own);
  for (const Siblings& siblings : node.children) {
    forEachChild(builder, siblings, 0, siblings.size, [&](const Ref& child, const Run& blocks) {
      builder.move({child}, Op::kNone, {outputRef(blocks)});
    });
  }
  if (r != kRoot) {
    if (node.size > 1) {
      builder.move({outputRef(range(r, node.size))}, Op::kNone, {out(node.parent, Mark::kInput)});
    }
    builder.move({in(node.parent, Mark::kInput)}, Op::kNone,
                 {outputRef(range(r + node.size, n - node.size))});
  }
  for (auto siblings = node.children.rbegin(); siblings != node.children.rend(); ++siblings) {
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
std::vector<Ref> operandsOf(const Node& node, const Run& blocks) {
  std::vector<Ref> operands = {inputRef(blocks)};
  for (const Siblings& siblings : node.children) {
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
  const Node node(r, n);
  Builder builder(Collective::kReduceScatter, "tree", r, n);
  const Run all = range(0, n);
  if (n == 1) {
    builder.move({inputRef(all)}, Op::kReduce, {outputRef(at(0))});
  } else if (r == kRoot) {
    builder.scratch(n);
    builder.move(operandsOf(node, all), Op::kReduce, {resultRef(all)});
    builder.move({resultRef(at(r))}, Op::kNone, {outputRef(at(0))});
  } else if (node.size == 1) {
    builder.move({inputRef(all)}, Op::kNone, {out(node.parent, Mark::kInput)});
    builder.move({in(node.parent, Mark::kInput)}, Op::kNone, {outputRef(at(0))});
  } else {
    builder.scratch(n);
    builder.move(operandsOf(node, all), Op::kReduce, {out(node.parent, Mark::kPartial)});
    builder.move({in(node.parent, Mark::kInput)}, Op::kNone, {resultRef(range(r, node.size))});
    builder.move({resultRef(at(r))}, Op::kNone, {outputRef(at(0))});
  }
  for (auto siblings = node.children.rbegin(); siblings != node.children.rend(); ++siblings) {
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

// The most digits other than 0 that a rank below n can have: L of them need n - 1 >= 11...1 in base
// k. That many hops are between rank 0 and the deepest.
int64_t depthOf(int64_t nranks) {
  int64_t depth = 0;
  for (int64_t ones = 1; ones < nranks; ones = ones * kRadix + 1) ++depth;
  return depth;
}

// What the costs need of a rank, counted digit by digit.
struct Below {
  int64_t children = 0;
  int64_t size = 1;
};

Below below(int64_t rank, int64_t nranks) {
  Below below;
  int64_t weight = 1;
  for (; weight < nranks && rank / weight % kRadix == 0; weight *= kRadix)
    below.children += std::min<int64_t>(kRadix - 1, (nranks - 1 - rank) / weight);
  below.size = std::min(weight, nranks - rank);
  return below;
}

// Up: the own run. Down: to each child all but its own run, and those make up size - 1.
Cost costOfAllGather(const PlanRequest& request) {
  const int64_t n = request.nranks;
  const auto [children, size] = below(request.rank, n);
  const bool isRoot = request.rank == kRoot;
  return {.rounds = 2 * depthOf(n),
          .messages = children + (isRoot ? 0 : 1),
          .inputBlocks = children * n - (size - 1) + (isRoot ? 0 : size)};
}

Cost costOfReduceScatter(const PlanRequest& request) {
  const int64_t n = request.nranks;
  const auto [children, size] = below(request.rank, n);
  const bool isRoot = request.rank == kRoot;
  const bool isLeaf = children == 0;
  Cost cost{.rounds = 2 * depthOf(n),
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
