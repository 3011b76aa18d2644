#include "algorithms/registry.h"

#include <vector>

#include "algorithms/families.h"

namespace omnes::algorithms {

std::span<const Algorithm> all() {
  // The order within a collective is the order in which tables list the algorithms.
  static const std::vector<Algorithm> algorithms = [] {
    std::vector<Algorithm> list;
    for (const auto family : {oneshotFamily(), directFamily(), ringFamily(),
                              recursiveDoublingFamily(), circulantFamily(), barrierFamily()}) {
      list.insert(list.end(), family.begin(), family.end());
    }
    return list;
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
