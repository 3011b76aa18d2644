#include "core/comm/liveness.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/pidfd.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Status;
using bootstrap::ControlEvent;

// A process that says goodbye and ends at once may be seen to end before its goodbye has come
// around.
constexpr auto kGoodbyeGrace = std::chrono::milliseconds(100);
constexpr int64_t kSpreadMs = 250;
// Ranks that had only to give know within a second that others called something else.
constexpr auto kCompareDelay = std::chrono::milliseconds(300);

}  // namespace

base::Result<std::unique_ptr<Liveness>> Liveness::start(const Parts& parts) {
  std::unique_ptr<Liveness> made(new Liveness(parts));  // private constructor
  OMNES_ASSIGN_OR_RETURN(made->service_, Service::get());
  const std::lock_guard<std::mutex> lock(made->mutex_);
  OMNES_RETURN_IF_ERROR(made->watchProcesses());
  OMNES_ASSIGN_OR_RETURN(made->controlWatch_,
                         made->service_->watch(parts.rendezvous->controlFd(),
                                               [raw = made.get()] { raw->onControl(); }));
  return made;
}

Liveness::Liveness(const Parts& parts)
    : rendezvous_(parts.rendezvous),
      failure_(parts.failure),
      wake_(parts.wake),
      peers_(parts.peers),
      board_(parts.board),
      roster_(parts.roster),
      boards_({.rank = static_cast<int32_t>(parts.rendezvous->rank()),
               .links = parts.links,
               .rendezvous = parts.rendezvous,
               .own = parts.board,
               .record = parts.record,
               .peers = parts.peers}) {}

Liveness::~Liveness() {
  if (!service_) return;
  std::vector<uint64_t> ids;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    isEnding_ = true;
    ids.insert(ids.end(), {controlWatch_, compareTimer_});
    for (const Process& process : processes_) ids.insert(ids.end(), {process.watch, process.timer});
  }
  for (const uint64_t id : ids) service_->remove(id);
}

Status Liveness::watchProcesses() {
  std::vector<int64_t> pids;
  for (const PeerInfo& peer : *peers_)
    if (peer.visiblePid != 0 && peer.visiblePid != getpid()) pids.push_back(peer.visiblePid);
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  for (const int64_t pid : pids) {
    auto pidfd = base::openPidfd(static_cast<pid_t>(pid));
    const bool isGone = !pidfd.isOk() && pidfd.status().code() == Code::kRemoteError;
    if (!pidfd.isOk() && !isGone) {
      OMNES_LOG_INFO(Init, "process %lld is watched by its control connection only: %s",
                     static_cast<long long>(pid), std::string(pidfd.status().message()).c_str());
      continue;
    }
    // Gone already, perhaps in order: judged like one that ends later.
    processes_.push_back({pid, isGone ? base::UniqueFd() : std::move(pidfd).value()});
  }
  for (Process& process : processes_) {
    if (!process.pidfd.isOpen()) {
      judgeLater(&process);
      continue;
    }
    OMNES_ASSIGN_OR_RETURN(
        process.watch,
        service_->watch(process.pidfd.get(), [this, pid = process.pid] { onProcessEnd(pid); }));
  }
  return Status::ok();
}

Status Liveness::deathOf(int32_t rank) const {
  roster_->noteDead(rank);
  return Status(
      Code::kRemoteError,
      (*peers_)[rank].nameAs(rank) +
          " died or dropped its connection; abort and make a new communicator without it");
}

void Liveness::set(const Status& cause) {
  if (failure_->set(cause))
    OMNES_LOG_WARN(Coll, "%.*s", static_cast<int>(cause.message().size()), cause.message().data());
  wake_->signal();
}

void Liveness::fail(const Status& cause) {
  if (!failure_->set(cause)) return;
  OMNES_LOG_WARN(Coll, "%.*s", static_cast<int>(cause.message().size()), cause.message().data());
  wake_->signal();
  const auto deadline = base::Deadline::afterMs(base::Clock::monotonic(), kSpreadMs);
  const Status sent = rendezvous_->sendControl(rendezvous_->rank(), cause, deadline);
  if (!sent.isOk())
    OMNES_LOG_INFO(Coll, "the other ranks could not be told: %.*s",
                   static_cast<int>(sent.message().size()), sent.message().data());
}

void Liveness::onControl() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!isEnding_) takeEvents();
}

void Liveness::takeEvents() {
  while (auto event = rendezvous_->receiveControl()) {
    switch (event->kind) {
      case ControlEvent::Kind::kError: set(event->status); break;
      case ControlEvent::Kind::kGone: set(deathOf(static_cast<int32_t>(event->rank))); break;
      case ControlEvent::Kind::kLeft:
        roster_->noteLeft(static_cast<int32_t>(event->rank));
        wake_->signal();
        break;
      case ControlEvent::Kind::kEntered:
        onEntered(static_cast<int32_t>(event->rank), event->payload);
        break;
      case ControlEvent::Kind::kHostEnded: break;
    }
  }
  if (rendezvous_->isEnded()) {
    service_->remove(controlWatch_);
    controlWatch_ = 0;
  }
}

void Liveness::onEntered(int32_t rank, std::string_view payload) {
  failFor(boards_.take(rank, payload));
}

void Liveness::failFor(const Status& mismatch) {
  if (mismatch.isOk() || failure_->isSet()) return;
  board_->fail(static_cast<uint32_t>(mismatch.code()));
  fail(mismatch);
}

void Liveness::startComparing() {
  const std::lock_guard<std::mutex> lock(mutex_);
  compareTimer_ = service_->callAfter(kCompareDelay, [this] { compareCalls(); });
}

void Liveness::compareCalls() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (isEnding_) return;
  // M2: pairs with M1.
  willCompare_.exchange(false, std::memory_order_acq_rel);
  failFor(boards_.compare());
}

void Liveness::onProcessEnd(int64_t pid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (isEnding_) return;
  for (Process& process : processes_) {
    if (process.pid != pid) continue;
    service_->remove(process.watch);
    process.watch = 0;
    judgeLater(&process);
  }
}

void Liveness::judgeLater(Process* process) {
  process->timer = service_->callAfter(kGoodbyeGrace, [this, pid = process->pid] {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (isEnding_) return;
    takeEvents();
    Status first;
    for (size_t rank = 0; rank < peers_->size(); ++rank) {
      if ((*peers_)[rank].visiblePid != pid || hasLeft(static_cast<int32_t>(rank))) continue;
      const Status death = deathOf(static_cast<int32_t>(rank));
      if (first.isOk()) first = death;
    }
    // Ranks of other hosts see no process end, and a forked child may keep its sockets open.
    if (!first.isOk()) fail(first);
  });
}

}  // namespace omnes::core
