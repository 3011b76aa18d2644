#include "core/comm/roster.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;

// Between looks at abort while others have their turn.
constexpr auto kNap = std::chrono::milliseconds(5);

}  // namespace

Roster::Roster(Parts parts, base::EventFd ended)
    : parts_(std::move(parts)),
      dead_(parts_.addresses.size()),
      left_(parts_.addresses.size()),
      ended_(std::move(ended)) {}

Result<std::shared_ptr<Roster>> Roster::make(Parts parts) {
  OMNES_ASSIGN_OR_RETURN(base::EventFd ended, base::EventFd::open());
  return std::shared_ptr<Roster>(new Roster(std::move(parts), std::move(ended)));  // private
}

Status Roster::awaitTurn(uint64_t ticket, const bootstrap::WaitLimits& limits) {
  const std::string what = "waiting for an earlier split, shrink or grow of the communicator";
  std::unique_lock<std::mutex> lock(mutex_);
  while (turn_ != ticket) {
    if (bootstrap::isAborted(limits)) return bootstrap::abortedStatus(what);
    if (limits.deadline.hasPassed(*limits.clock))
      return Status(Code::kTimeout, "timed out while " + what);
    turned_.wait_for(lock, kNap);
  }
  return Status::ok();
}

void Roster::endTurn(uint64_t ticket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  givenUp_.push_back(ticket);
  while (std::erase(givenUp_, turn_) > 0) ++turn_;
  turned_.notify_all();
}

}  // namespace omnes::core
