// Properties 2 and 4: several slices of all ranks with the slots that links really have.
//
// How many slices prove every number of them: the ranks are run wave by wave, nobody entering wave
// w + 1 before all have ended wave w. Then the contents of all links between two waves depend only
// on which slices are on their way, and as soon as every delay is in use (from wave D = the largest
// delay on) each wave begins as the one before did, shifted by one slice. D + 2 slices contain two
// such waves and the way in and out; where scratch is used, D + copies + 1 slices also contain
// every meeting of two slices in one copy. Fewer slices only drop events and the waits for them. A
// schedule that ends is enough, since plans have no choice in them: if one schedule ends, all do.
//
// What can race: a lane executes in program order, so its own accesses are ordered; lanes share no
// link and no scratch, and slices share no input or output. That leaves scratch that a later slice
// of the lane takes over too early (checkScratchReuse), and lent chunks, which the receiver reads
// while the sender goes on. Before it writes to a lent block the executor waits until all readers
// are done, so a lent read cannot race either; but the waits can close a cycle, and they are edges
// of the graph proven here. Private to src/plan.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "plan/proof_match.h"
#include "plan/proof_program.h"

namespace omnes::plan::proof {

// Slices per lane that prove every number of them.
int32_t slicesFor(const Program& program);

base::Status checkScratchReuse(const Program& program);

// Which operation must wait for the readers of which lent chunk.
struct Lending {
  struct Wait {
    uint32_t operation = 0;
    uint32_t out = 0;
    int32_t sliceShift = 0;  // the chunk of slice s - shift
  };
  std::vector<uint8_t> isLent;  // per out
  std::vector<Wait> waits;      // sorted by operation
  bool tooMany = false;         // gave up; the set must be rejected
};
Lending findLending(const Program& program);

// One complete run with `slots` slots a link; lending null = every chunk takes a slot.
base::Status checkProgress(const Program& program, const Matching& matching, int32_t slots,
                           const Lending* lending);

}  // namespace omnes::plan::proof
