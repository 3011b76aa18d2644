// Where the blocks of a case lie in a rank's buffers: what it sends, and what it must get. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "matrix/case.h"
#include "matrix/values.h"

namespace omnes::tests::matrix {

struct Block {
  uint64_t at = 0;  // in elements from the start of the buffer
  uint64_t elements = 0;
  Bytes period;
};

struct Side {
  uint64_t elements = 0;  // of the buffer; gaps belong to it
  std::vector<Block> blocks;
};

struct Layout {
  Side send;
  Side receive;
  // In place: where each side begins in the one buffer, in elements.
  uint64_t sendAt = 0;
  uint64_t receiveAt = 0;
};

// Lengths and displacements of a V collective's blocks, by rank: gaps of a few elements, some
// empty.
struct Spread {
  std::vector<size_t> counts;
  std::vector<size_t> displacements;
  uint64_t elements = 0;  // of the buffer that holds them
};
// The blocks of the collective (of a reduce-scatter: without gaps).
Spread spreadOf(const Case& c);
// All-to-all: the blocks that `rank` sends, or receives.
Spread spreadOfSent(const Case& c, int32_t rank);
Spread spreadOfReceived(const Case& c, int32_t rank);

Layout layoutOf(const Case& c, int32_t rank);

}  // namespace omnes::tests::matrix
