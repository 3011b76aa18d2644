// Hierarchical plans for groups of many shapes: proven, played by the interpreter, and rejected
// when they are damaged.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "mutants.h"
#include "plan/hierarchy.h"
#include "plan/interpreter.h"
#include "plan/verifier.h"

namespace omnes::plan::testing {
namespace {

using algorithms::Algorithm;

// Groups of neighbours, of these sizes.
Level neighbours(const std::vector<int32_t>& sizes) {
  Level level;
  for (size_t group = 0; group < sizes.size(); ++group)
    level.group.insert(level.group.end(), static_cast<size_t>(sizes[group]),
                       static_cast<int32_t>(group));
  return level;
}
// Rank r in group r mod `groups`.
Level dealt(int32_t nranks, int32_t groups) {
  Level level;
  for (int32_t rank = 0; rank < nranks; ++rank) level.group.push_back(rank % groups);
  return level;
}
Hierarchy of(std::vector<Level> levels) {
  return {static_cast<int32_t>(levels[0].group.size()), std::move(levels)};
}
Hierarchy even(int32_t groups, int32_t size) {
  return of({neighbours(std::vector<int32_t>(static_cast<size_t>(groups), size))});
}

struct Case {
  std::string name;
  Hierarchy hierarchy;
};

std::vector<Case> cases() {
  std::vector<Case> out = {
      {"3+1", of({neighbours({3, 1})})},
      {"1+3", of({neighbours({1, 3})})},
      {"1+2+2", of({neighbours({1, 2, 2})})},
      {"2+3+4", of({neighbours({2, 3, 4})})},
      {"4+2+2", of({neighbours({4, 2, 2})})},
      {"5+3+3+1", of({neighbours({5, 3, 3, 1})})},
      {"7+2", of({neighbours({7, 2})})},
      {"1+1+6", of({neighbours({1, 1, 6})})},
      {"7 dealt to 3", of({dealt(7, 3)})},
      {"8 dealt to 2", of({dealt(8, 2)})},
      {"1 and nine of 2", of({neighbours({1, 2, 2, 2, 2, 2, 2, 2, 2, 2})})},
      {"mixed up", of({{{0, 1, 0, 2, 1, 1, 0, 2, 3}}})},
      {"2x2x2", of({neighbours({2, 2, 2, 2}), neighbours({4, 4})})},
      {"(2+2)+(3+1)", of({neighbours({2, 2, 3, 1}), neighbours({4, 4})})},
      {"(1+2+2)+(3)+(2+1)", of({neighbours({1, 2, 2, 3, 2, 1}), neighbours({5, 3, 3})})},
      {"2x2x2x2",
       of({neighbours({2, 2, 2, 2, 2, 2, 2, 2}), neighbours({4, 4, 4, 4}), neighbours({8, 8})})},
      {"dealt twice", of({dealt(12, 6), dealt(12, 2)})},
      {"levels that say nothing",
       of({dealt(6, 6), neighbours({2, 2, 2}), neighbours({2, 2, 2}), neighbours({6})})},
      {"one group", of({neighbours({5})})},
      {"one rank a group", of({dealt(5, 5)})},
      {"64 = 8 x 8", even(8, 8)},
      {"64 = 16 x 4", even(16, 4)},
      {"64 = 4 x 4 x 4",
       of({neighbours(std::vector<int32_t>(16, 4)), neighbours({16, 16, 16, 16})})},
      {"64, uneven", of({neighbours({9, 1, 13, 7, 2, 2, 11, 3, 5, 4, 7})})},
  };
  for (int32_t groups = 2; groups <= 9; ++groups)
    for (const int32_t size : {2, 3, 4})
      out.push_back({std::to_string(groups) + "x" + std::to_string(size), even(groups, size)});
  return out;
}

std::vector<Plan> plansOf(const Algorithm& algorithm, const Hierarchy& hierarchy) {
  std::vector<Plan> plans;
  for (int32_t rank = 0; rank < hierarchy.nranks; ++rank)
    plans.push_back(algorithm.make(
        {.rank = rank, .nranks = hierarchy.nranks, .root = -1, .hierarchy = &hierarchy}));
  return plans;
}

std::vector<const Algorithm*> hierarchicalOnes() {
  std::vector<const Algorithm*> out;
  for (const Algorithm& algorithm : algorithms::all())
    if (algorithm.name == "hierarchical") out.push_back(&algorithm);
  return out;
}

bool mayBeInPlace(const Algorithm& algorithm) {
  return algorithm.collective != Collective::kAllToAll;
}

TEST(Hierarchical, IsProvenForGroupsOfManyShapes) {
  for (const Algorithm* algorithm : hierarchicalOnes()) {
    for (const Case& example : cases()) {
      SCOPED_TRACE(std::string(nameOf(algorithm->collective)) + " " + example.name);
      ASSERT_TRUE(checkHierarchy(example.hierarchy).isOk());
      const auto plans = plansOf(*algorithm, example.hierarchy);
      for (const bool inPlace : {false, true}) {
        if (inPlace && !mayBeInPlace(*algorithm)) continue;
        const auto proof = verify(plans, {.inPlace = inPlace});
        ASSERT_TRUE(proof.isOk()) << "in place " << inPlace << ": " << proof.status().message();
        EXPECT_TRUE(proof.value().sameOrderOnAllRanks);
      }
    }
  }
}

base::Status play(const std::vector<Plan>& plans, bool inPlace, uint64_t seed, int32_t schedules) {
  for (const int32_t credits : {-1, 0}) {
    InterpretOptions options;
    options.inPlace = inPlace;
    options.credits = credits;
    options.seed = seed;
    options.schedules = schedules;
    base::Status status = interpret(plans, options);
    if (!status.isOk()) return status;
  }
  return base::Status::ok();
}

// The interpreter knows memory, not tokens, and tries random schedules.
TEST(Hierarchical, SatisfiesTheInterpreter) {
  for (const Algorithm* algorithm : hierarchicalOnes()) {
    for (const Case& example : cases()) {
      if (example.hierarchy.nranks > 16) continue;
      SCOPED_TRACE(std::string(nameOf(algorithm->collective)) + " " + example.name);
      const auto plans = plansOf(*algorithm, example.hierarchy);
      for (const bool inPlace : {false, true}) {
        if (inPlace && !mayBeInPlace(*algorithm)) continue;
        const base::Status status = play(plans, inPlace, 1, 2);
        EXPECT_TRUE(status.isOk()) << status.message();
      }
    }
  }
}

// Slots on real links are few: more than these two would make the algorithm useless.
TEST(Hierarchical, NeedsNoMoreSlotsThanLinksHave) {
  for (const Algorithm* algorithm : hierarchicalOnes()) {
    for (const Case& example : cases()) {
      SCOPED_TRACE(std::string(nameOf(algorithm->collective)) + " " + example.name);
      const auto plans = plansOf(*algorithm, example.hierarchy);
      for (const Plan& plan : plans) {
        EXPECT_LE(plan.minCredits, 2);
        EXPECT_EQ(plan.lanes.size(), 1u);
        EXPECT_EQ(plan.maxInputChunkBlocks, plans[0].maxInputChunkBlocks);
        EXPECT_EQ(plan.maxPartialChunkBlocks, plans[0].maxPartialChunkBlocks);
      }
    }
  }
}

TEST(Hierarchical, MutantsThatTheInterpreterFindsWrongAreRejected) {
#ifdef OMNES_LIGHT_TEST
  constexpr int kWanted = 300;
#else
  constexpr int kWanted = 3000;
#endif
  std::vector<Case> small;
  for (Case& example : cases())
    if (example.hierarchy.nranks <= 9) small.push_back(std::move(example));
  std::mt19937_64 random(1);
  const auto algorithms = hierarchicalOnes();
  int wrong = 0;
  for (int i = 0; wrong < kWanted && i < 20 * kWanted; ++i) {
    const Algorithm& algorithm = *algorithms[random() % algorithms.size()];
    const Case& example = small[random() % small.size()];
    const bool inPlace = mayBeInPlace(algorithm) && random() % 2 == 0;
    std::vector<Plan> plans = plansOf(algorithm, example.hierarchy);
    const std::string what = mutate(&plans, &random);
    const base::Status played = play(plans, inPlace, static_cast<uint64_t>(i), 3);
    if (played.isOk()) continue;
    ++wrong;
    ASSERT_FALSE(verify(plans, {.inPlace = inPlace}).isOk())
        << nameOf(algorithm.collective) << " " << example.name << ", mutant " << i << " (" << what
        << ") passes, but: " << played.message();
  }
  EXPECT_EQ(wrong, kWanted);
}

// Bytes that cross between the groups: those that must, whatever the sizes of the groups.
TEST(Hierarchical, SendsEveryBlockBetweenGroupsOnce) {
  for (const Algorithm* algorithm : hierarchicalOnes()) {
    for (const Case& example : cases()) {
      const Hierarchy hierarchy = simplified(example.hierarchy);
      if (hierarchy.levels.size() != 1) continue;
      const Groups groups(hierarchy.levels[0]);
      if (groups.count() > 8) continue;  // not direct between them
      SCOPED_TRACE(std::string(nameOf(algorithm->collective)) + " " + example.name);
      int64_t crossing = 0;
      for (const Plan& plan : plansOf(*algorithm, example.hierarchy)) {
        for (const Step& step : plan.lanes[0].steps) {
          int64_t blocks = 0;
          for (const auto* refs : {&step.sources, &step.sinks})
            for (const Ref& ref : *refs)
              if (ref.kind == Ref::Kind::kSlice) blocks = ref.run.count;
          for (const Ref& sink : step.sinks)
            if (sink.kind == Ref::Kind::kLink &&
                groups.groupOf(sink.run.start.base) != groups.groupOf(plan.rank))
              crossing += blocks;
        }
      }
      const int64_t n = hierarchy.nranks, others = groups.count() - 1;
      int64_t expected = 0;
      switch (algorithm->collective) {
        case Collective::kAllGather:
        case Collective::kReduceScatter: expected = n * others; break;
        case Collective::kAllToAll:
          for (int32_t rank = 0; rank < n; ++rank)
            expected += n - groups.sizeOf(groups.groupOf(rank));
          break;
        default:  // a block of M / (L groups) each way
          expected = 2 * int64_t{groups.largest()} * groups.count() * others;
      }
      EXPECT_EQ(crossing, expected);
    }
  }
}

// One level, for which "direct" runs between the groups.
bool isPlain(const Hierarchy& hierarchy) {
  return hierarchy.levels.size() == 1 && Groups(hierarchy.levels[0]).count() <= 8;
}

// Groups of neighbours, all of one size.
bool isRegular(const Hierarchy& hierarchy) {
  const Groups groups(hierarchy.levels[0]);
  for (int32_t group = 0; group < groups.count(); ++group) {
    const auto members = groups.membersOf(group);
    if (groups.sizeOf(group) != groups.largest() ||
        members.back() - members.front() != groups.largest() - 1)
      return false;
  }
  return true;
}

// Where there is a formula, the plan is held against it; rounds are at most what is declared, and
// exactly that for groups of neighbours of one size, and in an all-reduce for all sizes.
TEST(Hierarchical, CostsWhatItDeclares) {
  for (const Algorithm* algorithm : hierarchicalOnes()) {
    for (const Case& example : cases()) {
      SCOPED_TRACE(std::string(nameOf(algorithm->collective)) + " " + example.name);
      const auto plans = plansOf(*algorithm, example.hierarchy);
      int64_t rounds = 0;
      for (const Plan& plan : plans) {
        const algorithms::Cost cost = algorithm->cost({.rank = plan.rank,
                                                       .nranks = plan.nranks,
                                                       .root = -1,
                                                       .hierarchy = &example.hierarchy});
        const Counters declared{cost.messages, cost.inputBlocks, cost.partialBlocks, cost.operands};
        EXPECT_EQ(countersOf(plan), declared) << "rank " << plan.rank;
        rounds = std::max(rounds, cost.rounds);
      }
      const auto proof = verify(plans, {});
      ASSERT_TRUE(proof.isOk());
      EXPECT_LE(proof.value().rounds, rounds);
      const Hierarchy hierarchy = simplified(example.hierarchy);
      if (isPlain(hierarchy) &&
          (algorithm->collective == Collective::kAllReduce || isRegular(hierarchy))) {
        EXPECT_EQ(proof.value().rounds, rounds);
      }
    }
  }
}

// Fewer messages than ranks: what all of a group have for a rank of another travels together.
TEST(Hierarchical, HasFewMessagesBetweenGroups) {
  for (const Algorithm* algorithm : hierarchicalOnes()) {
    const Hierarchy hierarchy = even(8, 8);
    for (const Plan& plan : plansOf(*algorithm, hierarchy)) {
      const int64_t most = algorithm->collective == Collective::kAllReduce ? 2 * 14 : 14 + 8;
      EXPECT_LE(countersOf(plan).messages, most) << nameOf(algorithm->collective);
    }
  }
}

TEST(Hierarchies, AreCheckedAndSimplified) {
  Hierarchy hierarchy = of({neighbours({2, 2}), neighbours({1, 3})});
  const base::Status split = checkHierarchy(hierarchy);
  EXPECT_EQ(split.code(), base::Code::kInvalidArgument);
  EXPECT_NE(split.message().find("rank 1"), std::string_view::npos) << split.message();
  hierarchy = of({neighbours({2, 2})});
  hierarchy.nranks = 5;
  EXPECT_EQ(checkHierarchy(hierarchy).code(), base::Code::kInvalidArgument);
  EXPECT_TRUE(simplified(of({dealt(6, 6), neighbours({6})})).levels.empty());
  EXPECT_EQ(simplified(of({{{7, 7, 3, 3}}, {{1, 1, 0, 0}}})), of({{{0, 0, 1, 1}}}));
  EXPECT_EQ(unitsOf(of({neighbours({2, 1, 2}), neighbours({3, 2})})), of({{{0, 0, 1}}}));
}

TEST(Hierarchies, ListTheRanksOfGroups) {
  const Groups groups(Level{{5, 1, 5, 1, 1}});
  ASSERT_EQ(groups.count(), 2);
  EXPECT_EQ(groups.largest(), 3);
  EXPECT_EQ(groups.sizeOf(0), 2);
  EXPECT_EQ(groups.membersOf(1)[2], 4);
  EXPECT_EQ(groups.groupOf(4), 1);
  EXPECT_EQ(groups.positionOf(3), 1);
}

TEST(Hierarchical, RefusesHierarchiesOfOthers) {
  const Hierarchy five = of({neighbours({3, 2})});
  const Hierarchy split = of({neighbours({2, 2}), neighbours({1, 3})});
  for (const Algorithm* algorithm : hierarchicalOnes()) {
    EXPECT_TRUE(algorithm->supports({.rank = 0, .nranks = 5, .hierarchy = &five}));
    EXPECT_FALSE(algorithm->supports({.rank = 0, .nranks = 4, .hierarchy = &five}));
    EXPECT_FALSE(algorithm->supports({.rank = 0, .nranks = 4, .hierarchy = &split}));
  }
}

}  // namespace
}  // namespace omnes::plan::testing
