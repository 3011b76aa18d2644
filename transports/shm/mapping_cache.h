// One mapping per segment and process: ranks that are threads of one process look at a segment at
// the same address.
//
// That keeps page tables and TLBs small, and it lets ThreadSanitizer see that two ranks touch the
// same memory. Thread-safe.
#pragma once

#include <memory>

#include "base/memfd.h"
#include "base/status.h"

namespace omnes::transports::shm {

// Maps the segment behind fd (borrowed), or shares the mapping that this process already has.
// Unmapped with the last owner.
base::Result<std::shared_ptr<base::Mapping>> mapOnce(int fd, size_t bytes);

}  // namespace omnes::transports::shm
