// Carries a batch of pending operations on, side by side, from one thread: a stream's own thread,
// one that helps it, or the caller of a group.
//
// Round robin over the operations, so that the ranks of one thread progress together. Waits as
// operations do (waiter.h). Thread-safe; one driver at a time for one operation.
#pragma once

#include <atomic>

#include "base/event.h"
#include "base/status.h"
#include "core/comm/sequence.h"

namespace omnes::core {

// Returns true when all operations are done; false when `stop` (may be null) became true before,
// between two steps. `wake` is the one that the operations name.
bool drive(const Batch& batch, const base::EventFd& wake, const std::atomic<bool>* stop);

// In the order of the calls.
base::Status firstFailure(const Batch& batch);

// What wakes the calling thread when it drives operations that it waits for; valid until the thread
// ends. kSystemError: no descriptor.
base::Result<const base::EventFd*> wakeOfThisThread();

}  // namespace omnes::core
