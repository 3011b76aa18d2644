#include "core/run/drive.h"

#include <sched.h>

#include <algorithm>
#include <new>
#include <vector>

#include "core/comm/waiter.h"

namespace omnes::core {
namespace {

using base::Result;
using base::Status;

// Those of the operation that minds spinning most.
base::WaitPolicy policyOf(const Batch& batch) {
  base::WaitPolicy least = batch.front()->waitPolicy;
  for (const auto& pending : batch)
    if (pending->waitPolicy.spinPolls < least.spinPolls) least = pending->waitPolicy;
  return least;
}

void sleep(const Batch& batch, const base::EventFd& wake, Waiter* waiter) {
  std::vector<pollfd> fds{{wake.fd(), POLLIN, 0}};
  for (const auto& pending : batch) pending->sequence->addPollFds(pending.get(), &fds);
  waiter->sleep(&fds);
  if (fds[0].revents != 0) wake.drain();
  const bool others =
      std::any_of(fds.begin() + 1, fds.end(), [](const pollfd& fd) { return fd.revents != 0; });
  if (!others) return;
  for (const auto& pending : batch) pending->sequence->drainWake(pending.get());
}

// After a round in which nothing moved.
void wait(const Batch& batch, const base::EventFd& wake, Waiter* waiter) {
  if (waiter->miss())
    for (const auto& pending : batch) pending->sequence->look(pending.get(), waiter->shouldSleep());
  if (waiter->shouldSleep()) sleep(batch, wake, waiter);
}

}  // namespace

bool drive(const Batch& batch, const base::EventFd& wake, const std::atomic<bool>* stop) {
  if (batch.empty()) return true;
  Waiter waiter(policyOf(batch));
  for (;;) {
    bool allDone = true, moved = false;
    for (const auto& pending : batch) {
      if (pending->isDone()) continue;
      const Progress progress = pending->sequence->advance(pending.get());
      allDone = allDone && progress == Progress::kDone;
      moved = moved || progress != Progress::kStuck;
    }
    if (allDone) return true;
    // T2: pairs with T1 in stream.cc.
    if (stop != nullptr && stop->load(std::memory_order_acquire)) return false;
    if (moved) {
      waiter.reset();
      continue;
    }
    try {
      wait(batch, wake, &waiter);
    } catch (const std::bad_alloc&) {
      // Then without sleeping, or with a look the less, until there is memory or a deadline.
      sched_yield();
    }
  }
}

Status firstFailure(const Batch& batch) {
  for (const auto& pending : batch)
    if (!pending->status().isOk()) return pending->status();
  return Status::ok();
}

Result<const base::EventFd*> wakeOfThisThread() {
  static thread_local std::optional<base::EventFd> wake;
  if (!wake) {
    OMNES_ASSIGN_OR_RETURN(wake, base::EventFd::open());
  }
  return &*wake;
}

}  // namespace omnes::core
