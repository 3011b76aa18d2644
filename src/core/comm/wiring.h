// Wiring: from "these ranks have met" to "their transport is connected".
//
// Every rank says who and where it is, ranks of one host hand each other their memory over proven
// local connections, the transport connects, and all ranks tell each other how it went, so that a
// communicator comes up on all ranks or on none. Runs in the thread of the init call; every wait
// ends at the deadline, as soon as another rank says that it has failed, or when aborted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "core/bootstrap/meeting_point.h"
#include "core/bootstrap/rendezvous.h"
#include "core/comm/settings.h"
#include "core/exec/link_set.h"
#include "transports/transport.h"

namespace omnes::core {

struct PeerInfo {
  std::string host;          // name, for messages
  std::string hostIdentity;  // equal on ranks that may share memory
  int64_t pid = 0;           // as it calls itself, for messages
  int64_t visiblePid = 0;    // as our process namespace calls it; 0 = not visible from here
  std::vector<int> cpus;     // that it may run on
  std::string channel;       // address of its local listener
  std::string transport;     // what its transport described

  // "rank 3 (host a, process 123)"
  std::string nameAs(int32_t rank) const;
};

struct Wiring {
  std::unique_ptr<bootstrap::Rendezvous> rendezvous;
  LinkSet links;
  std::vector<PeerInfo> peers;  // by rank
};

// abortFd: readable means abort; -1 = none. Must outlive the result.
base::Result<Wiring> wire(const bootstrap::MeetingPoint& point, int32_t rank, int32_t nranks,
                          const CommSettings& settings, base::Deadline deadline, int abortFd = -1);

// Whether the ranks of this host get in each other's way on the cores that `rank` may use.
bool sharesCores(const std::vector<PeerInfo>& peers, int32_t rank, int usableCores);

}  // namespace omnes::core
