#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>
#include <vector>

#include "plan/builder.h"
#include "plan/combinators.h"

namespace omnes::plan {
namespace {

bool isSlice(const Ref& ref) { return ref.kind == Ref::Kind::kSlice; }
bool isLink(const Ref& ref) { return ref.kind == Ref::Kind::kLink; }

// The reversed link is unicast, in the same lane.
uint8_t unicastStream(uint8_t stream) {
  const int lane = stream / kStreamsPerLane;
  return stream % kStreamsPerLane == kStreamSignal ? stream : streamOf(kStreamScatter, lane);
}

Ref reversedLink(const Ref& ref, Mark mark) {
  return linkRef(unicastStream(ref.stream), ref.run, mark);
}

uint16_t largestDelay(const Plan& plan) {
  uint16_t largest = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) largest = std::max(largest, step.delay);
  }
  return largest;
}

// Index in iteration i as a function of the reversed iteration, `iterations` - 1 - i.
Run backwards(Run run, int32_t iterations) {
  run.start.base += run.start.step * (iterations - 1);
  run.start.step = -run.start.step;
  return run;
}

Run frozen(Run run, int32_t iteration) {
  run.start.base += run.start.step * iteration;
  run.start.step = 0;
  return run;
}

// A straight piece of a lane in reverse order: one step, or the body of a loop, with indices in
// terms of the reversed iteration.
struct Piece {
  int32_t iterations = 0;  // 0: not a loop
  uint16_t delay = 0;
  std::vector<Step> steps;
};

std::vector<Piece> reversedPieces(const Lane& lane, uint16_t delays) {
  std::vector<Piece> pieces;
  int32_t iterations = 0;
  for (auto step = lane.steps.rbegin(); step != lane.steps.rend(); ++step) {
    if (step->kind == Step::Kind::kEndLoop) {
      auto begin = step;
      while (begin->kind != Step::Kind::kLoop) ++begin;
      iterations = begin->iterations;
      pieces.push_back({iterations, static_cast<uint16_t>(delays - step->delay), {}});
    } else if (step->kind == Step::Kind::kLoop) {
      iterations = 0;
    } else {
      Step copy = *step;
      if (iterations > 0) {
        for (Ref& ref : copy.sources) ref.run = backwards(ref.run, iterations);
        for (Ref& ref : copy.sinks) ref.run = backwards(ref.run, iterations);
      } else {
        pieces.push_back({0, static_cast<uint16_t>(delays - step->delay), {}});
      }
      pieces.back().steps.push_back(std::move(copy));
    }
  }
  return pieces;
}

// SIGNAL becomes WAIT and the other way round.
bool reverseOrder(const Step& step, Builder& builder) {
  if (step.kind == Step::Kind::kMove) return false;
  std::vector<Ref> links;
  for (const Ref& ref : step.sources) links.push_back(reversedLink(ref, ref.mark));
  for (const Ref& ref : step.sinks) links.push_back(reversedLink(ref, ref.mark));
  if (step.kind == Step::Kind::kSignal) {
    builder.wait(links);
  } else {
    builder.signal(links);
  }
  return true;
}

// All-gather to reduce-scatter, one rank.
class ToReduceScatter {
 public:
  explicit ToReduceScatter(const Plan& plan)
      : plan_(plan),
        builder_(Collective::kReduceScatter, plan.algorithm, plan.rank, plan.nranks),
        touched_(plan.blocks, false) {}

  Plan run() {
    const uint16_t delays = largestDelay(plan_);
    for (size_t l = 0; l < plan_.lanes.size(); ++l) {
      if (l > 0) builder_.lane();
      std::fill(touched_.begin(), touched_.end(), false);
      finished_ = false;
      const std::vector<Piece> pieces = reversedPieces(plan_.lanes[l], delays);
      for (const Piece& piece : pieces) {
        isLast_ = &piece == &pieces.back() && piece.iterations == 0;
        builder_.delay(piece.delay);
        addPiece(piece);
      }
      // The first steps of the all-gather did not begin with the own block alone: the sum is still
      // under way.
      if (!finished_) {
        builder_.move({sumOf(at(plan_.rank), touched_[plan_.rank])}, Op::kReduce,
                      {outputRef(at(0))});
      }
    }
    builder_.scratch(usesScratch_ ? plan_.blocks : 0, usesScratch_ ? delays + 1 : 1);
    builder_.minCredits(plan_.minCredits);
    return builder_.build();
  }

