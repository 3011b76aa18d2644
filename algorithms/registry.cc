#include "algorithms/registry.h"

#include <memory>
#include <vector>

#include "algorithms/families.h"

namespace omnes::algorithms {

std::span<const Algorithm> all() {
  // The order within a collective is the order in which tables list the algorithms.
  // Never destroyed: threads may still be inside calls when main() returns.
  static const std::vector<Algorithm>& algorithms = *[] {
    auto made = std::make_unique<std::vector<Algorithm>>();
    std::vector<Algorithm>& list = *made;
    for (const auto family : {
             oneshotFamily(),
             directFamily(),
             ringFamily(),
             recursiveDoublingFamily(),
             circulantFamily(),
             linearFamily(),
             rabenseifnerFamily(),
             treeAllReduceFamily(),
             doubleBinaryTreeFamily(),
             directRootedFamily(),
             knomialFamily(),
             chainFamily(),
             scatterAllgatherFamily(),
             directAllToAllFamily(),
             patFamily(),
             treeFamily(),
             pairwiseFamily(),
             bruckFamily(),
             ringAllToAllFamily(),
             hierarchicalFamily(),
             barrierFamily(),
         }) {
      list.insert(list.end(), family.begin(), family.end());
    }
    return made.release();
  }();
  return algorithms;
}

const Algorithm* find(plan::Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : all()) {
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace omnes::algorithms
