#include "plan/builder.h"

#include <algorithm>
#include <utility>

namespace omnes::plan {
namespace {

void dropEmpty(std::vector<Ref>& refs) {
  std::erase_if(refs, [](const Ref& ref) { return ref.run.count <= 0; });
}

}  // namespace

Builder::Builder(Collective collective, std::string_view algorithm, int32_t rank, int32_t nranks,
                 int32_t root) {
  plan_.root = root;
  plan_.collective = collective;
  plan_.algorithm = algorithm;
  plan_.rank = rank;
  plan_.nranks = nranks;
  plan_.lanes.resize(1);
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kBarrier: break;
    default: plan_.blocks = nranks; plan_.cut = Cut::kOuter;
  }
}

Builder& Builder::blocks(int32_t count) {
  plan_.blocks = count;
  return *this;
}

Builder& Builder::scratch(int32_t blocks, int32_t copies) {
  plan_.scratchBlocks = blocks;
  plan_.scratchCopies = copies;
  return *this;
}

Builder& Builder::minCredits(int32_t credits) {
  plan_.minCredits = credits;
  return *this;
}

Builder& Builder::lane() {
  plan_.lanes.emplace_back();
  delay_ = 0;
  return *this;
}

Builder& Builder::delay(uint16_t delay) {
  delay_ = delay;
  return *this;
}

void Builder::append(Step step) {
  if (skipping_) return;
  step.delay = delay_;
  plan_.lanes.back().steps.push_back(std::move(step));
}

Builder& Builder::move(std::vector<Ref> sources, Op op, std::vector<Ref> sinks) {
  dropEmpty(sources);
  dropEmpty(sinks);
  if (sources.empty() || sinks.empty()) return *this;
  Step step;
  step.op = op;
  step.sources = std::move(sources);
  step.sinks = std::move(sinks);
  append(std::move(step));
  return *this;
}

Builder& Builder::signal(std::vector<Ref> sinks) {
  dropEmpty(sinks);
  if (sinks.empty()) return *this;
  Step step;
  step.kind = Step::Kind::kSignal;
  step.sinks = std::move(sinks);
  append(std::move(step));
  return *this;
}

Builder& Builder::wait(std::vector<Ref> sources) {
  dropEmpty(sources);
  if (sources.empty()) return *this;
  Step step;
  step.kind = Step::Kind::kWait;
  step.sources = std::move(sources);
  append(std::move(step));
  return *this;
}

Builder& Builder::loop(int32_t iterations) {
  skipping_ = iterations <= 0;
  Step step;
  step.kind = Step::Kind::kLoop;
  step.iterations = iterations;
  append(std::move(step));
  return *this;
}

Builder& Builder::endLoop() {
  if (!skipping_) {
    Step step;
    step.kind = Step::Kind::kEndLoop;
    append(std::move(step));
  }
  skipping_ = false;
  return *this;
}

Plan Builder::build() {
  normalise(plan_);
  declareChunks(plan_);
  return std::move(plan_);
}

void declareChunks(Plan& plan) {
  plan.maxInputChunkBlocks = plan.maxPartialChunkBlocks = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      // All operands of a step hold the same blocks; a slice operand tells how many.
      int32_t blocks = 0;
      for (const auto* refs : {&step.sources, &step.sinks})
        for (const Ref& ref : *refs)
          if (ref.kind == Ref::Kind::kSlice) blocks = std::max(blocks, ref.run.count);
      for (const Ref& ref : step.sinks) {
        if (ref.kind != Ref::Kind::kLink) continue;
        int32_t& largest =
            ref.mark == Mark::kInput ? plan.maxInputChunkBlocks : plan.maxPartialChunkBlocks;
        largest = std::max(largest, blocks);
      }
    }
  }
}

void normalise(Plan& plan) {
  const auto fix = [&plan](Ref& ref) {
    const int32_t modulus =
        ref.kind == Ref::Kind::kLink ? plan.nranks : blockCount(plan, ref.space);
    if (modulus > 0) ref.run.start.base = valueOf(Index{ref.run.start.base, 0}, 0, modulus);
    if (ref.run.group >= ref.run.count) ref.run.group = ref.run.jump = 0;
  };
  for (Lane& lane : plan.lanes) {
    for (Step& step : lane.steps) {
      std::for_each(step.sources.begin(), step.sources.end(), fix);
      std::for_each(step.sinks.begin(), step.sinks.end(), fix);
    }
  }
}

}  // namespace omnes::plan
