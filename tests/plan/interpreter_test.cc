#include "plan/interpreter.h"

#include <gtest/gtest.h>

#include "sample_plans.h"

namespace omnes::plan {
namespace {

using testing::Set;

void expectRuns(const Set& plans, const char* name) {
  for (bool inPlace : {false, true}) {
    for (int32_t credits : {-1, 0}) {
      InterpretOptions options;
      options.inPlace = inPlace;
      options.credits = credits;
      options.schedules = 3;
      options.maxStates = plans.size() <= 3 ? 20'000 : 0;
      const base::Status status = interpret(plans, options);
      EXPECT_TRUE(status.isOk()) << name << " n=" << plans.size() << " inPlace=" << inPlace
                                 << " credits=" << credits << ": " << status.message();
    }
  }
}

TEST(Interpreter, RunsTheTextbookPlans) {
  for (int32_t n = 1; n <= 6; ++n) {
    expectRuns(testing::oneShot(n), "oneShot");
    expectRuns(testing::twoShot(n), "twoShot");
    expectRuns(testing::ring(n), "ring");
    expectRuns(testing::ring(n, 1), "skewed ring");
    expectRuns(testing::ringAllGather(n), "ringAllGather");
    expectRuns(testing::directReduceScatter(n), "directReduceScatter");
    expectRuns(testing::barrier(n), "barrier");
  }
}

TEST(Interpreter, RunsPlansWithARootAndAllToAll) {
  for (int32_t n = 1; n <= 5; ++n) {
    for (int32_t root = 0; root < n; ++root) {
      expectRuns(testing::chainBroadcast(n, root), "chainBroadcast");
      expectRuns(testing::chainReduce(n, root), "chainReduce");
      expectRuns(testing::directGather(n, root), "directGather");
      expectRuns(testing::chainScatter(n, root), "chainScatter");
    }
    expectRuns(testing::ringAllToAll(n), "ringAllToAll");
    if (n > 1) expectRuns(testing::centralAllToAll(n), "centralAllToAll");
  }
}

TEST(Interpreter, SeesABlockThatWentToAnotherRank) {
  Set plans = testing::centralAllToAll(3);
  auto& steps = plans[0].lanes[0].steps;
  std::swap(steps[4].sources, steps[5].sources);
  const base::Status status = interpret(plans, {});
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(status.message().find("rank 1 lane 0 ends with a wrong output block"),
            std::string_view::npos)
      << status.message();
}

TEST(Interpreter, SeesBlocksOfTheRootElsewhere) {
  Set plans = testing::chainBroadcast(3, 1);
  plans[2].lanes[0].steps[0].sources = {testing::slice(Space::kInput, 0)};
  EXPECT_NE(interpret(plans, {}).message().find("does not have"), std::string_view::npos);
  plans = testing::directGather(3, 1);
  plans[2].lanes[0].steps[0].sinks.push_back(testing::slice(Space::kOutput, 2));
  EXPECT_NE(interpret(plans, {}).message().find("does not have"), std::string_view::npos);
}

TEST(Interpreter, SeesTheSkewedRingHang) {
  Set plans = testing::ring(4, 1);
  InterpretOptions options;
  options.credits = plans[0].minCredits - 1;
  const base::Status status = interpret(plans, options);
  ASSERT_FALSE(status.isOk());
  EXPECT_NE(status.message().find("deadlock"), std::string_view::npos) << status.message();
}

TEST(Interpreter, SeesAContributionTwice) {
  Set plans = testing::oneShot(3);
  plans[1].lanes[0].steps[1].sources.push_back(testing::slice(Space::kInput, 0));
  EXPECT_FALSE(interpret(plans, {}).isOk());
}

TEST(Interpreter, SeesAChunkLeftInALink) {
  Set plans = testing::oneShot(2);
  plans[0].lanes[0].steps.push_back(plans[0].lanes[0].steps[0]);
  InterpretOptions options;
  options.credits = 8;
  EXPECT_FALSE(interpret(plans, options).isOk());
}

}  // namespace
}  // namespace omnes::plan
