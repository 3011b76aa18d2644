#include "registry_checks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/verifier.h"

namespace omnes::plan::testing {

using algorithms::Algorithm;
using algorithms::Cost;
using algorithms::PlanRequest;

namespace {

int64_t expectProvenFrom(const Algorithm& algorithm, int32_t nranks, int32_t root) {
  SCOPED_TRACE(labelOf(algorithm, nranks, root));
  const Set plans = makePlans(algorithm, nranks, root);
  int64_t steps = 0;
  for (bool inPlace : {false, true}) {
    if (inPlace && algorithm.collective == Collective::kAllToAll) continue;  // there is none
    const auto proof = verify(plans, {.inPlace = inPlace});
    if (!proof.isOk()) {
      ADD_FAILURE() << proof.status().message();
      return steps;
    }
    steps += proof.value().steps;
    EXPECT_TRUE(proof.value().sameOrderOnAllRanks);
    int64_t rounds = 0;
    for (const Plan& plan : plans) {
      const Cost cost = algorithm.cost({plan.rank, nranks, root, nullptr});
      const Counters declared{cost.messages, cost.inputBlocks, cost.partialBlocks, cost.operands};
      EXPECT_EQ(countersOf(plan), declared)
          << "rank " << plan.rank << " has other counters than it declares";
      rounds = std::max(rounds, cost.rounds);
    }
    EXPECT_EQ(proof.value().rounds, rounds);
  }
  return steps;
}

int32_t leastFor(const Set& plans) {
  int32_t least = 0;
  for (bool inPlace : {false, true}) {
    const auto found = leastCredits(plans, inPlace);
    EXPECT_TRUE(found.isOk()) << found.status().message();
    if (found.isOk()) least = std::max(least, found.value());
  }
  return least;
}

bool isRejected(const Set& plans) {
  bool isRejected = false;
  for (bool inPlace : {false, true}) {
    const auto proof = verify(plans, {.inPlace = inPlace});
    if (proof.isOk()) continue;
    isRejected = true;
    EXPECT_NE(proof.status().message().find("property 2"), std::string_view::npos)
        << proof.status().message();
  }
  return isRejected;
}

}  // namespace

std::vector<int32_t> rootsOf(Collective collective, int32_t nranks) {
  if (!hasRoot(collective)) return {-1};
  std::vector<int32_t> roots;
  for (int32_t root = 0; root < nranks; ++root)
    if (nranks <= 17 || root <= 1 || root == nranks / 2 || root == nranks - 1)
      roots.push_back(root);
  return roots;
}

Set makePlans(const Algorithm& algorithm, int32_t nranks, int32_t root) {
  Set plans;
  plans.reserve(static_cast<size_t>(nranks));
  for (int32_t rank = 0; rank < nranks; ++rank)
    plans.push_back(algorithm.make({rank, nranks, root, nullptr}));
  return plans;
}

bool supports(const Algorithm& algorithm, int32_t nranks, int32_t root) {
  if (root < 0 && hasRoot(algorithm.collective)) root = 0;
  return algorithm.supports({0, nranks, root, nullptr});
}

std::string labelOf(const Algorithm& algorithm, int32_t nranks, int32_t root) {
  return std::string(nameOf(algorithm.collective)) + " " + std::string(algorithm.name) +
         " n=" + std::to_string(nranks) + (root < 0 ? "" : " root=" + std::to_string(root));
}

int64_t expectProven(const Algorithm& algorithm, int32_t nranks) {
  int64_t steps = 0;
  for (const int32_t root : rootsOf(algorithm.collective, nranks))
    if (supports(algorithm, nranks, root)) steps += expectProvenFrom(algorithm, nranks, root);
  return steps;
}

void expectHonestCredits(const Algorithm& algorithm, int32_t nranks) {
  for (const int32_t root : rootsOf(algorithm.collective, nranks)) {
    if (!supports(algorithm, nranks, root)) continue;
    SCOPED_TRACE(labelOf(algorithm, nranks, root));
    Set plans = makePlans(algorithm, nranks, root);
    const int32_t least = leastFor(plans);
    if (least == 0) continue;  // no links
    const int32_t declared = plans[0].minCredits;
    EXPECT_EQ(declared, least);
    for (Plan& plan : plans) plan.minCredits = declared - 1;
    EXPECT_TRUE(isRejected(plans)) << "passes with fewer credits than declared";
  }
}

}  // namespace omnes::plan::testing
