// Steps on a k-nomial tree that more than one family takes. Private to this folder.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "algorithms/knomial_tree.h"
#include "plan/builder.h"

namespace omnes::algorithms {

// The step with which a position adds its own contribution and its children's sums, in ascending
// order, and sends the sum to its parent; the root has none and takes `rootSinks`.
// Position v is rank (root + v) mod n; all chunks go over kStreamScatter.
inline void addKnomialReduce(plan::Builder* builder, const KnomialTree& tree, int32_t position,
                             int32_t root, int32_t nranks, std::vector<plan::Ref> rootSinks) {
  using plan::Mark;
  const auto link = [root](plan::Run positions, Mark mark) {
    positions.start.base += root;
    return plan::linkRef(plan::kStreamScatter, positions, mark);
  };
  const bool isLeaf = position > 0 && tree.isLeaf(position);
  std::vector<plan::Ref> sources = {plan::inputRef(plan::at(0))};
  for (const KnomialLevel& level : tree.levelsOf(position)) {
    // Only a leaf's contribution is untouched: all at distance 1, else possibly the last position.
    const int32_t last = level.first + (level.count - 1) * level.distance;
    const int32_t leaves = level.distance == 1 ? level.count : last == nranks - 1 ? 1 : 0;
    const int32_t inner = level.count - leaves;
    sources.push_back(link(plan::range(level.first, inner, level.distance), Mark::kPartial));
    sources.push_back(link(
        plan::range(level.first + inner * level.distance, leaves, level.distance), Mark::kInput));
  }
  std::vector<plan::Ref> sinks = std::move(rootSinks);
  if (position > 0)
    sinks = {link(plan::at(tree.parentOf(position)), isLeaf ? Mark::kInput : Mark::kPartial)};
  builder->move(std::move(sources), isLeaf ? plan::Op::kNone : plan::Op::kReduce, std::move(sinks));
}

}  // namespace omnes::algorithms
