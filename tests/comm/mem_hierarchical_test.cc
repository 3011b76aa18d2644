// Hierarchical collectives of random groups over `mem`: exact results, under random delays.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "comm/exact_case.h"
#include "comm/mem_world.h"
#include "plan/hierarchy.h"

namespace omnes::tests {
namespace {

using base::DataType;
using base::ReduceOp;

// Up to 12 ranks in groups of neighbours or of anybody, sometimes in groups of groups.
plan::Hierarchy randomHierarchy(std::mt19937_64& random) {
  const auto upTo = [&](uint64_t most) { return static_cast<int32_t>(random() % (most + 1)); };
  plan::Hierarchy out = plan::Hierarchy::flat(2 + upTo(10));
  const int32_t groups = 1 + upTo(static_cast<uint64_t>(out.nranks - 1));
  plan::Level level;
  const bool areNeighbours = upTo(2) > 0;
  for (int32_t rank = 0; rank < out.nranks; ++rank)
    level.group.push_back(areNeighbours ? (rank + upTo(1)) * groups / (out.nranks + 1)
                                        : upTo(static_cast<uint64_t>(groups - 1)));
  out.levels.push_back(level);
  if (upTo(2) == 0) {
    for (int32_t& group : level.group) group = group * 2 / groups;
    out.levels.push_back(level);
  }
  return out;
}

// The registered algorithm, for the groups of the seed at hand.
plan::Hierarchy hierarchyAtHand;
const algorithms::Algorithm* algorithmAtHand = nullptr;
plan::Plan makeWithGroups(const algorithms::PlanRequest& request) {
  algorithms::PlanRequest with = request;
  with.hierarchy = &hierarchyAtHand;
  return algorithmAtHand->make(with);
}

TEST(MemHierarchical, IsExactForRandomGroupsUnderRandomDelays) {
  const char* given = std::getenv("OMNES_TEST_SEEDS");
  const uint64_t seeds = given == nullptr ? 1000 : std::strtoull(given, nullptr, 0);
  std::vector<const algorithms::Algorithm*> all;
  for (const algorithms::Algorithm& algorithm : algorithms::all())
    if (algorithm.name == "hierarchical" && algorithm.collective != plan::Collective::kAllToAll)
      all.push_back(&algorithm);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    std::mt19937_64 random(seed);
    hierarchyAtHand = randomHierarchy(random);
    ASSERT_TRUE(plan::checkHierarchy(hierarchyAtHand).isOk()) << seed;
    const int32_t n = hierarchyAtHand.nranks;
    // Two slots, which is all that links promise.
    MemWorld world({.nranks = n,
                    .seed = seed,
                    .credits = 2,
                    .slotBytes = size_t{256} << (random() % 5),
                    .maxDelayNs = static_cast<int64_t>(random() % 3000)});
    for (int call = 0; call < 3; ++call) {
      algorithmAtHand = all[random() % all.size()];
      algorithms::Algorithm wrapped = *algorithmAtHand;
      wrapped.make = makeWithGroups;
      ExactCase c;
      c.nranks = n;
      constexpr uint64_t kLimits[] = {1, 20, 300, 3000};
      c.shape = {wrapped.collective, random() % kLimits[random() % 4], DataType::kUint32,
                 ReduceOp::kSum};
      c.inPlace = random() % 2 == 0;
      const std::string error = runExactCase<uint32_t>(world, wrapped, c, random);
      ASSERT_EQ(error, "") << "seed " << seed << " " << plan::nameOf(wrapped.collective) << " of "
                           << n << " ranks, count " << c.shape.count << ", in place " << c.inPlace;
    }
  }
}

}  // namespace
}  // namespace omnes::tests
