#include "plan/weave.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "plan/builder.h"

namespace omnes::plan {
namespace {

// Writes the steps of one part.
class Embedder {
 public:
  Embedder(const Plan& part, const Embedding& embedding, Plan* whole)
      : part_(part), embedding_(embedding), whole_(*whole) {}

  uint16_t run();

 private:
  void addStep(const Step& step, int32_t iteration);
  void addStretch(const Step& step, int32_t iteration, const Stretch& stretch);
  std::vector<int32_t> peersOf(const Ref& ref, int32_t iteration) const;
  std::vector<int32_t> extentsOf(const Ref& ref, int32_t iteration) const;
  Ref placed(const Ref& ref, int32_t iteration, const Stretch& stretch) const;
  void addLinksOf(const Ref& ref, int32_t iteration, Mark mark, std::vector<Ref>* refs) const;
  // Whether a contribution moves in it that nobody has added to anything, as opposed to a result.
  static bool movesContributions(const Step& step) {
    const Ref& first = step.sources.front();
    return step.op == Op::kReduce ||
           (first.kind == Ref::Kind::kSlice && first.space == Space::kInput);
  }

  const Plan& part_;
  const Embedding& embedding_;
  Plan& whole_;
  uint16_t largestDelay_ = 0;
};

uint16_t Embedder::run() {
  const std::vector<Step>& steps = part_.lanes.front().steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != Step::Kind::kLoop) {
      addStep(steps[i], 0);
      continue;
    }
    size_t end = i;
    while (steps[end].kind != Step::Kind::kEndLoop) ++end;
    for (int32_t iteration = 0; iteration < steps[i].iterations; ++iteration)
      for (size_t s = i + 1; s < end; ++s) addStep(steps[s], iteration);
    i = end;
  }
  return largestDelay_;
}

std::vector<int32_t> Embedder::peersOf(const Ref& ref, int32_t iteration) const {
  std::vector<int32_t> peers;
  for (int32_t k = 0; k < ref.run.count; ++k) {
    const int32_t peer = valueOf(ref.run, k, iteration, part_.nranks);
    peers.push_back(embedding_.ranks[static_cast<size_t>(peer)]);
  }
  return peers;
}

std::vector<int32_t> Embedder::extentsOf(const Ref& ref, int32_t iteration) const {
  const int32_t modulus = blockCount(part_, ref.space);
  std::vector<int32_t> extents;
  for (int32_t k = 0; k < ref.run.count; ++k) {
    const int32_t extent = extentOf(part_, ref.space, valueOf(ref.run, k, iteration, modulus));
    const auto& held = embedding_.extents[static_cast<size_t>(extent)];
    extents.insert(extents.end(), held.begin(), held.end());
  }
  return extents;
}

void Embedder::addStep(const Step& step, int32_t iteration) {
  assert(step.kind == Step::Kind::kMove);
  largestDelay_ = std::max(largestDelay_, embedding_.oneDelay ? uint16_t{0} : step.delay);
  const Ref* known = nullptr;
  for (const auto* refs : {&step.sources, &step.sinks})
    for (const Ref& ref : *refs)
      if (ref.kind == Ref::Kind::kSlice) known = &ref;
  if (known == nullptr) return;  // no plan that is proven has such a step
  for (const Stretch& stretch : stretchesOf(extentsOf(*known, iteration)))
    addStretch(step, iteration, stretch);
}

