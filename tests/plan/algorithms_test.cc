// The registered algorithms against their declared costs and against a judge that knows nothing of
// the verifier.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/registry.h"
#include "plan/builder.h"
#include "plan/combinators.h"
#include "plan/interpreter.h"
#include "plan/verifier.h"
#include "registry_checks.h"

namespace omnes::algorithms {
namespace {

using plan::Collective;
using plan::Plan;

using plan::testing::labelOf;
using plan::testing::rootsOf;
using plan::testing::supports;

std::vector<Plan> plansOf(const Algorithm& algorithm, int32_t nranks, int32_t root = -1) {
  return plan::testing::makePlans(algorithm, nranks, root);
}

// Calls test(n, root) for the roots that the algorithm supports.
template <typename Test>
void forEachRoot(const Algorithm& algorithm, int32_t nranks, const Test& test) {
  for (const int32_t root : rootsOf(algorithm.collective, nranks)) {
    if (!supports(algorithm, nranks, root)) continue;
    SCOPED_TRACE(labelOf(algorithm, nranks, root));
    test(root);
  }
}

// What combinators leave to their caller: where ranks send chunks of different sizes, all of them
// declare the largest.
void agreeOnChunks(std::vector<Plan>& plans) {
  int32_t input = 0, partial = 0;
  for (const Plan& plan : plans) {
    input = std::max(input, plan.maxInputChunkBlocks);
    partial = std::max(partial, plan.maxPartialChunkBlocks);
  }
  for (Plan& plan : plans) {
    plan.maxInputChunkBlocks = input;
    plan.maxPartialChunkBlocks = partial;
  }
}

// Whether an all-gather brings no rank a block twice, nor its own, which would be added twice when
// it is reversed: then n ranks get n - 1 blocks.
bool bringsEachBlockOnce(const std::vector<Plan>& plans) {
  int64_t blocks = 0;
  for (const Plan& plan : plans) blocks += plan::countersOf(plan).inputBlocks;
  const auto nranks = static_cast<int64_t>(plans.size());
  return blocks == nranks * (nranks - 1);
}

// Proves the plans in place and not; the facts of the latter.
plan::Proof expectProven(const std::vector<Plan>& plans) {
  plan::Proof facts;
  for (const bool inPlace : {true, false}) {
    const auto proof = plan::verify(plans, {.inPlace = inPlace});
    EXPECT_TRUE(proof.isOk()) << "in place " << inPlace << ": " << proof.status().message();
    if (proof.isOk()) facts = proof.value();
  }
  return facts;
}

// The interpreter knows memory, not tokens, and tries random schedules with all lanes at once.
TEST(Algorithms, SatisfyTheInterpreter) {
  for (const Algorithm& algorithm : all()) {
    for (int32_t n = 1; n <= 16; n += n < 9 ? 1 : 3) {
      forEachRoot(algorithm, n, [&](int32_t root) {
        const std::vector<Plan> plans = plansOf(algorithm, n, root);
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
      });
    }
  }
}

TEST(Algorithms, PlanSizesDoNotGrowWithTheRanks) {
  for (const Algorithm& algorithm : all()) {
    constexpr int32_t kRanks = 100000, kRank = 77777;
    for (const int32_t root : {-1, 0, kRank}) {
      if (!algorithm.supports({kRank, kRanks, root, nullptr})) continue;
      const Plan plan = algorithm.make({kRank, kRanks, root, nullptr});
      SCOPED_TRACE(labelOf(algorithm, kRanks, root));
      const size_t bound = algorithm.logRounds ? 100 : 20;
      for (const plan::Lane& lane : plan.lanes) EXPECT_LT(lane.steps.size(), bound);
    }
  }
}

TEST(Algorithms, CirculantIsOptimalInRoundsAndVolume) {
  const Algorithm* circulant = find(Collective::kAllReduce, "circulant");
  ASSERT_NE(circulant, nullptr);
  for (int32_t n = 2; n <= 129; ++n) {
    SCOPED_TRACE(n);
    int64_t log = 0;
    while ((1 << log) < n) ++log;
    const std::vector<Plan> plans = plansOf(*circulant, n);
    EXPECT_EQ(expectProven(plans).rounds, 2 * log);
    for (const Plan& plan : plans) {
      const plan::Counters counters = plan::countersOf(plan);
      EXPECT_EQ(counters.messages, 2 * log);
      EXPECT_EQ(counters.inputBlocks + counters.partialBlocks, 2 * (n - 1));
    }
  }
}

// Logarithmic up to 2 * 64 ranks, always n - 1 blocks, never more than 64 in a chunk; and the
// longer the way the fewer blocks go it.
TEST(Algorithms, PatSendsLittleFarAndMuchNear) {
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    const Algorithm* pat = find(collective, "pat");
    ASSERT_NE(pat, nullptr);
    for (const int32_t n : {2, 3, 5, 6, 7, 8, 31, 33, 100, 128, 129, 257, 1000}) {
      SCOPED_TRACE(labelOf(*pat, n));
      int64_t log = 0;
      while ((1 << log) < n) ++log;
      const std::vector<Plan> plans = plansOf(*pat, n);
      if (n <= 128) {
        EXPECT_EQ(expectProven(plans).rounds, log);
      }
      const plan::Counters counters = plan::countersOf(plans[0]);
      EXPECT_EQ(counters.inputBlocks + counters.partialBlocks, n - 1);
      std::map<int32_t, int64_t> blocksAt;  // by distance
      int32_t times = 1;
      for (const plan::Step& step : plans[0].lanes[0].steps) {
        if (step.kind == plan::Step::Kind::kLoop) times = step.iterations;
        if (step.kind == plan::Step::Kind::kEndLoop) times = 1;
        for (const plan::Ref& sink : step.sinks) {
          if (sink.kind != plan::Ref::Kind::kLink) continue;
          const int32_t peer = sink.run.start.base;
          EXPECT_LE(step.sources[0].run.count, 64);
          blocksAt[collective == Collective::kAllGather ? peer : n - peer] +=
              int64_t{times} * step.sources[0].run.count;
        }
      }
      EXPECT_EQ(static_cast<int64_t>(blocksAt.size()), log);
      int64_t last = n;
      for (const auto& [distance, blocks] : blocksAt) {
        EXPECT_LE(blocks, last) << "distance " << distance;
        last = blocks;
      }
      EXPECT_EQ(blocksAt.begin()->first, 1);
      EXPECT_EQ(blocksAt.begin()->second, n / 2);
      EXPECT_EQ(blocksAt.rbegin()->second, 1);
    }
  }
}

// A block takes a hop for each digit of its distance that is not 0, all blocks of one digit at
// once.
TEST(Algorithms, BruckTakesAHopForEachDigit) {
  for (const auto& [name, radix] : {std::pair{"bruck", 2}, {"bruck4", 4}, {"bruck8", 8}}) {
    const Algorithm* bruck = find(Collective::kAllToAll, name);
    ASSERT_NE(bruck, nullptr);
    for (int32_t n = 2; n <= 129; ++n) {
      SCOPED_TRACE(labelOf(*bruck, n));
      int64_t hops = 0;
      std::set<int32_t> moves;  // digit value times weight
      for (int32_t distance = 1; distance < n; ++distance) {
        for (int32_t rest = distance, weight = 1; rest > 0; rest /= radix, weight *= radix) {
          if (rest % radix == 0) continue;
          ++hops;
          moves.insert(rest % radix * weight);
        }
      }
      int64_t digits = 0;
      for (int64_t power = 1; power < n; power *= radix) ++digits;
      const std::vector<Plan> plans = plansOf(*bruck, n);
      const auto proof = plan::verify(plans, {});
      ASSERT_TRUE(proof.isOk()) << proof.status().message();
      EXPECT_EQ(proof.value().rounds, digits);
      const plan::Counters counters = plan::countersOf(plans[0]);
      EXPECT_EQ(counters.messages, static_cast<int64_t>(moves.size()));
      EXPECT_EQ(counters.inputBlocks, hops);
    }
  }
}

// Nobody is sent a block for longer than the shorter way round, and only neighbours send.
TEST(Algorithms, RingAllToAllGoesTheShorterWay) {
  const Algorithm* ring = find(Collective::kAllToAll, "ring");
  ASSERT_NE(ring, nullptr);
  for (int32_t n = 2; n <= 65; ++n) {
    SCOPED_TRACE(n);
    int64_t hops = 0;
    for (int32_t distance = 1; distance < n; ++distance) hops += std::min(distance, n - distance);
    const Plan plan = ring->make({n / 2, n, -1, nullptr});
    EXPECT_EQ(plan::countersOf(plan).inputBlocks, hops);
    for (const plan::Step& step : plan.lanes[0].steps) {
      for (const plan::Ref& sink : step.sinks) {
        if (sink.kind != plan::Ref::Kind::kLink) continue;
        const int32_t distance = (sink.run.start.base - plan.rank + n) % n;
        EXPECT_TRUE(distance == 1 || distance == n - 1) << distance;
      }
    }
  }
  EXPECT_TRUE(ring->supports({0, 512, -1, nullptr}));
  EXPECT_FALSE(ring->supports({0, 513, -1, nullptr}));
}

// Slices are cut by the largest chunk of any rank, so all ranks must say the same.
TEST(Algorithms, RanksAgreeOnWhatIsShared) {
  for (const Algorithm& algorithm : all()) {
    for (int32_t n = 1; n <= 33; ++n) {
      forEachRoot(algorithm, n, [&](int32_t root) {
        const std::vector<Plan> plans = plansOf(algorithm, n, root);
        int32_t input = 0, partial = 0;
        for (const Plan& plan : plans) {
          Plan own = plan;
          plan::declareChunks(own);
          input = std::max(input, own.maxInputChunkBlocks);
          partial = std::max(partial, own.maxPartialChunkBlocks);
        }
        for (const Plan& plan : plans) {
          EXPECT_EQ(plan.maxInputChunkBlocks, input);
          EXPECT_EQ(plan.maxPartialChunkBlocks, partial);
          EXPECT_EQ(plan.minCredits, plans[0].minCredits);
          EXPECT_EQ(plan.blocks, plans[0].blocks);
          EXPECT_EQ(plan.cut, plans[0].cut);
          EXPECT_EQ(plan.root, root);
          EXPECT_EQ(plan.lanes.size(), plans[0].lanes.size());
        }
      });
    }
  }
}

// Every peer and block, and the root, shifted by `by`; blocks of a space of one block stay where
// they are, as modular arithmetic has it, and so does scratch whose blocks stand for distances.
Plan shifted(Plan plan, int32_t by) {
  const int32_t n = plan.nranks;
  plan.rank = (plan.rank + by) % n;
  if (plan.root >= 0) plan.root = (plan.root + by) % n;
  for (plan::Lane& lane : plan.lanes) {
    for (plan::Step& step : lane.steps) {
      for (auto* refs : {&step.sources, &step.sinks}) {
        for (plan::Ref& ref : *refs) {
          if (ref.kind == plan::Ref::Kind::kSlice && ref.space == plan::Space::kScratch &&
              plan.collective == Collective::kAllToAll) {
            continue;
          }
          const int32_t modulus =
              ref.kind == plan::Ref::Kind::kLink ? n : plan::blockCount(plan, ref.space);
          ref.run.start.base = (ref.run.start.base + by) % modulus;
        }
      }
    }
  }
  return plan;
}

// The flag says that rank r's plan is rank 0's, shifted by r.
TEST(Algorithms, EquivariantPlansAreShiftsOfRankZeros) {
  for (const Algorithm& algorithm : all()) {
    for (const int32_t n : {2, 3, 5, 8, 13}) {
      SCOPED_TRACE(labelOf(algorithm, n));
      if (!supports(algorithm, n)) continue;
      bool allShifted = true;
      for (const int32_t root : rootsOf(algorithm.collective, n)) {
        for (int32_t r = 0; r < n; ++r) {
          const int32_t rootSeen = root < 0 ? -1 : (root + r) % n;
          allShifted = allShifted && shifted(algorithm.make({0, n, root, nullptr}), r) ==
                                         algorithm.make({r, n, rootSeen, nullptr});
        }
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
      for (const Plan& plan : plansOf(algorithm, n)) once.push_back(plan::reverse(plan));
      if (once[0].collective == Collective::kAllGather && bringsEachBlockOnce(once)) {
        for (const Plan& plan : once) twice.push_back(plan::reverse(plan));
      }
      EXPECT_NE(once[0].collective, algorithm.collective);
      agreeOnChunks(once);
      agreeOnChunks(twice);
      expectProven(once);
      if (!twice.empty()) expectProven(twice);
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
      agreeOnChunks(plans);
      EXPECT_TRUE(expectProven(plans).sameOrderOnAllRanks);
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

TEST(Algorithms, RefuseRanksAndRootsThatDoNotExist) {
  for (const Algorithm& algorithm : all()) {
    SCOPED_TRACE(labelOf(algorithm, 4));
    const int32_t root = plan::hasRoot(algorithm.collective) ? 0 : -1;
    EXPECT_TRUE(algorithm.supports({0, 1, root, nullptr}));
    EXPECT_FALSE(algorithm.supports({0, 0, root, nullptr}));
    EXPECT_FALSE(algorithm.supports({4, 4, root, nullptr}));
    EXPECT_FALSE(algorithm.supports({-1, 4, root, nullptr}));
    EXPECT_FALSE(algorithm.supports({0, 4, 4, nullptr}));
    EXPECT_EQ(algorithm.supports({0, 4, 2, nullptr}), plan::hasRoot(algorithm.collective));
    EXPECT_EQ(algorithm.supports({0, 4, -1, nullptr}), !plan::hasRoot(algorithm.collective));
  }
}

}  // namespace
}  // namespace omnes::algorithms
