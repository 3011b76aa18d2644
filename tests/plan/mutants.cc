#include "mutants.h"

#include <algorithm>
#include <utility>

namespace omnes::plan::testing {
namespace {

class Mutator {
 public:
  explicit Mutator(std::mt19937_64* random) : random_(*random) {}

  std::string mutatePlan(Plan* plan, uint64_t kind);
  static constexpr uint64_t kKinds = 24;

 private:
  size_t pick(size_t count) { return count == 0 ? 0 : random_() % count; }
  int32_t nudge() { return random_() % 2 == 0 ? 1 : -1; }
  Ref* anyRef(std::vector<Step>* steps, Ref::Kind kind);
  std::string mutateRef(std::vector<Step>* steps, uint64_t kind);
  std::string mutateSteps(Plan* plan, Lane* lane, uint64_t kind);
  std::string mutateOperands(std::vector<Step>* steps, uint64_t kind);
  std::string mutateHead(Plan* plan, uint64_t kind);

  std::mt19937_64& random_;
};

// Null when the drawn steps have none.
Ref* Mutator::anyRef(std::vector<Step>* steps, Ref::Kind kind) {
  for (int tries = 0; tries < 16; ++tries) {
    Step& step = (*steps)[pick(steps->size())];
    auto& refs = random_() % 2 == 0 ? step.sources : step.sinks;
    if (refs.empty()) continue;
    Ref& ref = refs[pick(refs.size())];
    if (ref.kind == kind) return &ref;
  }
  return nullptr;
}

std::string Mutator::mutateRef(std::vector<Step>* steps, uint64_t kind) {
  const bool wantsLink = kind == 0 || kind == 1 || kind == 2;
  Ref* ref = anyRef(steps, wantsLink ? Ref::Kind::kLink : Ref::Kind::kSlice);
  if (ref == nullptr) return "";
  switch (kind) {
    case 0: ref->run.start.base += nudge(); return "redirect a link";
    case 1:
      ref->stream = static_cast<uint8_t>((ref->stream + 1 + pick(3)) % 8);
      return "change a stream";
    case 2: ref->run.count += nudge(); return "change a group";
    case 3: ref->run.start.base += nudge(); return "shift a slice";
    case 4: ref->run.count += nudge(); return "change the length of a slice";
    case 5: ref->run.stride = -ref->run.stride; return "reverse a slice";
    case 6:
      ref->space = static_cast<Space>((static_cast<int>(ref->space) + 1) % 3);
      return "change a space";
    case 7: ref->run.start.step += nudge(); return "change the step of an index";
    case 8:
      if (ref->run.group == 0) return "";
      ref->run.group += nudge();
      return "change the length of groups";
    case 9:
      if (ref->run.group == 0) return "";
      ref->run.jump += nudge();
      return "move groups";
    default:
      ref->mark = ref->mark == Mark::kInput ? Mark::kPartial : Mark::kInput;
      return "change a mark";
  }
}

std::string Mutator::mutateSteps(Plan* plan, Lane* lane, uint64_t kind) {
  auto& steps = lane->steps;
  const size_t at = pick(steps.size());
  const auto place = steps.begin() + static_cast<std::ptrdiff_t>(at);
  switch (kind) {
    case 0: steps.erase(place); return "drop a step";
    case 1: steps.insert(place, Step(steps[at])); return "duplicate a step";
    case 2: std::swap(steps[at], steps[(at + 1) % steps.size()]); return "swap neighbours";
    case 3: std::swap(steps[at], steps[pick(steps.size())]); return "swap two steps";
    case 4:
      steps[at].op = steps[at].op == Op::kNone ? Op::kReduce : Op::kNone;
      return "change an operation";
    case 5: steps[at].delay = static_cast<uint16_t>(steps[at].delay + 1); return "delay a step";
    case 6:
      for (size_t i = at; i < steps.size(); ++i)
        steps[i].delay = static_cast<uint16_t>(steps[i].delay + 1);
      return "delay all steps from one on";
    default: {
      Lane& other = plan->lanes[pick(plan->lanes.size())];
      if (&other == lane) return "";
      other.steps.push_back(steps[at]);
      steps.erase(place);
      return "move a step to another lane";
    }
  }
}

std::string Mutator::mutateOperands(std::vector<Step>* steps, uint64_t kind) {
  Step& step = (*steps)[pick(steps->size())];
  auto& refs = kind % 2 == 0 ? step.sources : step.sinks;
  if (refs.empty()) {
    step.iterations += nudge();
    return "change the iterations";
  }
  const auto place = refs.begin() + static_cast<std::ptrdiff_t>(pick(refs.size()));
  if (kind / 2 == 0) {
    refs.erase(place);
    return "drop an operand";
  }
  refs.push_back(Ref(*place));
  return "duplicate an operand";
}

std::string Mutator::mutateHead(Plan* plan, uint64_t kind) {
  if (kind == 0 && plan->scratchBlocks > 0) {
    plan->scratchBlocks -= 1;
    return "shrink scratch";
  }
  plan->scratchBlocks += plan->blocks;
  return "grow scratch";
}

std::string Mutator::mutatePlan(Plan* plan, uint64_t kind) {
  Lane& lane = plan->lanes[pick(plan->lanes.size())];
  if (lane.steps.empty()) return "";
  if (kind < 11) return mutateRef(&lane.steps, kind);
  if (kind < 19) return mutateSteps(plan, &lane, kind - 11);
  if (kind < 23) return mutateOperands(&lane.steps, kind - 19);
  return mutateHead(plan, random_() % 2);
}

}  // namespace

std::string mutate(Set* plans, std::mt19937_64* random) {
  if ((*random)() % 12 == 0) {
    for (Plan& plan : *plans) plan.minCredits -= 1;
    return "one credit less";
  }
  const uint64_t kind = (*random)() % Mutator::kKinds;
  if ((*random)() % 4 != 0)
    return Mutator(random).mutatePlan(&(*plans)[(*random)() % plans->size()], kind);
  // The same damage on every rank: agrees on both sides of many links, so it goes deeper.
  std::string what;
  const uint64_t seed = (*random)();
  for (Plan& plan : *plans) {
    std::mt19937_64 same(seed);
    what = Mutator(&same).mutatePlan(&plan, kind);
  }
  return what.empty() ? what : what + " on all ranks";
}

}  // namespace omnes::plan::testing
