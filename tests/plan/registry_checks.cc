#include "registry_checks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/verifier.h"

namespace omnes::plan::testing {

using algorithms::Algorithm;
using algorithms::Cost;

Set makePlans(const Algorithm& algorithm, int32_t nranks) {
  Set plans;
  plans.reserve(static_cast<size_t>(nranks));
  for (int32_t rank = 0; rank < nranks; ++rank)
    plans.push_back(algorithm.make({rank, nranks, -1, nullptr}));
  return plans;
}

bool supports(const Algorithm& algorithm, int32_t nranks) {
  return algorithm.supports({0, nranks, -1, nullptr});
}

std::string labelOf(const Algorithm& algorithm, int32_t nranks) {
  return std::string(nameOf(algorithm.collective)) + " " + std::string(algorithm.name) +
         " n=" + std::to_string(nranks);
}

int64_t expectProven(const Algorithm& algorithm, int32_t nranks) {
  SCOPED_TRACE(labelOf(algorithm, nranks));
  const Set plans = makePlans(algorithm, nranks);
  int64_t steps = 0;
  for (bool inPlace : {false, true}) {
    const auto proof = verify(plans, {.inPlace = inPlace});
    if (!proof.isOk()) {
      ADD_FAILURE() << proof.status().message();
      return steps;
    }
    steps += proof.value().steps;
    EXPECT_TRUE(proof.value().sameOrderOnAllRanks);
    int64_t rounds = 0;
    for (const Plan& plan : plans) {
      const Cost cost = algorithm.cost({plan.rank, nranks, -1, nullptr});
      const Counters declared{cost.messages, cost.inputBlocks, cost.partialBlocks, cost.operands};
      EXPECT_EQ(countersOf(plan), declared)
          << "rank " << plan.rank << " has other counters than it declares";
      rounds = std::max(rounds, cost.rounds);
    }
    EXPECT_EQ(proof.value().rounds, rounds);
  }
  return steps;
}

void expectHonestCredits(const Algorithm& algorithm, int32_t nranks) {
  SCOPED_TRACE(labelOf(algorithm, nranks));
  Set plans = makePlans(algorithm, nranks);
  int32_t least = 0;
  for (bool inPlace : {false, true}) {
    const auto found = leastCredits(plans, inPlace);
    ASSERT_TRUE(found.isOk()) << found.status().message();
    least = std::max(least, found.value());
  }
  if (least == 0) return;  // no links
  const int32_t declared = plans[0].minCredits;
  EXPECT_EQ(declared, least);
  for (Plan& plan : plans) plan.minCredits = declared - 1;
  bool isRejected = false;
  for (bool inPlace : {false, true}) {
    const auto proof = verify(plans, {.inPlace = inPlace});
    if (proof.isOk()) continue;
    isRejected = true;
    EXPECT_NE(proof.status().message().find("property 2"), std::string_view::npos)
        << proof.status().message();
  }
  EXPECT_TRUE(isRejected) << "passes with fewer credits than declared";
}

}  // namespace omnes::plan::testing
