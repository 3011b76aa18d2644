// Checks of each plan alone, before anything is unrolled. Limits keep hostile plans from eating
// memory.
#include <cstdlib>
#include <numeric>
#include <string>

#include "plan/proof_program.h"
#include "plan/text.h"

namespace omnes::plan::proof {
namespace {

using base::Status;

constexpr int32_t kMaxRanks = 1 << 16;
constexpr int32_t kMaxBlocks = 1 << 20;
constexpr int32_t kMaxScratchCopies = 1 << 10;
constexpr int32_t kMaxCredits = 1 << 20;
constexpr size_t kMaxRefs = 1 << 16;

// Where a finding is; turned into text only when there is one.
struct Place {
  const Plan& plan;
  size_t lane;
  size_t index;
  const Step& step() const { return plan.lanes[lane].steps[index]; }
};

// Whether a rank's chunks have room in slots of exchange streams, which are short, or only in
// others.
enum class Slots : uint8_t { kNone, kShort, kLong };
Slots slotsOf(const Plan& plan) {
  Slots found = Slots::kNone;
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      if (step.kind != Step::Kind::kMove) continue;
      for (const auto* refs : {&step.sources, &step.sinks}) {
        for (const Ref& ref : *refs) {
          if (ref.kind != Ref::Kind::kLink) continue;
          if (ref.stream % kStreamsPerLane == kStreamExchange) return Slots::kShort;
          found = Slots::kLong;
        }
      }
    }
  }
  return found;
}

class FormCheck {
 public:
  FormCheck(std::span<const Plan> plans, bool inPlace) : plans_(plans), inPlace_(inPlace) {}

  Status checkSet() const;

 private:
  Status checkPlan(const Plan& plan) const;
  Status checkSteps(const Plan& plan, size_t lane) const;
  Status checkOperands(const Place& place) const;
  Status checkMove(const Place& place) const;
  Status checkRef(const Place& place, const Ref& ref, bool isSink) const;

  Status bad(const std::string& text) const {
    return fail(plans_, inPlace_, Property::kMemory, text);
  }
  Status bad(const Plan& plan, const std::string& text) const {
    return bad("rank " + std::to_string(plan.rank) + " " + text);
  }
  Status bad(const Place& place, const std::string& text,
             Property property = Property::kMemory) const {
    return fail(plans_, inPlace_, property,
                "rank " + std::to_string(place.plan.rank) + " lane " + std::to_string(place.lane) +
                    " step " + std::to_string(place.index) + " (" + toText(place.step()) +
                    "): " + text);
  }

  std::span<const Plan> plans_;
  bool inPlace_;
};

Status FormCheck::checkSet() const {
  const Plan& first = plans_[0];
  if (plans_.size() > static_cast<size_t>(kMaxRanks)) return bad("more than 65536 ranks");
  Slots slots = Slots::kNone;
  for (size_t rank = 0; rank < plans_.size(); ++rank) {
    const Plan& plan = plans_[rank];
    const std::string name = "the plan at position " + std::to_string(rank);
    if (plan.rank != static_cast<int32_t>(rank))
      return bad(name + " is of rank " + std::to_string(plan.rank));
    if (plan.nranks != static_cast<int32_t>(plans_.size()))
      return bad(name + " is for " + std::to_string(plan.nranks) + " ranks");
    if (plan.collective != first.collective || plan.algorithm != first.algorithm ||
        plan.root != first.root)
      return bad(name + " is of another collective, algorithm or root than rank 0's");
    if (plan.blocks != first.blocks || plan.cut != first.cut || plan.minCredits != first.minCredits)
      return bad(name + " differs from rank 0's in blocks, cut or credits");
    if (plan.maxInputChunkBlocks != first.maxInputChunkBlocks ||
        plan.maxPartialChunkBlocks != first.maxPartialChunkBlocks)
      return bad(name + " declares other largest chunks than rank 0's");
    if (plan.lanes.size() != first.lanes.size())
      return bad(name + " has another number of lanes than rank 0's");
    base::Status status = checkPlan(plan);
    if (!status.isOk()) return status;
    // Each rank cuts its slices by the shortest slot that it uses, and all must cut alike.
    const Slots own = slotsOf(plan);
    if (slots == Slots::kNone) slots = own;
    if (own != Slots::kNone && own != slots)
      return bad(name + " has chunks on exchange streams, or none, unlike ranks before it");
  }
  return Status::ok();
}

