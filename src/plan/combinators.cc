#include "plan/combinators.h"

#include <algorithm>
#include <cassert>

#include "plan/builder.h"

namespace omnes::plan {
namespace {

bool isSlice(const Ref& ref, Space space) {
  return ref.kind == Ref::Kind::kSlice && ref.space == space;
}

uint16_t largestDelay(const Lane& lane) {
  uint16_t largest = 0;
  for (const Step& step : lane.steps) largest = std::max(largest, step.delay);
  return largest;
}

// The reduce-scatter's refs in the names of the all-reduce.
Ref ofReduceScatter(Ref ref, int32_t rank) {
  if (isSlice(ref, Space::kOutput)) ref.run = at(rank);
  return ref;
}

// The all-gather's refs in the names of the all-reduce, whose scratch begins with the
// reduce-scatter's.
Ref ofAllGather(Ref ref, int32_t rank, int32_t scratchOffset) {
  if (isSlice(ref, Space::kInput)) {
    ref = outputRef(at(rank));
  } else if (isSlice(ref, Space::kScratch)) {
    ref.run.start.base += scratchOffset;
  }
  return ref;
}

// A step of the all-gather that copies its input to where the reduce-scatter has left it already:
// without that sink.
void dropSelfCopy(Step& step, int32_t rank) {
  if (step.kind != Step::Kind::kMove || step.op != Op::kNone) return;
  const Ref own = outputRef(at(rank));
  if (step.sources.front() == own) std::erase(step.sinks, own);
}

// Whether `first` of the all-gather (already renamed) may ride on `last` of the reduce-scatter.
bool fuses(const Step& last, const Step& first, int32_t rank) {
  const Ref own = outputRef(at(rank));
  return last.kind == Step::Kind::kMove && first.kind == Step::Kind::kMove &&
         first.op == Op::kNone && first.sources.front() == own && last.sinks.size() == 1 &&
         last.sinks.front() == own;
}

Lane composeLane(const Lane& reduceScatter, const Lane& allGather, int32_t rank,
                 int32_t scratchOffset) {
  Lane lane = reduceScatter;
  for (Step& step : lane.steps) {
    for (Ref& ref : step.sources) ref = ofReduceScatter(ref, rank);
    for (Ref& ref : step.sinks) ref = ofReduceScatter(ref, rank);
  }
  const uint16_t offset = largestDelay(lane);
  bool atSeam = true;
  for (Step step : allGather.steps) {
    for (Ref& ref : step.sources) ref = ofAllGather(ref, rank, scratchOffset);
    for (Ref& ref : step.sinks) ref = ofAllGather(ref, rank, scratchOffset);
    step.delay = static_cast<uint16_t>(step.delay + offset);
    dropSelfCopy(step, rank);
    const bool mayFuse = atSeam && !lane.steps.empty() && fuses(lane.steps.back(), step, rank) &&
                         lane.steps.back().delay == step.delay;
    atSeam = false;
    if (mayFuse) {
      Step& last = lane.steps.back();
      last.sinks.insert(last.sinks.end(), step.sinks.begin(), step.sinks.end());
    } else if (step.kind != Step::Kind::kMove || !step.sinks.empty()) {
      lane.steps.push_back(std::move(step));
    }
  }
  return lane;
}

}  // namespace

Plan compose(const Plan& reduceScatter, const Plan& allGather, int32_t minCredits) {
  assert(reduceScatter.collective == Collective::kReduceScatter);
  assert(allGather.collective == Collective::kAllGather);
  assert(reduceScatter.rank == allGather.rank && reduceScatter.nranks == allGather.nranks);
  assert(reduceScatter.lanes.size() == allGather.lanes.size());

  Plan plan = reduceScatter;
  plan.collective = Collective::kAllReduce;
  plan.cut = Cut::kInsideSlice;
  plan.minCredits = minCredits;
  plan.scratchBlocks = reduceScatter.scratchBlocks + allGather.scratchBlocks;
  plan.scratchCopies = std::max(reduceScatter.scratchCopies, allGather.scratchCopies);
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    plan.lanes[l] = composeLane(reduceScatter.lanes[l], allGather.lanes[l], plan.rank,
                                reduceScatter.scratchBlocks);
  }
  normalise(plan);
  declareChunks(plan);
  return plan;
}

}  // namespace omnes::plan
