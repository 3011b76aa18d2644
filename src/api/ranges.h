// Where the blocks of a V collective lie in one buffer, and which of them get in each other's way.
//
// Used by one thread. A list that is used again allocates nothing unless it grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace omnes::api {

// What a caller says of one buffer with a block a rank, in elements. Borrows everything.
struct Blocks {
  const char* buffer;  // names of the arguments, for messages
  const char* countsName;
  const char* displacementsName;
  const void* data;
  const size_t* counts;
  const size_t* displacements;  // null: one behind another
  int nranks;
  size_t width;  // bytes of an element

  // Precondition: check() was fine.
  uint8_t* at(int rank) const;
};

// NULL pointers, and sizes beyond 2^63 bytes.
base::Status check(const Blocks& blocks);

class Ranges {
 public:
  // The blocks that are not empty. kInvalidArgument when two of them overlap.
  base::Status take(const Blocks& blocks);
  bool overlap(const void* data, uint64_t bytes) const;

 private:
  struct Range {
    uintptr_t begin, end;
    int rank;
  };
  std::vector<Range> ranges_;  // ascending
};

}  // namespace omnes::api
