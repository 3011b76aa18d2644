#include "plan/verifier.h"

#include <algorithm>
#include <utility>

#include "plan/proof_match.h"
#include "plan/proof_program.h"
#include "plan/proof_progress.h"
#include "plan/proof_values.h"

namespace omnes::plan {
namespace {

using base::Status;
using proof::Lending;
using proof::Matching;
using proof::Program;

// One lane, ready for questions about credits.
struct LaneProof {
  Program program;
  Matching matching;
};

Status prepareLane(std::span<const Plan> plans, bool inPlace, int32_t lane, proof::LinkTable* table,
                   LaneProof* proof) {
  OMNES_RETURN_IF_ERROR(proof::compile(plans, inPlace, lane, table, &proof->program));
  return proof::match(proof->program, &proof->matching);
}

// Lent chunks that take slots all the same: the waits of both kinds at once. What makes progress
// under these also does so with only slots, with everything lent, and when each link decides for
// itself.
Status checkMixed(const LaneProof& lane, int32_t slots) {
  Lending lending = proof::findLending(lane.program);
  if (lending.tooMany)
    return proof::fail(lane.program, proof::Property::kMemory, "too many lent blocks to prove");
  std::fill(lending.isLent.begin(), lending.isLent.end(), uint8_t{0});
  return proof::checkProgress(lane.program, lane.matching, slots, &lending);
}

Status checkLent(const LaneProof& lane, int32_t slots) {
  const Lending lending = proof::findLending(lane.program);
  if (lending.tooMany)
    return proof::fail(lane.program, proof::Property::kMemory, "too many lent blocks to prove");
  return proof::checkProgress(lane.program, lane.matching, slots, &lending);
}

Status checkCredits(const LaneProof& lane, int32_t credits) {
  const int32_t declared = lane.program.plans[0].minCredits;
  if (credits == 0) return checkLent(lane, declared);
  if (credits > 0) return proof::checkProgress(lane.program, lane.matching, credits, nullptr);
  // Slots alone first: should they be too few, the trace says so without talk of lending.
  OMNES_RETURN_IF_ERROR(proof::checkProgress(lane.program, lane.matching, declared, nullptr));
  return checkMixed(lane, declared);
}

int64_t blocksOf(const Step& step) {
  for (const auto* refs : {&step.sources, &step.sinks})
    for (const Ref& ref : *refs)
      if (ref.kind == Ref::Kind::kSlice) return ref.run.count;
  return 0;
}

void count(const Step& step, int64_t times, Counters* counters) {
  const int64_t blocks = step.kind == Step::Kind::kMove ? blocksOf(step) : 0;
  for (const Ref& sink : step.sinks) {
    if (sink.kind != Ref::Kind::kLink) continue;
    counters->messages += times * sink.run.count;
    (sink.mark == Mark::kInput ? counters->inputBlocks : counters->partialBlocks) +=
        times * blocks * sink.run.count;
  }
  if (step.kind != Step::Kind::kMove || step.op != Op::kReduce) return;
  for (const Ref& source : step.sources)
    counters->operands += times * blocks * (source.kind == Ref::Kind::kLink ? source.run.count : 1);
}

}  // namespace

base::Result<Proof> verify(std::span<const Plan> plans, const VerifyOptions& options) {
  OMNES_RETURN_IF_ERROR(proof::checkForm(plans, options.inPlace));
  Proof proof;
  proof.sameOrderOnAllRanks = true;
  proof.writesAfterAllPeers = true;
  proof::LinkTable table;
  for (size_t lane = 0; lane < plans[0].lanes.size(); ++lane) {
    LaneProof laneProof;
    OMNES_RETURN_IF_ERROR(
        prepareLane(plans, options.inPlace, static_cast<int32_t>(lane), &table, &laneProof));
    OMNES_RETURN_IF_ERROR(
        proof::checkValues(laneProof.program, laneProof.matching, &proof.sameOrderOnAllRanks));
    OMNES_RETURN_IF_ERROR(proof::checkScratchReuse(laneProof.program));
    OMNES_RETURN_IF_ERROR(checkCredits(laneProof, options.credits));
    proof.rounds = std::max(proof.rounds, laneProof.matching.rounds);
    proof.writesAfterAllPeers &= laneProof.matching.writesAfterAllPeers;
    proof.steps += static_cast<int64_t>(laneProof.program.operations.size()) *
                   proof::slicesFor(laneProof.program);
  }
  return proof;
}

base::Result<int32_t> leastCredits(std::span<const Plan> plans, bool inPlace) {
  OMNES_RETURN_IF_ERROR(proof::checkForm(plans, inPlace));
  proof::LinkTable table;
  int32_t least = 0;
  for (size_t lane = 0; lane < plans[0].lanes.size(); ++lane) {
    LaneProof laneProof;
    OMNES_RETURN_IF_ERROR(
        prepareLane(plans, inPlace, static_cast<int32_t>(lane), &table, &laneProof));
    if (laneProof.program.links.empty()) continue;
    // No link ever holds more than all its chunks of all slices, so that many slots are as good as
    // endless ones.
    const int64_t most =
        static_cast<int64_t>(laneProof.program.outs.size()) * proof::slicesFor(laneProof.program);
    for (int32_t slots = std::max(least, 1);; ++slots) {
      const Status status = checkMixed(laneProof, slots);
      least = slots;
      if (status.isOk()) break;
      if (slots >= most) return status;
    }
  }
  return least;
}

Counters countersOf(const Plan& plan) {
  Counters most;
  for (const Lane& lane : plan.lanes) {
    Counters counters;
    int64_t times = 1;
    for (const Step& step : lane.steps) {
      if (step.kind == Step::Kind::kLoop) times = step.iterations;
      if (step.kind == Step::Kind::kEndLoop) times = 1;
      if (step.kind != Step::Kind::kLoop && step.kind != Step::Kind::kEndLoop)
        count(step, times, &counters);
    }
    most.messages = std::max(most.messages, counters.messages);
    most.inputBlocks = std::max(most.inputBlocks, counters.inputBlocks);
    most.partialBlocks = std::max(most.partialBlocks, counters.partialBlocks);
    most.operands = std::max(most.operands, counters.operands);
  }
  return most;
}

}  // namespace omnes::plan
