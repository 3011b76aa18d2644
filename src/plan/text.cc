#include "plan/text.h"

namespace omnes::plan {
namespace {

std::string textOf(const Index& index) {
  std::string text = std::to_string(index.base);
  if (index.step == 0) return text;
  text += index.step < 0 ? "-" : "+";
  const int64_t size = index.step < 0 ? -int64_t{index.step} : index.step;
  if (size != 1) text += std::to_string(size);
  text += "i";
  return text;
}

std::string textOf(const Run& run) {
  std::string text = textOf(run.start);
  if (run.count == 1) return text;
  text += ":";
  text += std::to_string(run.count);
  if (run.stride != 1) text += ":" + std::to_string(run.stride);
  if (run.group > 0) {
    text += " in groups of " + std::to_string(run.group) + " at " + std::to_string(run.jump);
  }
  return text;
}

std::string textOf(const std::vector<Ref>& refs) {
  std::string text;
  for (const Ref& ref : refs) text += (text.empty() ? "" : ", ") + toText(ref);
  return text;
}

const char* nameOf(Space space) {
  switch (space) {
    case Space::kInput: return "input";
    case Space::kOutput: return "output";
    case Space::kScratch: return "scratch";
  }
  return "?";
}

}  // namespace

std::string toText(const Ref& ref) {
  std::string text;
  if (ref.kind == Ref::Kind::kSlice) {
    text = std::string(nameOf(ref.space)) + "[" + textOf(ref.run) + "]";
  } else {
    text = (ref.run.count == 1 ? "peer " : "peers ") + textOf(ref.run) + " stream " +
           std::to_string(ref.stream);
  }
  return ref.mark == Mark::kPartial ? text + " partial" : text;
}

std::string toText(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kMove:
      return std::string(step.op == Op::kReduce ? "reduce " : "copy ") + textOf(step.sources) +
             " -> " + textOf(step.sinks);
    case Step::Kind::kSignal: return "signal " + textOf(step.sinks);
    case Step::Kind::kWait: return "wait " + textOf(step.sources);
    case Step::Kind::kLoop: return "loop " + std::to_string(step.iterations);
    case Step::Kind::kEndLoop: return "end";
  }
  return "?";
}

std::string toText(const Plan& plan) {
  std::string text = std::string(nameOf(plan.collective)) + " " + plan.algorithm + ": rank " +
                     std::to_string(plan.rank) + " of " + std::to_string(plan.nranks);
  if (plan.root >= 0) text += ", root " + std::to_string(plan.root);
  text += ", " + std::to_string(plan.blocks) +
          (plan.cut == Cut::kInsideSlice ? " blocks a slice" : " outer blocks");
  text += ", scratch " + std::to_string(plan.scratchBlocks) + " x " +
          std::to_string(plan.scratchCopies);
  text += ", credits " + std::to_string(plan.minCredits) + "\n";
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    text += "lane " + std::to_string(lane) + "\n";
    std::string indent = "  ";
    const auto& steps = plan.lanes[lane].steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind == Step::Kind::kEndLoop) indent = "  ";
      text += indent + std::to_string(i) + " delay " + std::to_string(steps[i].delay) + ": " +
              toText(steps[i]) + "\n";
      if (steps[i].kind == Step::Kind::kLoop) indent = "    ";
    }
  }
  return text;
}

}  // namespace omnes::plan
