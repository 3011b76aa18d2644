#include "plan/verifier.h"

#include <gtest/gtest.h>

#include "sample_plans.h"

namespace omnes::plan {
namespace {

using testing::Set;

void expectProven(const Set& plans, int64_t rounds, bool sameOrder = true) {
  for (bool inPlace : {false, true}) {
    const auto proof = verify(plans, {.inPlace = inPlace});
    ASSERT_TRUE(proof.isOk()) << proof.status().message();
    EXPECT_EQ(proof.value().rounds, rounds);
    EXPECT_EQ(proof.value().sameOrderOnAllRanks, sameOrder);
    const auto least = leastCredits(plans, inPlace);
    ASSERT_TRUE(least.isOk()) << least.status().message();
    if (least.value() > 0)
      EXPECT_EQ(least.value(), plans[0].minCredits) << plans[0].algorithm << plans.size();
  }
}

TEST(Verifier, ProvesTheTextbookPlans) {
  for (int32_t n = 1; n <= 20; ++n) {
    expectProven(testing::oneShot(n), n > 1 ? 1 : 0);
    expectProven(testing::twoShot(n), n > 1 ? 2 : 0);
    expectProven(testing::ring(n), 2 * n - 2);
    expectProven(testing::ring(n, 1), 2 * n - 2);
    expectProven(testing::ringAllGather(n), n - 1);
    expectProven(testing::directReduceScatter(n), n > 1 ? 1 : 0);
  }
}

}  // namespace
}  // namespace omnes::plan
