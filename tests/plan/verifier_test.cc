// The verifier on the textbook plans, and on one hand-made wrong plan for each thing that it must
// see.
#include "plan/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "plan/text.h"
#include "sample_plans.h"

namespace omnes::plan {
namespace {

using testing::link;
using testing::move;
using testing::Set;
using testing::slice;

std::vector<Step>& stepsOf(Set& plans, size_t rank) { return plans[rank].lanes[0].steps; }

Step signalTo(int32_t peer, uint8_t stream) {
  Step step;
  step.kind = Step::Kind::kSignal;
  step.sinks = {link(peer, stream)};
  return step;
}

Step marker(Step::Kind kind, int32_t iterations = 0) {
  Step step;
  step.kind = kind;
  step.iterations = iterations;
  return step;
}

void expectRejected(const Set& plans, int property, const std::string& expected,
                    const VerifyOptions& options = {}) {
  const auto proof = verify(plans, options);
  ASSERT_FALSE(proof.isOk()) << "should say: " << expected;
  const std::string message(proof.status().message());
  EXPECT_EQ(message.rfind("property " + std::to_string(property), 0), 0u) << message;
  EXPECT_NE(message.find(expected), std::string::npos) << "should say: " << expected << "\n"
                                                       << message;
}

void expectProven(const Set& plans, int64_t rounds, bool sameOrder = true) {
  for (bool inPlace : {false, true}) {
    const auto proof = verify(plans, {.inPlace = inPlace});
    ASSERT_TRUE(proof.isOk()) << proof.status().message();
    EXPECT_EQ(proof.value().rounds, rounds);
    EXPECT_EQ(proof.value().sameOrderOnAllRanks, sameOrder);
    const auto least = leastCredits(plans, inPlace);
    ASSERT_TRUE(least.isOk()) << least.status().message();
    EXPECT_EQ(least.value(), plans.size() > 1 ? plans[0].minCredits : 0) << plans[0].algorithm;
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
  expectProven(testing::barrier(9), 4);
}

TEST(Verifier, ProvesPlansWithARoot) {
  for (int32_t n = 1; n <= 9; ++n) {
    for (int32_t root = 0; root < n; ++root) {
      expectProven(testing::chainBroadcast(n, root), n - 1);
      expectProven(testing::chainReduce(n, root), n - 1);
      expectProven(testing::directGather(n, root), n > 1 ? 1 : 0);
      expectProven(testing::chainScatter(n, root), n - 1);
    }
  }
  expectProven(testing::chainScatter(70, 33), 69);
  expectProven(testing::chainReduce(70, 33), 69);
}

TEST(Verifier, ProvesAllToAll) {
  for (int32_t n = 1; n <= 12; ++n) {
    expectProven(testing::ringAllToAll(n), n - 1);
    if (n > 1) expectProven(testing::centralAllToAll(n), 2);
  }
  expectProven(testing::ringAllToAll(65), 64);
}

// Random weights instead of exact multisets.
// Two ranks exchange 12 blocks in two chunks, {1,2, 5,6, 9,10} widened in scratch and {3,4, 7,8,
// 11,0} out of the input, and add them. What comes goes to area `area` of scratch; area 0 is lent.
Set groupedExchange(int32_t area) {
  Set plans(2);
  for (int32_t rank = 0; rank < 2; ++rank) {
    Plan& plan = plans[static_cast<size_t>(rank)];
    plan.algorithm = "grouped";
    plan.rank = rank;
    plan.nranks = 2;
    plan.blocks = 12;
    plan.scratchBlocks = 24;
    plan.maxInputChunkBlocks = plan.maxPartialChunkBlocks = 6;
    plan.lanes.resize(1);
    const auto groups = [](Space space, int32_t first) {
      const Mark mark = space == Space::kScratch ? Mark::kPartial : Mark::kInput;
      Ref ref = slice(space, first, 6, mark);
      ref.run.group = 2;
      ref.run.jump = 4;
      return ref;
    };
    const auto inOrder = [rank](const Ref& own, const Ref& theirs) {
      return rank == 0 ? std::vector<Ref>{own, theirs} : std::vector<Ref>{theirs, own};
    };
    const Ref peer = link(1 - rank, kStreamScatter);
    const Ref peerSum = link(1 - rank, kStreamScatter, Mark::kPartial);
    const Ref arrived = groups(Space::kScratch, 12 * area + 1);
    plan.lanes[0].steps = {
        move({groups(Space::kInput, 1)}, Op::kReduce, {groups(Space::kScratch, 1)}),
        move({groups(Space::kScratch, 1)}, Op::kNone, {peerSum}),
        move({peerSum}, Op::kNone, {arrived}),
        move(inOrder(groups(Space::kInput, 1), arrived), Op::kReduce, {groups(Space::kOutput, 1)}),
        move({groups(Space::kInput, 3)}, Op::kNone, {peer}),
        move(inOrder(groups(Space::kInput, 3), peer), Op::kReduce, {groups(Space::kOutput, 3)}),
    };
  }
  return plans;
}

TEST(Verifier, ProvesRunsInGroups) {
  const auto proof = verify(groupedExchange(1), {});
  ASSERT_TRUE(proof.isOk()) << proof.status().message();
  EXPECT_TRUE(proof.value().sameOrderOnAllRanks);
  EXPECT_EQ(proof.value().rounds, 2);
  EXPECT_EQ(countersOf(groupedExchange(1)[0]), (Counters{2, 6, 6, 30}));
}

// The same extents said in other words, at the two ends of a link and within a step.
TEST(Verifier, KnowsRunsByWhatTheyHold) {
  Set plans = groupedExchange(1);
  for (size_t rank = 0; rank < 2; ++rank) {
    stepsOf(plans, rank).erase(stepsOf(plans, rank).begin(), stepsOf(plans, rank).begin() + 4);
    for (Step& step : stepsOf(plans, rank)) {
      for (auto* refs : {&step.sources, &step.sinks}) {
        for (Ref& ref : *refs) {
          if (ref.kind != Ref::Kind::kSlice) continue;
          // Blocks 0, 1, ..., 11: plainly, as groups that touch, or as groups of one.
          ref.run = rank == 0                    ? plan::Run{{0, 0}, 1, 12}
                    : ref.space == Space::kInput ? plan::Run{{0, 0}, 1, 12, 3, 3}
                                                 : plan::Run{{0, 0}, 5, 12, 1, 1};
        }
      }
    }
  }
  for (Plan& plan : plans) plan.maxInputChunkBlocks = 12;
  const auto proof = verify(plans, {});
  EXPECT_TRUE(proof.isOk()) << proof.status().message();
}

TEST(Races, SeesACircleOfLentGroups) {
  EXPECT_TRUE(verify(groupedExchange(0), {.credits = 1}).isOk());
  expectRejected(groupedExchange(0), 2, "to read the block that link 0->1 stream 1 lent");
}

TEST(Memory, SeesBadGroups) {
  const auto expectBad = [](const plan::Run& run, const std::string& expected) {
    Set plans = groupedExchange(1);
    stepsOf(plans, 0)[0].sources[0].run = run;
    expectRejected(plans, 5, expected);
  };
  const std::string same = "not a run of different blocks";
  expectBad(plan::Run{{1, 0}, 1, 6, 2, 1}, same);   // overlap
  expectBad(plan::Run{{1, 0}, 1, 6, 2, -4}, same);  // there and back
  expectBad(plan::Run{{1, 0}, 0, 6, 2, 4}, same);   // one block twice
  expectBad(plan::Run{{1, 0}, 1, 7, 2, 4}, same);   // all around, onto the first block
  expectBad(plan::Run{{1, 0}, 1, 6, -2, 4}, same);  // a negative group
  expectBad(plan::Run{{1, 0}, INT32_MIN, 6, INT32_MAX, 4}, same);
  expectBad(plan::Run{{1, 0}, 1, 6, 2, 5}, "scratch[1:6 in groups of 2 at 4] partial holds other");
  Set plans = groupedExchange(1);
  stepsOf(plans, 0)[1].sinks[0].run.group = 1;
  expectRejected(plans, 5, "not a set of different peers");
  plans = groupedExchange(1);
  plans[0].scratchBlocks = 23;
  expectRejected(plans, 5, same);
}

TEST(Verifier, ProvesMoreThan64Ranks) {
  expectProven(testing::twoShot(65), 2);
  Set plans = testing::twoShot(70);
  stepsOf(plans, 69).at(69).sources[0].run.count -= 1;
  expectRejected(plans, 1, "never taken");
  plans = testing::oneShot(70);
  stepsOf(plans, 5)[1].sources.push_back(slice(Space::kInput, 0));
  expectRejected(plans, 3, "expected each contribution exactly once");
}

TEST(Matching, SeesALeftOverChunk) {
  Set plans = testing::oneShot(2);
  stepsOf(plans, 0).push_back(stepsOf(plans, 0)[0]);
  expectRejected(plans, 1,
                 "rank 0 lane 0 step 2 (copy input[0] -> peer 1 stream 0) is never taken");
}

TEST(Matching, SeesAReceiveWithoutASend) {
  Set plans = testing::oneShot(3);
  stepsOf(plans, 1).erase(stepsOf(plans, 1).begin());
  expectRejected(plans, 1, "rank 1 sends nothing to it on stream 0");
  plans = testing::ring(3);
  stepsOf(plans, 1).pop_back();
  stepsOf(plans, 1).back().sinks.pop_back();
  expectRejected(plans, 1, "rank 1, which has ended");
}

TEST(Matching, SeesOtherExtents) {
  Set plans = testing::twoShot(3);
  stepsOf(plans, 0)[0].sources[0].run.start.base = 2;
  expectRejected(plans, 1, "expected extents 1:1:0, found extents 2:1:0");
}

TEST(Matching, SeesOtherMarks) {
  Set plans = testing::ring(4);
  stepsOf(plans, 2)[2].sources[0].mark = Mark::kInput;
  expectRejected(plans, 1, "expected input, found partial");
}

TEST(Matching, SeesASignalForAChunk) {
  Set plans = testing::oneShot(2);
  stepsOf(plans, 0)[0] = signalTo(1, kStreamExchange);
  expectRejected(plans, 1, "expected a chunk, found a signal");
}

TEST(Matching, SeesAnInconstantDelay) {
  Set plans = testing::ring(3);
  stepsOf(plans, 0)[4].delay = 3;
  expectRejected(plans, 1, "constant delay");
}

TEST(Matching, SeesTwoGroupsOfOneStream) {
  Set plans = testing::oneShot(3);
  stepsOf(plans, 0).push_back(
      move({slice(Space::kInput, 0)}, Op::kNone, {link(1, kStreamExchange)}));
  expectRejected(plans, 1, "two groups");
  plans = testing::oneShot(3);
  stepsOf(plans, 0)[0].sinks[0].stream = kStreamScatter;
  expectRejected(plans, 1, "multicast on a stream for unicast");
}

TEST(Matching, SeesLanesThatShareALink) {
  Set plans = testing::ring(3);
  for (Plan& plan : plans) plan.lanes.push_back(plan.lanes[0]);
  expectRejected(plans, 1, "also used by lane 0");
}

TEST(Progress, NeedsTheSlots) {
  expectRejected(testing::ring(4), 2, "K=1", {.credits = 1});
  expectRejected(testing::ring(4), 2, "slots of link 0->1 stream 1", {.credits = 1});
  expectRejected(testing::ring(5, 1), 2, "K=9", {.credits = 9});
  Set plans = testing::twoShot(3);
  for (Plan& plan : plans) plan.minCredits = 0;
  expectRejected(plans, 2, "K=0");
}

TEST(Progress, SeesACycleOfReceives) {
  Set plans = testing::oneShot(2);
  for (size_t rank : {0, 1}) std::swap(stepsOf(plans, rank)[0], stepsOf(plans, rank)[1]);
  expectRejected(plans, 2, "any number of slots");
}

// Both ranks wait with their output until the other has read their input, which it does in the step
// that waits.
TEST(Progress, SeesThatAnExchangeInPlaceCannotBeLent) {
  Set plans = testing::oneShot(2);
  for (Plan& plan : plans)
    for (Step& step : plan.lanes[0].steps)
      for (auto* refs : {&step.sources, &step.sinks})
        for (Ref& ref : *refs)
          if (ref.kind == Ref::Kind::kLink) ref.stream = kStreamScatter;
  EXPECT_TRUE(verify(plans, {}).isOk());
  EXPECT_TRUE(verify(plans, {.inPlace = true, .credits = 1}).isOk());
  expectRejected(plans, 2, "to read the block", {.inPlace = true});
}

TEST(Progress, WantsAllRanksInTheSameWave) {
  Set plans = testing::oneShot(2);
  for (Step& step : stepsOf(plans, 1)) step.delay = 1;
  for (Plan& plan : plans) plan.minCredits = 4;
  expectRejected(plans, 2, "different waves");
}

TEST(Values, SeesMissingAndRepeatedContributions) {
  Set plans = testing::oneShot(3);
  auto& sources = stepsOf(plans, 1)[1].sources;
  sources.push_back(slice(Space::kInput, 0));
  expectRejected(plans, 3, "finishes {0,1 (more than once),2}");
  std::erase_if(sources, [](const Ref& ref) { return ref.kind == Ref::Kind::kSlice; });
  expectRejected(plans, 3, "finishes {0,2}");
}

TEST(Values, SeesAResultThatWouldBeScaledTwice) {
  Set plans = testing::ring(2);
  stepsOf(plans, 0)[2].op = Op::kReduce;
  expectRejected(plans, 3, "expected an untouched contribution, found a finished result of {0,1}");
}

TEST(Values, SeesASumThatIsFinishedTooEarly) {
  Set plans = testing::ring(3);
  for (Plan& plan : plans) {
    plan.lanes[0].steps[1].sinks[0].mark = Mark::kInput;
    plan.lanes[0].steps[2].sources[0].mark = Mark::kInput;
  }
  expectRejected(plans, 3, "finishes {0,1}, expected each contribution exactly once");
}

TEST(Values, SeesACopyThatChangesTheMark) {
  Set plans = testing::oneShot(2);
  stepsOf(plans, 0)[0].sinks[0].mark = Mark::kPartial;
  expectRejected(plans, 3, "a copy changes the mark");
}

TEST(Values, SeesAnOutputThatIsNotWritten) {
  Set plans = testing::oneShot(2);
  plans[1].scratchBlocks = 1;
  stepsOf(plans, 1)[1].sinks[0].space = Space::kScratch;
  expectRejected(plans, 3, "rank 1 lane 0 ends with output block 0 uninitialised");
  expectRejected(plans, 3, "ends with output block 0 an untouched contribution of {1}",
                 {.inPlace = true});
  plans = testing::ring(3);
  stepsOf(plans, 1)[2].sinks[0].mark = Mark::kPartial;
  expectRejected(plans, 3,
                 "ends with output block 1 a partial sum of {0,1,2}, expected a finished result");
}

TEST(Values, SeesABarrierThatDoesNotWaitForAll) {
  Set plans = testing::barrier(5);
  for (Plan& plan : plans) plan.lanes[0].steps.resize(4);
  expectRejected(plans, 3, "rank 0 leaves the barrier without knowing that rank 1 has come");
}

TEST(Values, SeesAReductionInAnAllGather) {
  Set plans = testing::ringAllGather(3);
  stepsOf(plans, 2).back().op = Op::kReduce;
  expectRejected(plans, 3, "no reduction");
}

TEST(Values, SeesABroadcastOfAnothersData) {
  Set plans = testing::chainBroadcast(4, 2);
  plans[3].scratchBlocks = 1;
  stepsOf(plans, 3)[0].sinks[0] = slice(Space::kScratch, 0);
  expectRejected(plans, 3, "rank 3 lane 0 ends with output block 0 uninitialised");
  expectRejected(plans, 3, "rank 3 lane 0 ends with output block 0 uninitialised",
                 {.inPlace = true});
}

TEST(Values, SeesAReduceThatMissesOne) {
  Set plans = testing::chainReduce(4, 2);
  auto& sources = stepsOf(plans, 1)[0].sources;
  sources.pop_back();  // it passes on what has come, as a reduction of one operand
  sources.push_back(link(0, kStreamScatter, Mark::kPartial));
  sources.erase(sources.begin());
  plans[1].scratchBlocks = 1;
  stepsOf(plans, 1)[0].sinks.push_back(slice(Space::kScratch, 0, 1, Mark::kPartial));
  expectRejected(plans, 3, "finishes {0,2,3}, expected each contribution exactly once");
}

// Rank 2 of a chain passes on what rank 1 gave it, beside its own.
TEST(Values, SeesAContributionThatIsPassedOn) {
  Set plans = testing::chainReduce(3, 0);
  stepsOf(plans, 2) = {move({link(1, kStreamScatter)}, Op::kNone,
                            {link(0, kStreamScatter), slice(Space::kScratch, 0)}),
                       move({slice(Space::kInput, 0)}, Op::kNone, {link(0, kStreamScatter)})};
  plans[2].scratchBlocks = 1;
  stepsOf(plans, 0) = {
      move({link(2, kStreamScatter)}, Op::kReduce, {slice(Space::kScratch, 0, 1, Mark::kPartial)}),
      move({slice(Space::kScratch, 0, 1, Mark::kPartial), link(2, kStreamScatter),
            slice(Space::kInput, 0)},
           Op::kReduce, {slice(Space::kOutput, 0)})};
  plans[0].scratchBlocks = 1;
  for (Plan& plan : plans) plan.minCredits = 2;
  testing::declareChunks(&plans);
  expectRejected(plans, 3, "peer 1 stream 1 passes on another's contribution untouched");
}

TEST(Values, SeesAReductionInAnAllToAll) {
  Set plans = testing::ringAllToAll(3);
  stepsOf(plans, 2)[0].op = Op::kReduce;
  expectRejected(plans, 3, "no reduction");
  plans = testing::directGather(3, 0);
  stepsOf(plans, 0)[0].op = Op::kReduce;
  expectRejected(plans, 3, "no reduction");
}

// The block is of the right distance, and of another pair of ranks.
TEST(Values, SeesABlockThatWentToAnotherRank) {
  for (int32_t n : {3, 66}) {
    Set plans = testing::centralAllToAll(n);
    auto& steps = stepsOf(plans, 0);
    std::swap(steps[static_cast<size_t>(n) + 1].sources, steps[static_cast<size_t>(n) + 2].sources);
    expectRejected(plans, 3,
                   "rank 1 lane 0 ends with output block 0 an untouched contribution of rank 1 for "
                   "rank 2, expected an untouched contribution of rank 0 for rank 1");
  }
}

TEST(Memory, SeesAnOutputThatRisesWithTheDistances) {
  Set plans = testing::centralAllToAll(4);
  stepsOf(plans, 0).back().sinks = {link(3, kStreamScatter)};
  stepsOf(plans, 3)[1].sinks[0].run.stride = 1;
  expectRejected(plans, 1, "expected extents 0:4:3, found extents 0:4:1");
  plans = testing::ringAllToAll(4);
  stepsOf(plans, 1)[0] =
      move({slice(Space::kInput, 1, 2)}, Op::kNone, {slice(Space::kOutput, 1, 2)});
  expectRejected(plans, 5, "output[1:2] holds other extents than the step's first slice");
}

TEST(Memory, SeesBlocksThatOnlyTheRootHas) {
  Set plans = testing::chainBroadcast(3, 1);
  stepsOf(plans, 2)[0].sources = {slice(Space::kInput, 0)};
  expectRejected(plans, 5,
                 "rank 2 lane 0 step 0 (copy input[0] -> output[0], peer 3 stream 1): "
                 "input[0]: this rank has no such space");
  plans = testing::chainReduce(3, 1);
  stepsOf(plans, 0)[0].sinks.push_back(slice(Space::kOutput, 0));
  expectRejected(plans, 5, "output[0]: this rank has no such space", {.inPlace = true});
  plans = testing::directGather(3, 1);
  stepsOf(plans, 0)[0].sinks.push_back(slice(Space::kOutput, 0));
  expectRejected(plans, 5, "output[0]: this rank has no such space");
  plans = testing::chainScatter(3, 1);
  stepsOf(plans, 0)[0].sources[0] = slice(Space::kInput, 0, 2);
  expectRejected(plans, 5, "rank 0 lane 0 step 0");
}

TEST(Memory, WantsTheRightRootAndCut) {
  Set plans = testing::chainBroadcast(3, 1);
  for (Plan& plan : plans) plan.root = -1;
  expectRejected(plans, 5, "has root -1");
  for (Plan& plan : plans) plan.root = 3;
  expectRejected(plans, 5, "has root 3");
  plans = testing::ringAllToAll(3);
  for (Plan& plan : plans) plan.root = 0;
  expectRejected(plans, 5, "has root 0");
  plans = testing::chainScatter(3, 1);
  plans[2].root = 0;
  expectRejected(plans, 5, "another collective, algorithm or root");
  plans = testing::ringAllToAll(3);
  for (Plan& plan : plans) plan.blocks = 6;
  expectRejected(plans, 5, "one block a rank");
  plans = testing::directGather(3, 0);
  for (Plan& plan : plans) plan.cut = Cut::kInsideSlice;
  expectRejected(plans, 5, "the cut of another collective");
  for (Plan& plan : plans) plan.collective = Collective::kGatherV;
  expectRejected(plans, 5, "with equal lengths");
}

// Written in wave s, read in wave s + 2: three copies are needed.
TEST(Races, SeesScratchThatIsTakenOverTooEarly) {
  Set plans = testing::oneShot(1);
  plans[0].scratchBlocks = 1;
  stepsOf(plans, 0) = {move({slice(Space::kInput, 0)}, Op::kReduce,
                            {slice(Space::kScratch, 0, 1, Mark::kPartial)}, 0),
                       move({slice(Space::kScratch, 0, 1, Mark::kPartial)}, Op::kReduce,
                            {slice(Space::kOutput, 0)}, 2)};
  for (int32_t copies : {1, 2}) {
    plans[0].scratchCopies = copies;
    expectRejected(plans, 4, "slice 0 reads scratch block 0, which slice 2");
  }
  plans[0].scratchCopies = 3;
  EXPECT_TRUE(verify(plans, {}).isOk());
}

TEST(Races, SeesTwoSinksOnOneBlock) {
  Set plans = testing::oneShot(2);
  stepsOf(plans, 0)[1].sinks.push_back(slice(Space::kOutput, 0));
  expectRejected(plans, 4, "two sinks");
}

// A lent scratch block is written again for the next slice: the write waits, and the wait can close
// a cycle.
TEST(Races, OrdersLentReadsBeforeLaterWrites) {
  Set plans = testing::oneShot(2);
  for (Plan& plan : plans) {
    const int32_t peer = 1 - plan.rank;
    plan.scratchBlocks = 1;
    const Ref sum = slice(Space::kScratch, 0, 1, Mark::kPartial);
    std::vector<Ref> both{link(peer, kStreamScatter, Mark::kPartial)};
    both.insert(plan.rank == 0 ? both.begin() : both.end(), slice(Space::kInput, 0));
    plan.lanes[0].steps = {move({slice(Space::kInput, 0)}, Op::kReduce, {sum}),
                           move({sum}, Op::kNone, {link(peer, kStreamScatter, Mark::kPartial)}),
                           move(both, Op::kReduce, {slice(Space::kOutput, 0)})};
  }
  testing::declareChunks(&plans);
  const auto proof = verify(plans, {});
  EXPECT_TRUE(proof.isOk()) << proof.status().message();
  // Received one wave later, the block of slice s must stay while slice s + 1 is already written:
  // never lent.
  for (Plan& plan : plans) plan.lanes[0].steps[2].delay = 1;
  for (Plan& plan : plans) plan.minCredits = 2;
  EXPECT_TRUE(verify(plans, {.credits = 2}).isOk());
  expectRejected(plans, 2, "with lent chunks", {.credits = 0});
  for (Plan& plan : plans) plan.scratchCopies = 2;
  EXPECT_TRUE(verify(plans, {}).isOk());
}

TEST(Races, SeesACircleOfLentScratch) {
  EXPECT_TRUE(verify(testing::ringAllToAll(4, 1), {.credits = 2}).isOk());
  expectRejected(testing::ringAllToAll(4, 1), 2, "to read the block that link 0->1 stream 1 lent");
}

TEST(Memory, SeesUninitialisedScratch) {
  Set plans = testing::oneShot(1);
  plans[0].scratchBlocks = 2;
  stepsOf(plans, 0)[0].sources[0] = slice(Space::kScratch, 1);
  expectRejected(plans, 5, "scratch[1] extent 0 is uninitialised");
}

TEST(Memory, SeesBadRuns) {
  Set plans = testing::twoShot(4);
  stepsOf(plans, 0)[0].sources[0].run.count = 5;
  expectRejected(plans, 5, "not a run of different blocks");
  stepsOf(plans, 0)[0].sources[0].run = plan::Run{{0, 0}, 2, 3};
  expectRejected(plans, 5, "not a run of different blocks");
  stepsOf(plans, 0)[0].sources[0].run = plan::Run{{0, 0}, INT32_MIN, 2};
  expectRejected(plans, 5, "not a run of different blocks");
  stepsOf(plans, 0)[0].sources[0].run = plan::Run{{0, 0}, 1, 0};
  expectRejected(plans, 5, "not a run of different blocks");
  plans = testing::twoShot(4);
  stepsOf(plans, 0)[0].sources[0].space = Space::kScratch;
  expectRejected(plans, 5, "no such space");
  plans = testing::oneShot(4);
  stepsOf(plans, 0)[0].sinks[0].run.count = 5;
  expectRejected(plans, 5, "not a set of different peers");
  stepsOf(plans, 0)[0].sinks[0].run = plan::Run{{0, 0}, 1, 3};
  expectRejected(plans, 5, "reaches the rank itself");
  plans = testing::oneShot(4);
  stepsOf(plans, 0)[0].sinks[0].stream = 32;
  expectRejected(plans, 5, "no such stream");
  stepsOf(plans, 0)[0].sinks[0] = slice(Space::kInput, 0);
  expectRejected(plans, 5, "writes its input");
}

TEST(Memory, SeesBadLoops) {
  const Set good = testing::ringAllGather(4);
  Set plans = good;
  stepsOf(plans, 1).insert(stepsOf(plans, 1).begin() + 2, marker(Step::Kind::kLoop, 1));
  expectRejected(plans, 5, "a loop inside a loop");
  plans = good;
  stepsOf(plans, 1).erase(stepsOf(plans, 1).begin() + 3);
  expectRejected(plans, 5, "a loop without an end");
  plans = good;
  stepsOf(plans, 1).erase(stepsOf(plans, 1).begin() + 1);
  expectRejected(plans, 5, "no begin");
  plans = good;
  stepsOf(plans, 1)[2].delay = 1;
  expectRejected(plans, 5, "delay 1 in a loop of delay 0");
  plans = good;
  stepsOf(plans, 1)[1].iterations = INT32_MAX;
  expectRejected(plans, 5, "8 million");
  stepsOf(plans, 1)[1].iterations = -1;
  expectRejected(plans, 5, "negative");
}

TEST(Memory, SeesPlansThatAreNotOneSet) {
  expectRejected({}, 5, "no plans");
  Set plans = testing::ring(3);
  std::swap(plans[0], plans[1]);
  expectRejected(plans, 5, "position 0 is of rank 1");
  plans = testing::ring(3);
  plans.pop_back();
  expectRejected(plans, 5, "is for 3 ranks");
  plans = testing::ring(3);
  plans[2].blocks = 6;
  expectRejected(plans, 5, "position 2 differs");
  plans[2] = testing::ring(3)[2];
  plans[2].lanes.clear();
  expectRejected(plans, 5, "another number of lanes");
  plans = testing::ring(3);
  for (Plan& plan : plans) plan.blocks = INT32_MAX;
  expectRejected(plans, 5, "2147483647 blocks");
}

// The slots of exchange streams are shorter, and ranks cut slices by the shortest that they use.
TEST(Memory, WantsAllRanksToUseExchangeStreamsOrNone) {
  Set plans = testing::chainBroadcast(3, 0);
  stepsOf(plans, 0)[0].sinks[1].stream = kStreamExchange;
  stepsOf(plans, 1)[0].sources[0].stream = kStreamExchange;
  expectRejected(plans, 5, "position 2 has chunks on exchange streams, or none");
}

TEST(Memory, SeesChunksThatAreLargerThanDeclared) {
  Set plans = testing::ring(3);
  for (Plan& plan : plans) plan.maxPartialChunkBlocks = 0;
  expectRejected(plans, 5, "a chunk of 1 blocks, declared are at most 0");
  plans[1].maxPartialChunkBlocks = 1;
  expectRejected(plans, 5, "declares other largest chunks");
}

TEST(Memory, WantsAStepToKnowItsExtents) {
  Set plans = testing::ring(3);
  auto& sinks = stepsOf(plans, 0)[3].sinks;
  sinks.erase(sinks.begin());
  expectRejected(plans, 5, "no slice");
}

TEST(Counters, CountBlocksOncePerReader) {
  const Set plans = testing::twoShot(5);
  const Counters counters = countersOf(plans[2]);
  EXPECT_EQ(counters.messages, 8);
  EXPECT_EQ(counters.inputBlocks, 8);
  EXPECT_EQ(counters.partialBlocks, 0);
  EXPECT_EQ(counters.operands, 5);
  const Counters loop = countersOf(testing::ringAllGather(9)[0]);
  EXPECT_EQ(loop.messages, 8);
  EXPECT_EQ(loop.inputBlocks, 8);
  EXPECT_EQ(countersOf(testing::ring(5)[0]).partialBlocks, 3);
}

TEST(Order, IsReported) {
  Set plans = testing::oneShot(4);
  EXPECT_TRUE(verify(plans, {}).value().sameOrderOnAllRanks);
  EXPECT_TRUE(verify(plans, {}).value().writesAfterAllPeers);
  for (Plan& plan : plans) {
    auto& sources = plan.lanes[0].steps[1].sources;
    const auto own = std::find_if(sources.begin(), sources.end(),
                                  [](const Ref& ref) { return ref.kind == Ref::Kind::kSlice; });
    std::rotate(sources.begin(), own, own + 1);
  }
  EXPECT_FALSE(verify(plans, {}).value().sameOrderOnAllRanks);
  EXPECT_TRUE(verify(testing::ring(6), {}).value().writesAfterAllPeers);
  EXPECT_FALSE(verify(testing::ringAllGather(6), {}).value().writesAfterAllPeers);
  // Only what is written counts: the root of a reduce writes, and has heard of everybody.
  EXPECT_TRUE(verify(testing::chainReduce(6, 3), {}).value().writesAfterAllPeers);
  EXPECT_FALSE(verify(testing::chainBroadcast(6, 3), {}).value().writesAfterAllPeers);
  EXPECT_FALSE(verify(testing::directGather(6, 3), {}).value().writesAfterAllPeers);
  EXPECT_FALSE(verify(testing::ringAllToAll(6), {}).value().writesAfterAllPeers);
  // Blocks of one distance are of different ranks; nothing is added, so nothing has an order.
  EXPECT_TRUE(verify(testing::ringAllToAll(6), {}).value().sameOrderOnAllRanks);
}

}  // namespace
}  // namespace omnes::plan