 private:
  static Ref sumOf(const Run& run, bool touched) {
    return touched ? partialRef(run) : inputRef(run);
  }

  // The blocks that a step of the all-gather moves, as blocks of the reduce-scatter's input; none
  // for a mere forward.
  std::optional<Run> blocksOf(const Step& step) const {
    const Ref& source = step.sources.front();
    if (isSlice(source)) return source.space == Space::kInput ? at(plan_.rank) : source.run;
    for (const Ref& sink : step.sinks) {
      if (isSlice(sink)) return sink.run;
    }
    return std::nullopt;
  }

  int32_t blockAt(const Run& run, int32_t k, int32_t iteration) const {
    return valueOf(run, k, iteration, plan_.blocks);
  }

  // What a step finds in iteration i: 0 all blocks untouched, 1 none, 2 some; and touches what it
  // will have added to.
  int visit(const Step& step, int32_t iteration) {
    const std::optional<Run> run = blocksOf(step);
    if (step.kind != Step::Kind::kMove || !run) return 0;
    int32_t found = 0;
    for (int32_t k = 0; k < run->count; ++k) found += touched_[blockAt(*run, k, iteration)];
    if (isSlice(step.sources.front())) {
      for (int32_t k = 0; k < run->count; ++k) touched_[blockAt(*run, k, iteration)] = true;
    }
    return found == 0 ? 0 : found == run->count ? 1 : 2;
  }

  void addPiece(const Piece& piece) {
    const std::vector<bool> before = touched_;
    if (piece.iterations > 0 && isUniform(piece)) {
      const std::vector<bool> after = std::exchange(touched_, before);
      builder_.loop(piece.iterations);
      for (const Step& step : piece.steps) addStep(step);
      builder_.endLoop();
      touched_ = after;
      return;
    }
    touched_ = before;
    for (int32_t i = 0; i < std::max(piece.iterations, 1); ++i) {
      for (Step step : piece.steps) {
        for (Ref& ref : step.sources) ref.run = frozen(ref.run, i);
        for (Ref& ref : step.sinks) ref.run = frozen(ref.run, i);
        addStep(step);
      }
    }
  }

  bool isUniform(const Piece& piece) {
    std::vector<int> first;
    for (int32_t i = 0; i < piece.iterations; ++i) {
      std::vector<int> found;
      for (const Step& step : piece.steps) found.push_back(visit(step, i));
      if (i == 0) first = found;
      if (found != first || std::count(found.begin(), found.end(), 2) > 0) return false;
    }
    return true;
  }

  // Brings the untouched ones of the blocks into scratch, beside the others.
  void widen(const Run& run) {
    for (int32_t k = 0; k < run.count; ++k) {
      const int32_t block = blockAt(run, k, 0);
      if (touched_[block]) continue;
      builder_.move({inputRef(at(block))}, Op::kReduce, {partialRef(at(block))});
      touched_[block] = true;
    }
    usesScratch_ = true;
  }

