// Wiring: from "these ranks have met" to "their transports are connected".
//
// Every rank says who and where it is; from that all ranks know who shares memory and who needs the
// network (placement.h). Ranks of one host hand each other their memory over proven local
// connections, the others connect proven sockets, the transports connect, and all ranks tell each
// other how it went, so that a communicator comes up on all ranks or on none. Runs in the thread of
// the init call; every wait ends at the deadline, as soon as another rank says that it has
// failed, or when aborted.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "core/bootstrap/meeting_point.h"
#include "core/bootstrap/rendezvous.h"
#include "core/comm/peer_info.h"
#include "core/comm/settings.h"
#include "core/exec/link_set.h"

namespace omnes::core {

struct Wiring {
  std::unique_ptr<bootstrap::Rendezvous> rendezvous;
  LinkSet links;
  std::vector<PeerInfo> peers;  // by rank
  // Sockets on which the ranks listen for as long as the communicator lives, and the own one.
  std::vector<std::string> addresses;
  base::UniqueFd listener;
};

// abortFd: readable means abort; -1 = none. Must outlive the result. mayHaveFormed (may be null) is
// set once this rank has said that it is ready: from then on a failure here may be none elsewhere.
base::Result<Wiring> wire(const bootstrap::MeetingPoint& point, int32_t rank, int32_t nranks,
                          const CommSettings& settings, base::Deadline deadline, int abortFd = -1,
                          bool* mayHaveFormed = nullptr);

}  // namespace omnes::core
