// Watches the other ranks of a communicator through the service thread, and spreads first causes.
//
// Three sources: the control connection (another rank's first cause, its goodbye, or the news that
// it is gone), and a pidfd per peer process, which fires at once when it dies, even while a forked
// child keeps its sockets open. A peer that ended in order (goodbye) is no failure until somebody
// waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/event.h"
#include "base/fd.h"
#include "core/bootstrap/rendezvous.h"
#include "core/comm/failure.h"
#include "core/comm/wiring.h"
#include "core/service/service.h"

namespace omnes::core {

class Liveness {
 public:
  // rendezvous, failure, wake and peers must outlive it.
  static base::Result<std::unique_ptr<Liveness>> start(bootstrap::Rendezvous* rendezvous,
                                                       Failure* failure, base::EventFd* wake,
                                                       const std::vector<PeerInfo>* peers);
  ~Liveness();

  // Any thread. Whether the rank has said goodbye.
  bool hasLeft(int32_t rank) const {
    // L2: pairs with L1.
    return left_[rank].load(std::memory_order_acquire);
  }
  // Keeps the cause if it is the first, and then tells all other ranks. Any thread.
  void fail(const base::Status& cause);

 private:
  Liveness(bootstrap::Rendezvous* rendezvous, Failure* failure, base::EventFd* wake,
           const std::vector<PeerInfo>* peers);
  struct Process {
    int64_t pid;
    base::UniqueFd pidfd;
    uint64_t watch = 0;
    uint64_t timer = 0;
  };
  base::Status watchProcesses();
  // Blames the ranks of an ended process unless they have said goodbye by then.
  void judgeLater(Process* process);
  void onControl();
  void takeEvents();
  void onProcessEnd(int64_t pid);
  void set(const base::Status& cause);
  base::Status deathOf(int32_t rank) const;

  bootstrap::Rendezvous* rendezvous_;
  Failure* failure_;
  base::EventFd* wake_;
  const std::vector<PeerInfo>* peers_;
  std::vector<std::atomic<bool>> left_;
  std::shared_ptr<Service> service_;
  // Guards what follows. Taken by handlers (which run under the service's lock), so never held
  // while removing a watch from outside.
  std::mutex mutex_;
  bool isEnding_ = false;
  std::vector<Process> processes_;
  uint64_t controlWatch_ = 0;
};

}  // namespace omnes::core
