// A fence that the rare side pays for: makes a plain store and a plain load of other threads, in
// that order, as good as ordered by a full fence. Thread-safe.
#pragma once

namespace omnes::base {

// Makes the stores of all other threads of this process visible to the caller, and the caller's to
// them, as if each had executed a full fence. So of two sides, one that stores A and then loads B,
// and one that stores B, calls this and then loads A, at least one sees the other's store.
void fenceAllThreads();

}  // namespace omnes::base
