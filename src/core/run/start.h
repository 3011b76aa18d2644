// From calls to pending operations under way: one call behind others, or all calls of a group.
//
// A callback of a stream runs on the stream's thread, so that it must not wait for what stands
// behind it. A call for which a callback would wait although an operation of its communicator is
// still to come on the callback's stream is refused; where that takes more than one stream to see,
// the call fails when it has not begun within its communicator's time-out.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/run/stream.h"

namespace omnes::core {

// A call that is to be started. Its communicator must outlive enqueueTogether().
struct Start {
  Communicator* communicator = nullptr;
  std::shared_ptr<Pending> pending;
  std::shared_ptr<Stream> stream;  // null: the caller waits
};

// Gives all of them their places at one instant: in the sequences of their communicators, and one
// batch a stream. Returns what the calling thread has to drive. Nothing is started on failure:
// kInvalidUsage in a callback, as above; kSystemError.
base::Result<Batch> enqueueTogether(std::vector<Start> starts);

// Drives what enqueueTogether() returned to its end; the first failure.
base::Status finishTogether(const Batch& batch);

// kInvalidUsage when the calling thread is a stream's, and an operation of the communicator stands
// in that stream: to wait for it would never end.
base::Status mayWaitFor(const Sequence& sequence);

}  // namespace omnes::core
