// The families of algorithms, one file each; the registry lists what they offer. Private to this
// folder.
#pragma once

#include <span>

#include "algorithms/registry.h"

namespace omnes::algorithms {

std::span<const Algorithm> ringFamily();
std::span<const Algorithm> directFamily();
std::span<const Algorithm> oneshotFamily();
std::span<const Algorithm> linearFamily();
std::span<const Algorithm> recursiveDoublingFamily();
std::span<const Algorithm> circulantFamily();
std::span<const Algorithm> patFamily();
std::span<const Algorithm> treeFamily();
std::span<const Algorithm> pairwiseFamily();
std::span<const Algorithm> bruckFamily();
std::span<const Algorithm> ringAllToAllFamily();
std::span<const Algorithm> barrierFamily();
std::span<const Algorithm> hierarchicalFamily();
std::span<const Algorithm> directRootedFamily();
std::span<const Algorithm> directAllToAllFamily();
std::span<const Algorithm> knomialFamily();
std::span<const Algorithm> treeAllReduceFamily();
std::span<const Algorithm> chainFamily();
std::span<const Algorithm> scatterAllgatherFamily();
std::span<const Algorithm> doubleBinaryTreeFamily();
std::span<const Algorithm> rabenseifnerFamily();

// Most families work for every number of ranks; these have no root ...
inline bool supportsFlat(const PlanRequest& request) {
  return request.nranks >= 1 && request.rank >= 0 && request.rank < request.nranks &&
         request.root < 0;
}

// ... and these work for every root.
inline bool supportsRooted(const PlanRequest& request) {
  return request.nranks >= 1 && request.rank >= 0 && request.rank < request.nranks &&
         request.root >= 0 && request.root < request.nranks;
}

}  // namespace omnes::algorithms
