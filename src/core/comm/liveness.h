// Watches the other ranks of a communicator through the service thread, and spreads first causes.
//
// Three sources: the control connection (another rank's first cause, its goodbye, or the news that
// it is gone), and a pidfd per peer process, which fires at once when it dies, even while a forked
// child keeps its sockets open. A peer that ended in order (goodbye) is no failure until somebody
// waits for it.
//
// It also keeps what ranks say they are doing (peer_boards.h), and breaks the communicator when one
// of them has called something else than this rank, even while this rank is in no call.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/event.h"
#include "base/fd.h"
#include "core/bootstrap/rendezvous.h"
#include "core/comm/failure.h"
#include "core/comm/flight_record.h"
#include "core/comm/peer_boards.h"
#include "core/comm/peer_info.h"
#include "core/comm/roster.h"
#include "core/exec/link_set.h"
#include "core/service/service.h"

namespace omnes::core {

class Liveness {
 public:
  // All must outlive it.
  struct Parts {
    bootstrap::Rendezvous* rendezvous = nullptr;
    Failure* failure = nullptr;
    base::EventFd* wake = nullptr;
    const std::vector<PeerInfo>* peers = nullptr;
    const LinkSet* links = nullptr;
    base::Board* board = nullptr;  // the own one
    const FlightRecord* record = nullptr;
    Roster* roster = nullptr;
  };
  static base::Result<std::unique_ptr<Liveness>> start(const Parts& parts);
  ~Liveness();

  // Any thread. Whether the rank has said goodbye.
  bool hasLeft(int32_t rank) const { return roster_->hasLeft(rank); }
  // After an operation that may end on this rank before others have begun it: soon the service
  // thread compares what ranks have entered. The thread that drives.
  void compareLater() {
    // M1: pairs with M2: what was entered until now is seen by the comparison that comes.
    if (!willCompare_.exchange(true, std::memory_order_acq_rel)) [[unlikely]]
      startComparing();
  }
  // What the other ranks are doing.
  const PeerBoards& boards() const { return boards_; }
  // Keeps the cause if it is the first, and then tells all other ranks. Any thread.
  void fail(const base::Status& cause);

 private:
  explicit Liveness(const Parts& parts);
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
  void startComparing();
  void compareCalls();
  void failFor(const base::Status& mismatch);
  void onEntered(int32_t rank, std::string_view payload);
  void set(const base::Status& cause);
  // Notes it on the roster.
  base::Status deathOf(int32_t rank) const;

  bootstrap::Rendezvous* rendezvous_;
  Failure* failure_;
  base::EventFd* wake_;
  const std::vector<PeerInfo>* peers_;
  base::Board* board_;
  Roster* roster_;
  PeerBoards boards_;
  std::atomic<bool> willCompare_{false};
  std::shared_ptr<Service> service_;
  // Guards what follows. Taken by handlers (which run under the service's lock), so never held
  // while removing a watch from outside.
  std::mutex mutex_;
  bool isEnding_ = false;
  std::vector<Process> processes_;
  uint64_t controlWatch_ = 0;
  uint64_t compareTimer_ = 0;
};

}  // namespace omnes::core
