// One call of a collective as ranks compare it: what they must agree on, as numbers and as text.
#pragma once

#include <cstdint>
#include <string>

#include "base/board.h"
#include "core/exec/prepared.h"

namespace omnes::core {

struct Call {
  Shape shape;
  uint64_t sequence = 0;  // number of the operation in its communicator, from 1
};

// Equal on ranks whose calls agree; the chance that it is equal on ranks whose calls differ is
// 2^-64. before: of the operation before it, 0 for the first: ranks that have disagreed once do so
// from then on, also where nobody had to wait for anybody at that time.
uint64_t fingerprintOf(const Call& call, uint64_t before = 0);
base::BoardEntry boardEntryOf(const Call& call, uint64_t fingerprint);

// "AllReduce #17 of 1024 float, sum". From a peer's board the numbers may be anything.
std::string describe(const Call& call);
std::string describe(const base::BoardEntry& entry);

}  // namespace omnes::core
