// What the families on trees promise beyond a right result: shapes, orders of additions, volumes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/fold.h"
#include "algorithms/knomial_tree.h"
#include "algorithms/registry.h"
#include "plan/verifier.h"

namespace omnes::algorithms {
namespace {

using plan::Collective;
using plan::Plan;
using plan::Ref;
using plan::Step;

std::vector<Plan> plansOf(Collective collective, std::string_view name, int32_t nranks,
                          int32_t root = -1) {
  const Algorithm* algorithm = find(collective, name);
  std::vector<Plan> plans;
  if (algorithm == nullptr) {
    ADD_FAILURE() << name << " is not registered";
    return plans;
  }
  for (int32_t r = 0; r < nranks; ++r) plans.push_back(algorithm->make({r, nranks, root, nullptr}));
  return plans;
}

// The ranks whose contributions a rank's first reduction of the lane adds, in that order; a peer's
// chunk stands for what the first step of the peer sends. For plans that send sums upwards only.
void appendOperands(const std::vector<Plan>& plans, size_t lane, int32_t rank,
                    std::vector<int32_t>* order) {
  const Plan& plan = plans[static_cast<size_t>(rank)];
  for (const Ref& source : plan.lanes[lane].steps[0].sources) {
    if (source.kind == Ref::Kind::kSlice) {
      order->push_back(rank);
      continue;
    }
    for (int32_t k = 0; k < source.run.count; ++k)
      appendOperands(plans, lane, plan::valueOf(source.run, k, 0, plan.nranks), order);
  }
}

std::vector<int32_t> orderOf(const std::vector<Plan>& plans, size_t lane, int32_t root) {
  std::vector<int32_t> order;
  appendOperands(plans, lane, root, &order);
  return order;
}

// The most additions that one contribution goes through on its way into the rank's sum; operands
// are added one after the other, from the left.
int64_t additionsInARow(const std::vector<Plan>& plans, size_t lane, int32_t rank) {
  const Plan& plan = plans[static_cast<size_t>(rank)];
  std::vector<int64_t> below;  // per operand
  for (const Ref& source : plan.lanes[lane].steps[0].sources) {
    for (int32_t k = 0; k < source.run.count; ++k)
      below.push_back(
          source.kind == Ref::Kind::kSlice
              ? 0
              : additionsInARow(plans, lane, plan::valueOf(source.run, k, 0, plan.nranks)));
  }
  int64_t most = 0;
  for (size_t i = 0; i < below.size(); ++i)
    most = std::max(most, below[i] + std::ssize(below) - static_cast<int64_t>(i == 0 ? 1 : i));
  return most;
}

int64_t ceilLog(int64_t n, int64_t base) {
  int64_t log = 0;
  for (int64_t power = 1; power < n; power *= base) ++log;
  return log;
}

// first, first + 1, ..., all ranks modulo their number.
std::vector<int32_t> cyclic(int32_t first, int32_t nranks) {
  std::vector<int32_t> order(static_cast<size_t>(nranks));
  for (int32_t i = 0; i < nranks; ++i) order[static_cast<size_t>(i)] = (first + i) % nranks;
  return order;
}

TEST(Trees, AddInTheOrderOfPositions) {
  for (int32_t n = 1; n <= 40; ++n) {
    for (const int32_t root : {0, n / 2, n - 1}) {
      SCOPED_TRACE("n " + std::to_string(n) + " root " + std::to_string(root));
      for (const char* name : {"binomial", "knomial4", "knomial8"})
        EXPECT_EQ(orderOf(plansOf(Collective::kReduce, name, n, root), 0, root), cyclic(root, n))
            << name;
      EXPECT_EQ(orderOf(plansOf(Collective::kReduce, "chain", n, root), 0, root),
                cyclic(root + 1, n));
      EXPECT_EQ(orderOf(plansOf(Collective::kReduce, "double_binary_tree", n, root), 0, root),
                cyclic(root, n));
    }
    EXPECT_EQ(orderOf(plansOf(Collective::kAllReduce, "tree", n), 0, 0), cyclic(0, n));
  }
}

// What docs/algorithms.md says, and with it the bounds of errors.
TEST(Trees, AddAsOftenInARowAsIsSaid) {
  const std::pair<const char*, int64_t> trees[] = {
      {"binomial", 2}, {"knomial4", 4}, {"knomial8", 8}};
  for (int32_t n = 2; n <= 130; ++n) {
    SCOPED_TRACE(n);
    for (const auto& [name, radix] : trees)
      EXPECT_LE(additionsInARow(plansOf(Collective::kReduce, name, n, 1), 0, 1),
                (radix - 1) * ceilLog(n, radix))
          << name;
    EXPECT_LE(additionsInARow(plansOf(Collective::kAllReduce, "tree", n), 0, 0), 3 * ceilLog(n, 4));
    EXPECT_EQ(additionsInARow(plansOf(Collective::kReduce, "chain", n, 1), 0, 1), n - 1);
    const auto twins = plansOf(Collective::kReduce, "double_binary_tree", n, 1);
    for (const size_t lane : {0, 1})
      EXPECT_LE(additionsInARow(twins, lane, 1), 2 * (ceilLog(n, 2) - 1) + 1);
  }
}

// Lane 1 is the tree of lane 0 moved by one place: the last member comes first.
TEST(Trees, SecondTreeBeginsWithTheLastMember) {
  for (int32_t n = 3; n <= 20; ++n) {
    SCOPED_TRACE(n);
    std::vector<int32_t> expected = cyclic(0, n);
    std::rotate(expected.begin() + 1, expected.end() - 1, expected.end());
    EXPECT_EQ(orderOf(plansOf(Collective::kReduce, "double_binary_tree", n, 0), 1, 0), expected);
  }
}

TEST(Trees, NoRankIsAnInnerNodeOfBothTrees) {
  for (int32_t n = 2; n <= 130; ++n) {
    for (const Collective collective : {Collective::kAllReduce, Collective::kReduce}) {
      const int32_t root = collective == Collective::kReduce ? n / 3 : -1;
      for (const Plan& plan : plansOf(collective, "double_binary_tree", n, root)) {
        if (plan.rank == root) continue;
        ASSERT_EQ(plan.lanes.size(), 2u);
        int inner = 0;
        for (const plan::Lane& lane : plan.lanes) inner += lane.steps[0].sources.size() > 1 ? 1 : 0;
        EXPECT_LE(inner, 1) << "n " << n << " rank " << plan.rank;
      }
    }
  }
}

// Both trees together: nobody sends more than the message once in a broadcast.
TEST(Trees, DoubleTreeSendsTheMessageOnce) {
  for (int32_t n = 2; n <= 65; ++n) {
    for (const Plan& plan : plansOf(Collective::kBroadcast, "double_binary_tree", n, n - 1)) {
      size_t halves = 0;
      for (const plan::Lane& lane : plan.lanes)
        halves += static_cast<size_t>(
            std::count_if(lane.steps[0].sinks.begin(), lane.steps[0].sinks.end(),
                          [](const Ref& sink) { return sink.kind == Ref::Kind::kLink; }));
      EXPECT_LE(halves, 2u) << "n " << n << " rank " << plan.rank;
    }
  }
}

TEST(Trees, ScatterAllgatherBringsEveryBlockOnce) {
  for (int32_t n = 1; n <= 129; ++n) {
    int64_t sent = 0;
    for (const Plan& plan : plansOf(Collective::kBroadcast, "scatter_allgather", n, n / 2)) {
      sent += plan::countersOf(plan).inputBlocks;
      EXPECT_LE(plan::countersOf(plan).inputBlocks, 2 * (n - 1));
    }
    EXPECT_EQ(sent, int64_t{n} * (n - 1)) << n;
  }
}

TEST(KnomialTree, SubtreesAreRangesThatFollowEachOther) {
  for (const int32_t radix : {2, 3, 4, 8}) {
    for (int32_t n = 1; n <= 70; ++n) {
      const KnomialTree tree(n, radix);
      int32_t deepest = 0;
      for (int32_t v = 0; v < n; ++v) {
        SCOPED_TRACE("radix " + std::to_string(radix) + " n " + std::to_string(n) + " position " +
                     std::to_string(v));
        int32_t next = v + 1;
        for (const int32_t child : tree.childrenOf(v)) {
          EXPECT_EQ(child, next);
          EXPECT_EQ(tree.parentOf(child), v);
          EXPECT_EQ(tree.depthOf(child), tree.depthOf(v) + 1);
          next += tree.sizeOf(child);
        }
        EXPECT_EQ(next, v + tree.sizeOf(v));
        EXPECT_EQ(knomialChildren(n, v, radix), std::ssize(tree.childrenOf(v)));
        deepest = std::max(deepest, tree.depthOf(v));
      }
      EXPECT_EQ(tree.sizeOf(0), n);
      EXPECT_EQ(tree.depth(), deepest);
    }
  }
}

TEST(Fold, KeepsPositionsInTheOrderOfTheRanks) {
  for (const int32_t radix : {2, 4, 8}) {
    for (int32_t n = 1; n <= 200; ++n) {
      SCOPED_TRACE("radix " + std::to_string(radix) + " n " + std::to_string(n));
      const Fold fold(n, radix);
      EXPECT_EQ(fold.positions + fold.extra, n);
      EXPECT_LE(2 * fold.extra, n);
      int32_t product = 1, last = -1;
      for (int32_t round = 0; round < fold.rounds; ++round) product *= fold.groupOf(round);
      EXPECT_EQ(product, fold.positions);
      for (int32_t position = 0; position < fold.positions; ++position) {
        const int32_t rank = fold.rankAt(position);
        EXPECT_GT(rank, last);
        EXPECT_FALSE(fold.isOut(rank));
        EXPECT_EQ(fold.positionOf(rank), position);
        last = rank;
      }
    }
  }
}

}  // namespace
}  // namespace omnes::algorithms
