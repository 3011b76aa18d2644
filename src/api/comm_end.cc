// Ending communicators: finalize, destroy, abort.
#include <poll.h>

#include "api/boundary.h"
#include "api/group.h"
#include "api/handle_store.h"
#include "api/joining.h"
#include "base/thread_fence.h"
#include "core/run/start.h"

namespace {

using omnes::api::Entry;
using omnes::api::Group;
using omnes::api::guard;
using omnes::api::Joining;
using omnes::base::Clock;
using omnes::base::Code;
using omnes::base::Status;
using omnes::core::Communicator;
using Store = omnes::api::HandleStore<omnesComm>;

// An aborting thread waits this long for a call of another thread to come out.
constexpr auto kAbortLimit = std::chrono::seconds(1);

Status checkLive(omnesComm_t comm) {
  if (!Store::instance().isLive(comm))
    return Status(Code::kInvalidArgument,
                  "comm is not a live communicator; was it aborted or destroyed before?");
  if (comm->forkGeneration != omnes::base::forkGeneration())
    return Status(Code::kInvalidUsage, "comm was made before a fork: only the parent may use it");
  return Status::ok();
}

uint64_t magicOf(omnesComm_t comm) {
  // H2: pairs with H1 in joining.cc.
  return comm->magic.load(std::memory_order_acquire);
}

// Waits until no thread is inside a call, which the failure has woken.
bool waitUntilIdle(omnesComm_t comm) {
  omnes::base::fenceAllThreads();
  const auto end = Clock::monotonic().now() + kAbortLimit;
  // I2: pairs with I1.
  while (comm->inside.load(std::memory_order_acquire)) {
    if (Clock::monotonic().now() >= end) return false;
    if (comm->communicator != nullptr) comm->communicator->wake();
    poll(nullptr, 0, 1);
  }
  return true;
}

// After forget(), with nobody inside: the handle's memory may be used again.
void bury(omnesComm_t comm) {
  std::unique_ptr<Communicator> communicator;
  std::shared_ptr<Joining> joining;
  {
    const std::lock_guard<std::mutex> lock(comm->mutex);
    comm->magic.store(0, std::memory_order_release);  // H1: pairs with H2
    communicator = std::move(comm->communicator);
    joining = std::move(comm->joining);
  }
  communicator.reset();
  Store::instance().retire(comm);
}

Status finalize(omnesComm_t comm) {
  const Entry entry(comm);
  if (!entry.isIn()) [[unlikely]]
    return omnes::api::whyNotIn(comm);
  if (comm->isFinalized) return Status(Code::kInvalidArgument, "comm was finalized before");
  OMNES_RETURN_IF_ERROR(omnes::core::mayWaitFor(comm->communicator->sequence()));
  comm->isFinalized = true;
  comm->communicator->sequence().waitUntilEmpty();
  return comm->communicator->failure().status();
}

// The handle has been forgotten by us.
Status abortForgotten(omnesComm_t comm) {
  std::shared_ptr<Joining> joining;
  {
    const std::lock_guard<std::mutex> lock(comm->mutex);
    joining = comm->joining;
  }
  const Status stuck(Code::kInternalError,
                     "a call did not come out of the aborted communicator within a second");
  // What does not come out must not find its communicator gone: better to leak it.
  if (joining != nullptr && !joining->end(kAbortLimit)) return stuck;
  const bool wasLive = magicOf(comm) == omnesComm::kLive;
  comm->magic.store(0, std::memory_order_release);  // H1: pairs with H2
  if (wasLive) comm->communicator->abort();
  if (!waitUntilIdle(comm)) return stuck;
  bury(comm);
  return Status::ok();
}

Status alreadyEnded() {
  return Status(Code::kInvalidArgument,
                "comm is not a live communicator; was it aborted or destroyed before?");
}

Status abort(omnesComm_t comm) {
  OMNES_RETURN_IF_ERROR(checkLive(comm));
  if (!Store::instance().forget(comm)) return alreadyEnded();
  Group::dropFromThis(comm);
  return abortForgotten(comm);
}

Status destroy(omnesComm_t comm) {
  OMNES_RETURN_IF_ERROR(checkLive(comm));
  if (magicOf(comm) != omnesComm::kLive) return abort(comm);
  const Status busy(Code::kInvalidUsage,
                    "a call of another thread is under way; end it with omnesCommAbort");
  // I2: pairs with I1.
  if (comm->inside.load(std::memory_order_acquire)) return busy;
  {
    const Entry entry(comm);
    if (!entry.isIn()) [[unlikely]]
      return omnes::api::whyNotIn(comm);
    omnes::core::Sequence& sequence = comm->communicator->sequence();
    if (sequence.hasOn(nullptr)) return busy;
    OMNES_RETURN_IF_ERROR(omnes::core::mayWaitFor(sequence));
    sequence.waitUntilEmpty();
    // An abort may have come while we waited.
    if (!Store::instance().forget(comm)) return alreadyEnded();
    comm->magic.store(0, std::memory_order_release);  // H1: pairs with H2
  }
  Group::dropFromThis(comm);
  if (!waitUntilIdle(comm)) return busy;
  bury(comm);
  return Status::ok();
}

}  // namespace

omnesResult_t omnesCommFinalize(omnesComm_t comm) {
  return guard([&] { return comm == nullptr ? Status::ok() : finalize(comm); });
}

omnesResult_t omnesCommDestroy(omnesComm_t comm) {
  return guard([&] { return comm == nullptr ? Status::ok() : destroy(comm); });
}

omnesResult_t omnesCommAbort(omnesComm_t comm) {
  return guard([&] { return comm == nullptr ? Status::ok() : abort(comm); });
}