  void addStep(const Step& step) {
    if (reverseOrder(step, builder_)) return;
    const Ref& source = step.sources.front();
    std::vector<Ref> operands;
    for (const Ref& sink : step.sinks) {
      if (isLink(sink)) operands.push_back(reversedLink(sink, Mark::kPartial));
    }
    const std::optional<Run> run = blocksOf(step);
    if (!run) {
      assert(operands.size() == 1);  // IN to OUT only
      builder_.move(operands, Op::kNone, {reversedLink(source, Mark::kPartial)});
      return;
    }
    const std::vector<bool> before = touched_;
    int found = visit(step, 0);
    if (found == 2) {
      const std::vector<bool> after = std::exchange(touched_, before);
      widen(*run);
      touched_ = after;
      found = 1;
    }
    const Ref sum = sumOf(*run, found == 1);
    operands.push_back(sum);
    if (isLink(source)) {
      const bool isCopy = operands.size() == 1 && sum.mark == Mark::kPartial;
      builder_.move(operands, isCopy ? Op::kNone : Op::kReduce,
                    {reversedLink(source, Mark::kPartial)});
    } else if (isLast_ && source.space == Space::kInput) {
      builder_.move(operands, Op::kReduce, {outputRef(at(0))});
      finished_ = true;
    } else if (operands.size() > 1) {
      builder_.move(operands, Op::kReduce, {partialRef(*run)});
      usesScratch_ = true;
    } else {
      touched_ = before;  // the all-gather's copy of its own block: nothing to add
    }
  }

  const Plan& plan_;
  Builder builder_;
  std::vector<bool> touched_;  // blocks whose sum has left the input, in this lane
  bool usesScratch_ = false;
  bool isLast_ = false;    // the piece under way ends the lane
  bool finished_ = false;  // the output is written
};

// Reduce-scatter to all-gather, one rank.
class ToAllGather {
 public:
  explicit ToAllGather(const Plan& plan)
      : plan_(plan), builder_(Collective::kAllGather, plan.algorithm, plan.rank, plan.nranks) {}

  Plan run() {
    const uint16_t delays = largestDelay(plan_);
    for (size_t l = 0; l < plan_.lanes.size(); ++l) {
      if (l > 0) builder_.lane();
      for (const Piece& piece : reversedPieces(plan_.lanes[l], delays)) {
        builder_.delay(piece.delay);
        if (piece.iterations > 0) builder_.loop(piece.iterations);
        for (const Step& step : piece.steps) addStep(step, piece.iterations > 0);
        if (piece.iterations > 0) builder_.endLoop();
      }
    }
    builder_.minCredits(plan_.minCredits);
    return builder_.build();
  }

 private:
  void addStep(const Step& step, bool inLoop) {
    if (reverseOrder(step, builder_)) return;
    // Where the blocks come from: the own input for the step that finished the sum, the link that
    // took the sum, or the output, for a sum that stayed here (its block has arrived by now).
    std::optional<Ref> source;
    std::optional<Run> blocks;
    for (const Ref& ref : step.sources) {
      if (isSlice(ref)) blocks = ref.run;
    }
    std::vector<Ref> sinks;
    for (const Ref& sink : step.sinks) {
      if (isLink(sink)) {
        source = reversedLink(sink, Mark::kInput);
        if (blocks) sinks.push_back(outputRef(*blocks));
      } else if (sink.space == Space::kOutput) {
        source = inputRef(at(0));
        blocks = at(plan_.rank);
        sinks.push_back(outputRef(*blocks));
      } else {
        blocks = sink.run;
      }
    }
    if (!source) source = outputRef(*blocks);

    std::vector<Ref> fanOut;
    for (const Ref& ref : step.sources) {
      if (!isLink(ref)) continue;
      (ref.run.count == 1 ? sinks : fanOut).push_back(reversedLink(ref, Mark::kInput));
    }
    builder_.move({*source}, Op::kNone, sinks);
    assert(fanOut.empty() || (!inLoop && blocks));
    for (const Ref& group : fanOut) {
      Ref out = group;
      out.run = at(group.run.start.base, group.run.stride);
      builder_.loop(group.run.count).move({outputRef(*blocks)}, Op::kNone, {out}).endLoop();
    }
  }

  const Plan& plan_;
  Builder builder_;
};

}  // namespace

Plan reverse(const Plan& plan) {
  if (plan.collective == Collective::kAllGather) {
    assert(plan.scratchBlocks == 0);
    return ToReduceScatter(plan).run();
  }
  assert(plan.collective == Collective::kReduceScatter);
  return ToAllGather(plan).run();
}

}  // namespace omnes::plan