// Whether each rank has a block of its own, which slices cut one by one.
bool hasBlockPerRank(Collective collective) {
  switch (collective) {
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter: return true;
    default: return false;
  }
}

Status FormCheck::checkPlan(const Plan& plan) const {
  if (plan.blocks < 1 || plan.blocks > kMaxBlocks)
    return bad(plan, "has " + std::to_string(plan.blocks) + " blocks");
  if (plan.scratchBlocks < 0 || plan.scratchBlocks > kMaxBlocks)
    return bad(plan, "has " + std::to_string(plan.scratchBlocks) + " scratch blocks");
  if (plan.scratchCopies < 1 || plan.scratchCopies > kMaxScratchCopies)
    return bad(plan, "has " + std::to_string(plan.scratchCopies) + " copies of scratch");
  if (plan.minCredits < 0 || plan.minCredits > kMaxCredits)
    return bad(plan, "asks for " + std::to_string(plan.minCredits) + " credits");
  if (plan.lanes.empty() || plan.lanes.size() > static_cast<size_t>(kMaxLanes))
    return bad(plan, "has " + std::to_string(plan.lanes.size()) + " lanes, not 1 to 8");
  if (hasRoot(plan.collective) ? plan.root < 0 || plan.root >= plan.nranks : plan.root != -1)
    return bad(plan, "has root " + std::to_string(plan.root));
  const bool outer = hasBlockPerRank(plan.collective);
  if (outer && plan.blocks != plan.nranks) return bad(plan, "must have one block a rank");
  if (plan.collective != Collective::kBarrier && (plan.cut == Cut::kOuter) != outer)
    return bad(plan, "has the cut of another collective");
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    base::Status status = checkSteps(plan, lane);
    if (!status.isOk()) return status;
  }
  return Status::ok();
}

Status FormCheck::checkSteps(const Plan& plan, size_t lane) const {
  const auto& steps = plan.lanes[lane].steps;
  const Step* loop = nullptr;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    const Place place{plan, lane, i};
    if (step.sources.size() > kMaxRefs || step.sinks.size() > kMaxRefs)
      return bad(plan, "has a step of more than 65536 operands");
    if (step.kind == Step::Kind::kLoop) {
      if (loop != nullptr) return bad(place, "a loop inside a loop");
      if (step.iterations < 0) return bad(place, "a negative number of iterations");
      loop = &step;
    } else if (step.kind == Step::Kind::kEndLoop) {
      if (loop == nullptr) return bad(place, "the end of a loop that has no begin");
      loop = nullptr;
    } else if (loop != nullptr && step.delay != loop->delay) {
      return bad(place, "delay " + std::to_string(step.delay) + " in a loop of delay " +
                            std::to_string(loop->delay));
    }
    base::Status status = checkOperands(place);
    if (!status.isOk()) return status;
  }
  return loop == nullptr ? Status::ok()
                         : bad(plan, "lane " + std::to_string(lane) + ": a loop without an end");
}

Status FormCheck::checkOperands(const Place& place) const {
  const Step& step = place.step();
  if (step.kind > Step::Kind::kEndLoop) return bad(place, "unknown kind of step");
  const bool needsSources = step.kind == Step::Kind::kMove || step.kind == Step::Kind::kWait;
  const bool needsSinks = step.kind == Step::Kind::kMove || step.kind == Step::Kind::kSignal;
  if (step.sources.empty() == needsSources)
    return bad(place, needsSources ? "no source" : "has sources");
  if (step.sinks.empty() == needsSinks) return bad(place, needsSinks ? "no sink" : "has sinks");
  for (const Ref& ref : step.sources) {
    base::Status status = checkRef(place, ref, false);
    if (!status.isOk()) return status;
  }
  for (const Ref& ref : step.sinks) {
    base::Status status = checkRef(place, ref, true);
    if (!status.isOk()) return status;
  }
  return step.kind == Step::Kind::kMove ? checkMove(place) : Status::ok();
}