void Embedder::addStretch(const Step& step, int32_t iteration, const Stretch& stretch) {
  Step made;
  made.op = step.op;
  made.delay = embedding_.oneDelay ? uint16_t{0} : step.delay;
  const bool isUntouched = movesContributions(step);
  for (const Ref& ref : step.sources) {
    const Mark mark = isUntouched && ref.mark == Mark::kInput ? embedding_.untouched : ref.mark;
    if (ref.kind == Ref::Kind::kSlice) {
      made.sources.push_back(placed(ref, iteration, stretch));
      made.sources.back().mark = mark;
    } else {
      addLinksOf(ref, iteration, mark, &made.sources);
    }
  }
  for (const Ref& ref : step.sinks) {
    // What a reduction writes as untouched is a result.
    const bool isContribution = isUntouched && step.op == Op::kNone && ref.mark == Mark::kInput;
    const Mark mark = isContribution ? embedding_.untouched : ref.mark;
    if (ref.kind == Ref::Kind::kLink) {
      addLinksOf(ref, iteration, mark, &made.sinks);
      continue;
    }
    Ref sink = placed(ref, iteration, stretch);
    sink.mark = mark;
    if (made.op == Op::kNone && sink == made.sources.front()) continue;
    made.sinks.push_back(sink);
  }
  if (!made.sinks.empty()) whole_.lanes.back().steps.push_back(std::move(made));
}

Ref Embedder::placed(const Ref& ref, int32_t iteration, const Stretch& stretch) const {
  Space space = ref.space;
  int32_t copy = -1;  // of scratch
  if (ref.space == Space::kInput) {
    space = embedding_.input;
    copy = embedding_.inputCopy;
  } else if (ref.space == Space::kScratch) {
    copy = embedding_.scratchCopy;
  }
  const int32_t modulus = blockCount(part_, ref.space);
  std::vector<int32_t> indices;
  for (int32_t k = 0; k < ref.run.count; ++k) {
    const int32_t block = valueOf(ref.run, k, iteration, modulus);
    const int32_t ownCopy = ref.space == Space::kScratch ? block / part_.blocks : 0;
    for (const int32_t extent :
         embedding_.extents[static_cast<size_t>(extentOf(part_, ref.space, block))])
      indices.push_back(space == Space::kScratch         ? (copy + ownCopy) * whole_.blocks + extent
                        : blockCount(whole_, space) == 1 ? 0
                                                         : extent);
  }
  return slice(space, std::span(indices).subspan(stretch.begin, stretch.count), ref.mark);
}

void Embedder::addLinksOf(const Ref& ref, int32_t iteration, Mark mark,
                          std::vector<Ref>* refs) const {
  const bool isBack = ref.stream % kStreamsPerLane == kStreamGather || ref.stream == kStreamBack;
  addLinks(refs, isBack ? kStreamBack : kStreamForth, peersOf(ref, iteration), mark);
}

}  // namespace

std::vector<Stretch> stretchesOf(std::span<const int32_t> numbers, size_t most) {
  std::vector<Stretch> out;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = std::min(begin + 2, numbers.size());
    while (end < numbers.size() &&
           numbers[end] - numbers[end - 1] == numbers[begin + 1] - numbers[begin])
      ++end;
    const size_t count = std::min(end - begin, most);
    out.push_back({begin, count});
    begin += count;
  }
  return out;
}

Run runOf(std::span<const int32_t> indices) {
  const int32_t stride = indices.size() > 1 ? indices[1] - indices[0] : 1;
  return range(indices[0], static_cast<int32_t>(indices.size()), stride);
}

Ref slice(Space space, std::span<const int32_t> indices, Mark mark) {
  return sliceRef(space, runOf(indices), mark);
}

void addLinks(std::vector<Ref>* refs, uint8_t stream, std::span<const int32_t> peers, Mark mark) {
  for (const int32_t peer : peers) refs->push_back(linkRef(stream, at(peer), mark));
}

uint16_t embed(const Plan& part, const Embedding& embedding, Plan* whole) {
  return Embedder(part, embedding, whole).run();
}

int32_t scratchCopiesFor(const Lane& lane) {
  int32_t least = INT32_MAX;
  int32_t most = 0;
  for (const Step& step : lane.steps)
    for (const auto* refs : {&step.sources, &step.sinks})
      for (const Ref& ref : *refs) {
        if (ref.kind != Ref::Kind::kSlice || ref.space != Space::kScratch) continue;
        least = std::min<int32_t>(least, step.delay);
        most = std::max<int32_t>(most, step.delay);
      }
  return least > most ? 1 : most - least + 1;
}

}  // namespace omnes::plan
