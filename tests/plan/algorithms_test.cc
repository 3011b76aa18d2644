// The registered algorithms against their declared costs and against a judge that knows nothing of
// the verifier.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "plan/combinators.h"
#include "plan/interpreter.h"
#include "tests/plan/token_checker.h"

namespace omnes::algorithms {
namespace {

using plan::Collective;
using plan::Plan;
using plan::testing::check;
using plan::testing::CheckOptions;
using plan::testing::CheckResult;

std::vector<Plan> plansOf(const Algorithm& algorithm, int32_t nranks) {
  std::vector<Plan> plans;
  for (int32_t r = 0; r < nranks; ++r) plans.push_back(algorithm.make({r, nranks, -1, nullptr}));
  return plans;
}

std::string labelOf(const Algorithm& algorithm, int32_t nranks) {
  return std::string(plan::nameOf(algorithm.collective)) + " " + std::string(algorithm.name) +
         " n " + std::to_string(nranks);
}

void expectDeclaredCost(const Algorithm& algorithm, int32_t nranks, const CheckResult& result) {
  for (int32_t r = 0; r < nranks; ++r) {
    const Cost declared = algorithm.cost({r, nranks, -1, nullptr});
    Cost measured = result.costs[r];
    measured.rounds = result.rounds;
    EXPECT_EQ(declared.rounds, measured.rounds) << "rank " << r;
    EXPECT_EQ(declared.messages, measured.messages) << "rank " << r;
    EXPECT_EQ(declared.inputBlocks, measured.inputBlocks) << "rank " << r;
    EXPECT_EQ(declared.partialBlocks, measured.partialBlocks) << "rank " << r;
    EXPECT_EQ(declared.operands, measured.operands) << "rank " << r;
  }
}

TEST(Algorithms, ComputeTheCollectiveForEveryNumberOfRanks) {
  for (const Algorithm& algorithm : all()) {
    for (int32_t n = 1; n <= 33; ++n) {
      SCOPED_TRACE(labelOf(algorithm, n));
      const std::vector<Plan> plans = plansOf(algorithm, n);
      for (size_t lane = 0; lane < plans[0].lanes.size(); ++lane) {
        for (const bool inPlace : {false, true}) {
          for (const bool lend : {false, true}) {
            const CheckOptions options{
                .inPlace = inPlace, .lend = lend, .credits = plans[0].minCredits, .slices = 4};
            const CheckResult result = check(plans, static_cast<int>(lane), options);
            ASSERT_EQ(result.error, "") << "in place " << inPlace << " lend " << lend;
            EXPECT_TRUE(result.sameOrder);
          }
        }
        const CheckResult one =
            check(plans, static_cast<int>(lane), {.credits = plans[0].minCredits, .slices = 1});
        expectDeclaredCost(algorithm, n, one);
      }
    }
  }
}

// The interpreter knows memory, not tokens, and tries random schedules with all lanes at once.
TEST(Algorithms, SatisfyTheInterpreter) {
  for (const Algorithm& algorithm : all()) {
    for (int32_t n = 1; n <= 16; n += n < 9 ? 1 : 3) {
      SCOPED_TRACE(labelOf(algorithm, n));
      const std::vector<Plan> plans = plansOf(algorithm, n);
      for (const bool inPlace : {false, true}) {
        for (const int32_t credits : {-1, 0}) {
          plan::InterpretOptions options;
          options.inPlace = inPlace;
          options.credits = credits;
          options.schedules = 2;
          const base::Status status = plan::interpret(plans, options);
          EXPECT_TRUE(status.isOk()) << status.message();
        }
      }
    }
  }
}

TEST(Algorithms, NeedTheCreditsThatTheyDeclare) {
  for (const Algorithm& algorithm : all()) {
    for (int32_t n = 2; n <= 17; ++n) {
      SCOPED_TRACE(labelOf(algorithm, n));
      const std::vector<Plan> plans = plansOf(algorithm, n);
      for (const Plan& plan : plans) EXPECT_EQ(plan.minCredits, plans[0].minCredits);
      const CheckResult result = check(plans, 0, {.credits = plans[0].minCredits - 1, .slices = 6});
      EXPECT_NE(result.error.find("waits for ever"), std::string::npos);
    }
  }
}

TEST(Algorithms, PlanSizesDoNotGrowWithTheRanks) {
  for (const Algorithm& algorithm : all()) {
    const Plan plan = algorithm.make({77777, 100000, -1, nullptr});
    SCOPED_TRACE(labelOf(algorithm, plan.nranks));
    const size_t bound = algorithm.logRounds ? 80 : 20;
    for (const plan::Lane& lane : plan.lanes) EXPECT_LT(lane.steps.size(), bound);
  }
}

TEST(Algorithms, CirculantIsOptimalInRoundsAndVolume) {
  const Algorithm* circulant = find(Collective::kAllReduce, "circulant");
  ASSERT_NE(circulant, nullptr);
  for (int32_t n = 2; n <= 129; ++n) {
    SCOPED_TRACE(n);
    int64_t log = 0;
    while ((1 << log) < n) ++log;
    const CheckResult result =
        check(plansOf(*circulant, n), 0,
              {.credits = circulant->make({0, n, -1, nullptr}).minCredits, .slices = 1});
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.rounds, 2 * log);
    for (const Cost& cost : result.costs) {
      EXPECT_EQ(cost.messages, 2 * log);
      EXPECT_EQ(cost.inputBlocks + cost.partialBlocks, 2 * (n - 1));
    }
    expectDeclaredCost(*circulant, n, result);
  }
}

// The flag says that rank r's plan is rank 0's with every peer and block shifted by r; blocks of a
// space of one block stay where they are, as modular arithmetic has it.
TEST(Algorithms, EquivariantPlansAreShiftsOfRankZeros) {
  for (const Algorithm& algorithm : all()) {
    for (const int32_t n : {2, 3, 5, 8, 13}) {
      SCOPED_TRACE(labelOf(algorithm, n));
      bool allShifted = true;
      for (int32_t r = 0; r < n; ++r) {
        Plan shifted = algorithm.make({0, n, -1, nullptr});
        shifted.rank = r;
        for (plan::Lane& lane : shifted.lanes) {
          for (plan::Step& step : lane.steps) {
            for (auto* refs : {&step.sources, &step.sinks}) {
              for (plan::Ref& ref : *refs) {
                const int32_t modulus =
                    ref.kind == plan::Ref::Kind::kLink ? n : plan::blockCount(shifted, ref.space);
                ref.run.start.base = (ref.run.start.base + r) % modulus;
              }
            }
          }
        }
        allShifted = allShifted && shifted == algorithm.make({r, n, -1, nullptr});
      }
      if (algorithm.equivariant) {
        EXPECT_TRUE(allShifted);
      } else {
        EXPECT_FALSE(allShifted);
      }
    }
  }
}

// Reversing any all-gather gives a right reduce-scatter and the other way round, with the same need
// of slots.
TEST(Combinators, ReverseTurnsGatheringIntoReducing) {
  for (const Algorithm& algorithm : all()) {
    if (algorithm.collective != Collective::kAllGather &&
        algorithm.collective != Collective::kReduceScatter) {
      continue;
    }
    for (int32_t n = 1; n <= 16; ++n) {
      SCOPED_TRACE("reverse of " + labelOf(algorithm, n));
      std::vector<Plan> once, twice;
      for (const Plan& plan : plansOf(algorithm, n)) {
        once.push_back(plan::reverse(plan));
        if (once.back().collective == Collective::kAllGather) {
          twice.push_back(plan::reverse(once.back()));
        }
      }
      EXPECT_NE(once[0].collective, algorithm.collective);
      for (const auto* plans : {&once, &twice}) {
        if (plans->empty()) continue;
        for (size_t lane = 0; lane < once[0].lanes.size(); ++lane) {
          for (const bool inPlace : {false, true}) {
            for (const bool lend : {false, true}) {
              const CheckResult result =
                  check(*plans, static_cast<int>(lane),
                        {.inPlace = inPlace, .lend = lend, .credits = once[0].minCredits});
              ASSERT_EQ(result.error, "") << "in place " << inPlace << " lend " << lend;
              EXPECT_TRUE(result.sameOrder);
            }
          }
        }
      }
    }
  }
}

// What is reversed can be composed: all-reduces out of one half only.
TEST(Combinators, ComposeAcceptsReversedHalves) {
  for (const Algorithm& algorithm : all()) {
    if (algorithm.collective != Collective::kAllGather) continue;
    for (int32_t n = 1; n <= 12; ++n) {
      SCOPED_TRACE("reverse and compose " + labelOf(algorithm, n));
      std::vector<Plan> plans;
      for (const Plan& plan : plansOf(algorithm, n)) {
        plans.push_back(plan::compose(plan::reverse(plan), plan, 3));
      }
      for (const bool inPlace : {false, true}) {
        const CheckResult result =
            check(plans, 0, {.inPlace = inPlace, .lend = true, .credits = 3});
        ASSERT_EQ(result.error, "");
        EXPECT_TRUE(result.sameOrder);
      }
    }
  }
}

TEST(Combinators, ComposedPlansCopyNothingInBetween) {
  for (const char* name : {"ring", "direct", "circulant"}) {
    SCOPED_TRACE(name);
    for (int32_t n = 1; n <= 9; ++n) {
      const Plan plan = find(Collective::kAllReduce, name)->make({n / 2, n, -1, nullptr});
      for (const plan::Lane& lane : plan.lanes) {
        for (const plan::Step& step : lane.steps) {
          if (step.op != plan::Op::kNone || step.kind != plan::Step::Kind::kMove) continue;
          for (const plan::Ref& sink : step.sinks) {
            EXPECT_FALSE(step.sources[0].kind == plan::Ref::Kind::kSlice &&
                         sink.kind == plan::Ref::Kind::kSlice);
          }
        }
      }
    }
  }
}

TEST(Combinators, ReverseKeepsLoops) {
  const Plan gather = find(Collective::kAllGather, "ring")->make({7, 100000, -1, nullptr});
  const Plan reduce = plan::reverse(gather);
  EXPECT_LT(reduce.lanes[0].steps.size(), 20u);
  EXPECT_LT(plan::reverse(reduce).lanes[0].steps.size(), 20u);
}

TEST(Algorithms, AreFoundByCollectiveAndName) {
  for (const Algorithm& algorithm : all()) {
    EXPECT_EQ(find(algorithm.collective, algorithm.name), &algorithm);
  }
  EXPECT_EQ(find(Collective::kAllReduce, "no such"), nullptr);
  EXPECT_EQ(find(Collective::kBarrier, "ring"), nullptr);
}

TEST(Algorithms, RefuseRanksThatDoNotExist) {
  for (const Algorithm& algorithm : all()) {
    EXPECT_TRUE(algorithm.supports({0, 1, -1, nullptr}));
    EXPECT_FALSE(algorithm.supports({0, 0, -1, nullptr}));
    EXPECT_FALSE(algorithm.supports({4, 4, -1, nullptr}));
    EXPECT_FALSE(algorithm.supports({-1, 4, -1, nullptr}));
    EXPECT_FALSE(algorithm.supports({0, 4, 2, nullptr}));
  }
}

}  // namespace
}  // namespace omnes::algorithms