Status FormCheck::checkMove(const Place& place) const {
  const Step& step = place.step();
  bool hasSlice = false;
  for (const auto* refs : {&step.sources, &step.sinks})
    for (const Ref& ref : *refs) hasSlice |= ref.kind == Ref::Kind::kSlice;
  if (!hasSlice) return bad(place, "no slice, so this rank does not know what the chunk holds");
  if (step.op == Op::kReduce)
    return isReduction(place.plan.collective)
               ? Status::ok()
               : bad(place, "this collective has no reduction", Property::kValues);
  if (step.op != Op::kNone) return bad(place, "unknown operation");
  const Ref& source = step.sources[0];
  if (step.sources.size() != 1 || (source.kind == Ref::Kind::kLink && source.run.count != 1))
    return bad(place, "a copy of more than one operand");
  for (const Ref& sink : step.sinks)
    if (sink.mark != source.mark) return bad(place, "a copy changes the mark", Property::kValues);
  return Status::ok();
}

// Whether `count` elements of a run of this stride are different, modulo `modulus`.
bool areDifferent(const Run& run, int32_t modulus) {
  return run.count >= 1 && run.count <= modulus / std::gcd(int64_t{run.stride}, int64_t{modulus});
}

// The same of a run in groups, by what plan.h asks for: one behind the other and once around at
// most.
bool areGroupsApart(const Run& run, int32_t modulus) {
  const int64_t stride = std::abs(int64_t{run.stride});
  const int64_t jump = std::abs(int64_t{run.jump});
  if (run.count < 1 || run.group < 1 || stride == 0) return false;
  if (run.group > 1 && (run.stride < 0) != (run.jump < 0)) return false;
  const int64_t before = (run.count - 1) / run.group;  // groups before the last
  const int64_t last = run.count - before * run.group;
  return stride * (run.group - 1) < jump && jump * before + stride * (last - 1) < modulus;
}

Status FormCheck::checkRef(const Place& place, const Ref& ref, bool isSink) const {
  const Plan& plan = place.plan;
  if (ref.mark > Mark::kPartial) return bad(place, toText(ref) + ": unknown mark");
  if (ref.kind == Ref::Kind::kLink) {
    if (ref.stream >= kStreamsPerLane * kMaxLanes)
      return bad(place, toText(ref) + ": no such stream");
    if (ref.run.group != 0 || !areDifferent(ref.run, plan.nranks))
      return bad(place, toText(ref) + ": not a set of different peers");
    const uint8_t base = ref.stream % kStreamsPerLane;
    if (isSink && ref.run.count > 1 && (base == kStreamScatter || base == kStreamSignal))
      return bad(place, toText(ref) + ": multicast on a stream for unicast", Property::kMatching);
    return Status::ok();
  }
  if (ref.kind != Ref::Kind::kSlice) return bad(place, "unknown kind of operand");
  if (place.step().kind != Step::Kind::kMove)
    return bad(place, "signals and waits take links only");
  if (ref.space > Space::kScratch) return bad(place, "unknown space");
  const int32_t modulus = blockCount(plan, ref.space);
  if (modulus < 1) return bad(place, toText(ref) + ": this rank has no such space");
  if (isSink && ref.space == Space::kInput) return bad(place, toText(ref) + ": writes its input");
  // Each extent at most once, so that operands of one step can only overlap block on block.
  bool isRun = ref.run.count == 1;
  if (ref.run.group != 0) {
    isRun = modulus % plan.blocks == 0 && areGroupsApart(ref.run, plan.blocks);
  } else if (!isRun) {
    isRun = areDifferent(ref.run, modulus) && areDifferent(ref.run, plan.blocks);
  }
  return isRun ? Status::ok() : bad(place, toText(ref) + ": not a run of different blocks");
}

}  // namespace

Status checkForm(std::span<const Plan> plans, bool inPlace) {
  if (plans.empty())
    return Status(base::Code::kInternalError, "property 5 (memory and form): no plans");
  switch (plans[0].collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kBarrier:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter: break;
    default:
      return fail(plans, inPlace, Property::kMemory,
                  "plans are written for the collective with equal lengths");
  }
  return FormCheck(plans, inPlace).checkSet();
}

}  // namespace omnes::plan::proof
