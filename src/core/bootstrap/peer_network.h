// Proven TCP connections between two ranks: the plumbing of every transport that works over
// sockets.
//
// A rank that has peers on other hosts opens one listener; its address travels in the rank's blob.
// connect() and accept() then give, for each peer, as many connections as the transport wants, each
// of them proven (kind kTcp + its index). Of two ranks the higher one connects, so that nobody
// waits in a circle. A live (from, to, kind) is refused.
//
// Every wait ends at its deadline or on abort. One thread at a time per object.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "core/bootstrap/local_channel.h"

namespace omnes::core::bootstrap {

inline constexpr uint32_t kMaxSocketsPerPeer = 16;

struct NetworkOptions {
  std::string interfaces;  // OMNES_IFNAME: exact names, in order of preference; empty = by route
  std::string ports;  // OMNES_PORT_RANGE: "first-last" or one port; empty = the system's choice
  // An address of this host that is known to lead to the others: what the control connection uses.
  std::string hint;
};

class PeerNetwork {
 public:
  // kInvalidUsage: no such interface (the message lists those that there are); kSystemError: no
  // port of the range is free.
  static base::Result<std::unique_ptr<PeerNetwork>> open(const LocalIdentity& self,
                                                         const NetworkOptions& options,
                                                         const base::Clock& clock);

  // "tcp:host:port"
  const std::string& address() const;
  // `count` connections with each of `peers`, whose addresses are given by rank. By rank; empty for
  // all others. Non-blocking, close-on-exec, without delay (TCP_NODELAY).
  base::Result<std::vector<std::vector<base::UniqueFd>>> connectAll(
      const std::vector<int32_t>& peers, const std::vector<std::string>& addresses, uint32_t count,
      const WaitLimits& limits);
};

}  // namespace omnes::core::bootstrap
