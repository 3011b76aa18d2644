// Proven TCP connections between two ranks: the plumbing of every transport that works over
// sockets.
//
// A rank that has peers on other hosts opens one listener; its address travels in the rank's blob.
// connectAll() then gives, for each peer, as many connections as the transport wants, each of them
// proven (kind kTcp + its index). Of two ranks the higher one connects and the lower one accepts,
// and a rank that connects accepts at the same time, so that nobody waits in a circle. A live
// (from, to, kind) is refused.
//
// A connection that strangers push out before it is proven is tried again, as is one that meets a
// full queue or a route that is missing for the moment. Every wait ends at its deadline or on
// abort. One thread at a time per object.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "core/bootstrap/acceptor.h"
#include "core/bootstrap/interfaces.h"
#include "core/bootstrap/local_channel.h"

namespace omnes::core::bootstrap {

class PeerNetwork {
 public:
  // kInvalidUsage: no such interface (the message lists those that there are); kInvalidArgument: no
  // range of ports; kSystemError: no port of the range is free, or no interface is up. `clock` must
  // outlive the object.
  static base::Result<std::unique_ptr<PeerNetwork>> open(const LocalIdentity& self,
                                                         const NetworkOptions& options,
                                                         const base::Clock& clock);

  // "tcp:host:port"
  const std::string& address() const { return acceptor_->address(); }
  // `count` connections, at most kMaxSocketsPerPeer, with each of `peers`, whose addresses are
  // given by rank. All those who are named must call it, with the same count. The result is by
  // rank, and empty for all others; its descriptors are non-blocking, close-on-exec and without
  // delay (TCP_NODELAY). The i-th one is the same connection at both ends.
  //
  // kTimeout lists the ranks that are missing, and what stood in the way; kRemoteError: nobody
  // listens at a peer's address any more; kInvalidUsage: aborted, or refused by the peer;
  // kInvalidArgument: peers, addresses or count out of range.
  base::Result<std::vector<std::vector<base::UniqueFd>>> connectAll(
      const std::vector<int32_t>& peers, const std::vector<std::string>& addresses, uint32_t count,
      const WaitLimits& limits);
  // Takes no more connections; those that were handed out live on.
  void close() { acceptor_->stopListening(); }
  // The same, but the socket goes on (Acceptor::takeListener).
  base::UniqueFd takeSocket() { return acceptor_->takeListener(); }

  const AcceptorCounters& counters() const { return acceptor_->counters(); }

 private:
  class Round;
  using Key = std::pair<uint32_t, uint32_t>;  // rank, socket

  PeerNetwork(const LocalIdentity& self, std::unique_ptr<Acceptor> acceptor)
      : self_(self), acceptor_(std::move(acceptor)) {}
  base::Status checkArguments(const std::vector<int32_t>& peers,
                              const std::vector<std::string>& addresses, uint32_t count) const;
  void takeArrivals();

  const LocalIdentity self_;
  std::unique_ptr<Acceptor> acceptor_;
  std::map<Key, base::UniqueFd> arrived_;  // and not handed out yet
};

}  // namespace omnes::core::bootstrap
