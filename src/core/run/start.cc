#include "core/run/start.h"

#include <algorithm>
#include <map>
#include <new>

namespace omnes::core {
namespace {

using base::Code;
using base::Deadline;
using base::Result;
using base::Status;

Status waitsForItself() {
  return Status(Code::kInvalidUsage,
                "a callback of a stream would wait for an operation that stands behind it in the "
                "same stream");
}

// A callback may only wait for what does not wait for it.
Status checkInCallback(const std::vector<Start>& starts) {
  const Stream* own = Stream::current();
  if (own == nullptr) return Status::ok();
  for (const Start& start : starts) {
    if (start.stream != nullptr) continue;
    OMNES_RETURN_IF_ERROR(mayWaitFor(*start.pending->sequence));
    for (const Start& other : starts)
      if (other.stream.get() == own && other.communicator == start.communicator)
        return waitsForItself();
    start.pending->turn =
        Deadline::afterMs(base::Clock::monotonic(), start.communicator->timeoutMs());
  }
  return Status::ok();
}

}  // namespace

Status mayWaitFor(const Sequence& sequence) {
  const Stream* own = Stream::current();
  return own != nullptr && sequence.hasOn(own) ? waitsForItself() : Status::ok();
}

Result<Batch> enqueueTogether(std::vector<Start> starts) {
  OMNES_RETURN_IF_ERROR(checkInCallback(starts));
  OMNES_ASSIGN_OR_RETURN(const base::EventFd* ownWake, wakeOfThisThread());
  // By address: all threads lock streams in the same order.
  std::map<Stream*, std::shared_ptr<Batch>> batches;
  Batch inlined;
  for (const Start& start : starts) {
    start.pending->stream = start.stream.get();
    start.pending->wake = start.stream ? &start.stream->wake() : ownWake;
    if (start.stream == nullptr) {
      inlined.push_back(start.pending);
      continue;
    }
    std::shared_ptr<Batch>& batch = batches[start.stream.get()];
    if (batch == nullptr) batch = std::make_shared<Batch>();
    batch->push_back(start.pending);
  }
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& [stream, batch] : batches) {
    locks.push_back(stream->lock());
    OMNES_RETURN_IF_ERROR(stream->checkLocked());
  }
  try {
    for (const Start& start : starts) start.communicator->enqueue(start.pending);
    for (const auto& [stream, batch] : batches) stream->addLocked(batch);
  } catch (const std::bad_alloc&) {
    const Status cause(Code::kSystemError, "out of memory while operations were started");
    for (const Start& start : starts) {
      start.communicator->fail(cause);
      start.communicator->close(cause);
    }
    return cause;
  }
  return inlined;
}

Status finishTogether(const Batch& batch) {
  OMNES_ASSIGN_OR_RETURN(const base::EventFd* wake, wakeOfThisThread());
  drive(batch, *wake, nullptr);
  return firstFailure(batch);
}

}  // namespace omnes::core
