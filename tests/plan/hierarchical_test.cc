// Hierarchical plans for groups of many shapes: proven, played by the interpreter, and rejected when
// they are damaged.
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
      {"mixed up", of({{{0, 1, 0, 2, 1, 1, 0, 2, 3}}})},
      {"2x2x2", of({neighbours({2, 2, 2, 2}), neighbours({4, 4})})},
      {"(2+2)+(3+1)", of({neighbours({2, 2, 3, 1}), neighbours({4, 4})})},
      {"(1+2+2)+(3)+(2+1)", of({neighbours({1, 2, 2, 3, 2, 1}), neighbours({5, 3, 3})})},
      {"2x2x2x2", of({neighbours({2, 2, 2, 2, 2, 2, 2, 2}), neighbours({4, 4, 4, 4}),
                      neighbours({8, 8})})},
      {"dealt twice", of({dealt(12, 6), dealt(12, 2)})},
      {"levels that say nothing",
       of({dealt(6, 6), neighbours({2, 2, 2}), neighbours({2, 2, 2}), neighbours({6})})},
      {"one group", of({neighbours({5})})},
      {"one rank a group", of({dealt(5, 5)})},
      {"64 = 8 x 8", even(8, 8)},
      {"64 = 16 x 4", even(16, 4)},
      {"64 = 4 x 4 x 4", of({neighbours(std::vector<int32_t>(16, 4)), neighbours({16, 16, 16, 16})})},
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

TEST(Hierarchical, IsProvenForGroupsOfManyShapes) {
  for (const Algorithm* algorithm : hierarchicalOnes()) {
    for (const Case& example : cases()) {
      SCOPED_TRACE(std::string(nameOf(algorithm->collective)) + " " + example.name);
      ASSERT_TRUE(checkHierarchy(example.hierarchy).isOk());
      const auto plans = plansOf(*algorithm, example.hierarchy);
      for (const bool inPlace : {false, true}) {
        if (inPlace && algorithm->collective == Collective::kAllToAll) continue;
        const auto proof = verify(plans, {.inPlace = inPlace});
        ASSERT_TRUE(proof.isOk()) << "in place " << inPlace << ": " << proof.status().message();
        EXPECT_TRUE(proof.value().sameOrderOnAllRanks);
      }
    }
  }
}

}  // namespace
}  // namespace omnes::plan::testing
