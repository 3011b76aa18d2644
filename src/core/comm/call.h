// One call of a collective as ranks compare it: what they must agree on, as numbers and as text.
#pragma once

#include <cstdint>
#include <string>

#include "base/board.h"
#include "core/exec/prepared.h"

namespace omnes::core {

struct Call {
  Shape shape;
  // Number of the operation in its communicator, from 1. Sends and receives are no operations of
  // all ranks, and have the number of the one before them.
  uint64_t sequence = 0;
  // Of what ranks must agree on beside the shape: the counts of all ranks.
  uint64_t counts = 0;
};

// Equal on ranks whose calls agree; the chance that it is equal on ranks whose calls differ is
// 2^-64. before: of the operation before it, 0 for the first: ranks that have disagreed once do so
// from then on, also where nobody had to wait for anybody at that time.
uint64_t fingerprintOf(const Call& call, uint64_t before = 0);
base::BoardEntry boardEntryOf(const Call& call, uint64_t fingerprint);

// Whether the call is a collective's that ranks carry out as messages, with counts that are only
// known in pairs.
bool comparesPairs(plan::Collective collective);

// "AllReduce #17 of 1024 float, sum". From a peer's board the numbers may be anything.
std::string describe(const Call& call);
std::string describe(const base::BoardEntry& entry);

}  // namespace omnes::core
