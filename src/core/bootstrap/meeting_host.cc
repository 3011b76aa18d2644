#include "core/bootstrap/meeting_host.h"

#include <errno.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "core/bootstrap/acceptor.h"
#include "core/bootstrap/detached_thread.h"
#include "core/bootstrap/meeting_loop.h"

namespace omnes::core::bootstrap {
namespace {

using base::Result;
using base::Status;

std::atomic<int> runningHosts{0};
// How long a start waits for a lingering host of this process to let go of the address.
constexpr auto kHandOverStep = std::chrono::milliseconds(1);
constexpr int kHandOverSteps = 500;

// The hosts of this process. Never destroyed: hosts may outlive main().
struct HostTable {
  std::mutex mutex;
  // Failed meetings that still tell late comers why, by address. A new meeting at the same address,
  // such as a second attempt after a failed one, takes it over.
  std::vector<std::pair<std::string, std::weak_ptr<MeetingLoop>>> lingering;  // guarded by mutex
  // All, by the id of their communicator.
  std::vector<std::pair<uint64_t, std::weak_ptr<MeetingLoop>>> running;  // guarded by mutex
  static HostTable& instance() {
    static constinit base::PerProcess<HostTable> table;
    return table.get();
  }
};

// Adds an entry, and lets go of those whose host is gone.
template <typename Entries, typename Key>
void addTo(Entries& entries, const Key& key, std::weak_ptr<MeetingLoop> loop) {
  std::erase_if(entries, [](const auto& entry) { return entry.second.expired(); });
  entries.emplace_back(key, std::move(loop));
}

template <typename Entries, typename Key>
std::shared_ptr<MeetingLoop> firstOf(const Entries& entries, const Key& key) {
  for (const auto& [theirs, loop] : entries)
    if (std::shared_ptr<MeetingLoop> alive = theirs == key ? loop.lock() : nullptr) return alive;
  return nullptr;
}

void noteLingering(const std::string& address, std::weak_ptr<MeetingLoop> loop) {
  HostTable& table = HostTable::instance();
  const std::lock_guard<std::mutex> lock(table.mutex);
  addTo(table.lingering, address, std::move(loop));
}

void noteRunning(uint64_t commId, std::weak_ptr<MeetingLoop> loop) {
  HostTable& table = HostTable::instance();
  const std::lock_guard<std::mutex> lock(table.mutex);
  addTo(table.running, commId, std::move(loop));
}

// Ends the hosts of this process that only linger at `address`. Whether there was one.
bool endLingering(const std::string& address) {
  HostTable& table = HostTable::instance();
  const std::lock_guard<std::mutex> lock(table.mutex);
  bool found = false;
  for (const auto& [theirs, loop] : table.lingering) {
    const std::shared_ptr<MeetingLoop> alive = theirs == address ? loop.lock() : nullptr;
    if (alive == nullptr) continue;
    alive->requestStop();
    found = true;
  }
  return found;
}

// The host of this process that lingers at `address` after a failure; null when there is none.
std::shared_ptr<MeetingLoop> findLingering(const std::string& address) {
  HostTable& table = HostTable::instance();
  const std::lock_guard<std::mutex> lock(table.mutex);
  return firstOf(table.lingering, address);
}

std::shared_ptr<MeetingLoop> findRunning(uint64_t commId) {
  HostTable& table = HostTable::instance();
  const std::lock_guard<std::mutex> lock(table.mutex);
  return firstOf(table.running, commId);
}

}  // namespace

Result<std::shared_ptr<MeetingHost>> MeetingHost::start(MeetingHostOptions options,
                                                        const base::Clock& clock) {
  AcceptorOptions accept;
  accept.address = options.address;
  accept.listen = options.listen;
  accept.secret = options.secret;
  accept.expected = {.commId = options.commId, .to = kNoRank, .kind = LinkKind::kMeeting};
  accept.refusesDuplicates = false;  // the meeting has more to say about them
  accept.maxUnproven = options.maxUnproven;
  accept.proofTime = options.proofTime;
  accept.wireVersion = options.wireVersion;
  int savedErrno = 0;
  Result<std::unique_ptr<Acceptor>> acceptor =
      options.listener.isOpen() ? Acceptor::adopt(std::move(options.listener), accept, clock)
                                : Acceptor::listen(accept, clock, &savedErrno);
  for (int i = 0; savedErrno == EADDRINUSE && i < kHandOverSteps && endLingering(options.address);
       ++i) {
    std::this_thread::sleep_for(kHandOverStep);
    savedErrno = 0;
    acceptor = Acceptor::listen(accept, clock, &savedErrno);
  }
  if (!acceptor.isOk()) return acceptor.status();
  std::shared_ptr<MeetingHost> host(new MeetingHost());  // NOLINT: private constructor
  host->address_ = acceptor.value()->address();
  OMNES_ASSIGN_OR_RETURN(
      host->loop_, MeetingLoop::make({options.keepsListening, options.linger, noteLingering}, clock,
                                     std::move(acceptor).value()));
  noteRunning(options.commId, host->loop_);
  // Relaxed (all): a count that tests and diagnostics look at; it orders nothing.
  runningHosts.fetch_add(1, std::memory_order_relaxed);
  const Status started = startDetachedThread("omnes-meeting", [loop = host->loop_] {
    loop->run();
    runningHosts.fetch_sub(1, std::memory_order_relaxed);
  });
  if (started.isOk()) return host;
  runningHosts.fetch_sub(1, std::memory_order_relaxed);
  return started;
}

void MeetingHost::awaitFailureTold(const std::string& address, base::Duration limit, bool andLate) {
  if (const std::shared_ptr<MeetingLoop> loop = findLingering(address))
    loop->awaitTold(limit, andLate);
}

void MeetingHost::awaitSettled(uint64_t commId, base::Duration limit) {
  if (const std::shared_ptr<MeetingLoop> loop = findRunning(commId)) loop->awaitSettled(limit);
}

void MeetingHost::awaitTold(base::Duration limit) const { loop_->awaitTold(limit, false); }

void MeetingHost::giveUp(const Status& cause) const { loop_->requestGivingUp(cause); }

void MeetingHost::stop() const { loop_->requestStop(); }

int MeetingHost::running() { return runningHosts.load(std::memory_order_relaxed); }

}  // namespace omnes::core::bootstrap
