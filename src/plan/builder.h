// Builder: writes the plan of one rank, step by step, and brings it into canonical form.
//
// Algorithms use it so that they read like their schedules. The builder drops what is empty (an
// operand of no blocks or no peers, a step without sources or sinks, a loop without iterations), so
// a schedule needs no special cases for the first rank or for two ranks, and it reduces the base of
// every index into its range, so equal plans compare equal. It proves nothing: the verifier does.
//
// Thread safety: none needed, a builder belongs to one function call.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace omnes::plan {

// One block or peer; inside a loop it moves by `step` an iteration.
constexpr Run at(int32_t index, int32_t step = 0) { return Run{{index, step}, 1, 1}; }
// `count` blocks or peers from `first` on, wrapping around.
constexpr Run range(int32_t first, int32_t count, int32_t stride = 1) {
  return Run{{first, 0}, stride, count};
}
// `count` blocks in groups of `group`, each group `jump` behind the one before (plan.h: Run).
constexpr Run grouped(int32_t first, int32_t count, int32_t group, int32_t jump,
                      int32_t stride = 1) {
  return Run{{first, 0}, stride, count, group, jump};
}
// All ranks but `rank`, beginning after it, so that no peer is the first of everybody.
constexpr Run othersOf(int32_t rank, int32_t nranks) { return range(rank + 1, nranks - 1); }

constexpr Ref sliceRef(Space space, Run run, Mark mark) {
  return Ref{Ref::Kind::kSlice, space, mark, 0, run};
}
constexpr Ref inputRef(Run run) { return sliceRef(Space::kInput, run, Mark::kInput); }
constexpr Ref outputRef(Run run) { return sliceRef(Space::kOutput, run, Mark::kInput); }
constexpr Ref partialRef(Run run) { return sliceRef(Space::kScratch, run, Mark::kPartial); }
// IN(peers) as a source, OUT(peers) as a sink.
constexpr Ref linkRef(uint8_t stream, Run peers, Mark mark) {
  return Ref{Ref::Kind::kLink, Space::kInput, mark, stream, peers};
}

class Builder {
 public:
  // Starts lane 0 with delay 0. All-reduce, reduce and broadcast cut inside the slice and begin
  // with one block; the collectives with a block a rank cut outside and have nranks blocks. root:
  // -1 for collectives without one.
  Builder(Collective collective, std::string_view algorithm, int32_t rank, int32_t nranks,
          int32_t root = -1);

  Builder& blocks(int32_t count);
  Builder& scratch(int32_t blocks, int32_t copies = 1);
  Builder& minCredits(int32_t credits);

  Builder& lane();                 // the steps that follow go to the next lane, with delay 0
  Builder& delay(uint16_t delay);  // of the steps that follow
  Builder& move(std::vector<Ref> sources, Op op, std::vector<Ref> sinks);
  Builder& signal(std::vector<Ref> sinks);
  Builder& wait(std::vector<Ref> sources);
  Builder& loop(int32_t iterations);
  Builder& endLoop();

  // The finished plan. The builder is spent afterwards.
  Plan build();

 private:
  void append(Step step);

  Plan plan_;
  uint16_t delay_ = 0;
  bool skipping_ = false;  // inside a loop without iterations
};

// Reduces the base of every index to [0, modulus), and drops the groups of runs that are one group.
// Part of build(); combinators need it too.
void normalise(Plan& plan);

// Sets the plan's largest chunks from what this rank sends. Part of build() and compose(). Right as
// it is when all ranks send alike; an algorithm in which they do not (a fold) must set the largest
// of all ranks afterwards, since slices are cut by it.
void declareChunks(Plan& plan);

}  // namespace omnes::plan
