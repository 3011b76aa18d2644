// Writes plans block by block where runs of blocks are not given beforehand, and embeds the plan of
// a few ranks in the plan of many.
//
// A chunk is a list of blocks. Both its ends cut it where its extents (or the places in scratch
// that both know) stop being evenly spaced, so that each piece is one run in every operand of both
// ends: that is how a list becomes steps. All links are unicast, since those for multicast reach
// all others. Private to src/plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace omnes::plan {

// What the chunks of a plan of one lane travel on: contributions and sums on the way to their
// owners, results on the way back. Two streams, so that a pair of ranks that sends both has slots
// for both.
inline constexpr uint8_t kStreamForth = streamOf(kStreamScatter, 0);
inline constexpr uint8_t kStreamBack = streamOf(kStreamScatter, 1);

// A stretch of a list.
struct Stretch {
  size_t begin = 0;
  size_t count = 0;
};
// The fewest stretches of evenly spaced numbers, greedily from the front; none longer than `most`.
std::vector<Stretch> stretchesOf(std::span<const int32_t> numbers, size_t most = SIZE_MAX);

// The run of evenly spaced indices; negative strides are fine.
Run runOf(std::span<const int32_t> indices);

// Blocks of one space, by their indices there.
Ref slice(Space space, std::span<const int32_t> indices, Mark mark);
// As sources: one operand per peer, in this order. As sinks: an OUT to each.
void addLinks(std::vector<Ref>* refs, uint8_t stream, std::span<const int32_t> peers, Mark mark);

// Where the plan of a few ranks ("part") lies in the plan of all ("whole").
struct Embedding {
  std::span<const int32_t> ranks;             // of the whole, by rank of the part
  std::vector<std::vector<int32_t>> extents;  // of the whole, by extent of the part; may be none
  // The part's input and output. An untouched contribution of the part is, in the whole, a sum
  // under way when it lies in scratch.
  Space input = Space::kInput;
  int32_t inputCopy = 0;  // copy c of scratch: blocks c * whole.blocks and up
  Mark untouched = Mark::kInput;
  int32_t scratchCopy = 0;  // the first of those for the part's scratch
  bool oneDelay = false;    // delay 0 for all steps: fewer slots, nothing side by side
};

// Appends the first lane of `part` to the last lane of `whole`. Steps whose blocks have no extents
// in the whole are left out, at both ends. The part must not keep untouched contributions of others
// in scratch. Returns the largest delay.
uint16_t embed(const Plan& part, const Embedding& embedding, Plan* whole);

// Copies of scratch that a lane needs when its steps have these delays.
int32_t scratchCopiesFor(const Lane& lane);

}  // namespace omnes::plan
