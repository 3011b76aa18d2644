// The endpoints of a rank while they are wired: opened, then connected with what their members have
// said and handed over.
//
// One thread. Every wait ends at its limits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/bootstrap/local_channel.h"
#include "core/bootstrap/peer_network.h"
#include "core/comm/peer_info.h"
#include "core/comm/placement.h"
#include "core/comm/settings.h"
#include "core/exec/link_set.h"
#include "transports/transport.h"

namespace omnes::core {

class EndpointWiring {
 public:
  // Borrows self and settings until it ends.
  EndpointWiring(const bootstrap::LocalIdentity& self, const CommSettings& settings)
      : self_(self), settings_(settings) {}

  // Opens the endpoints, and the network if one of them wants sockets. networkHint: see
  // bootstrap::NetworkOptions.
  base::Status open(const Placement& placement, const std::string& networkHint);
  // What the other ranks need to know, after open().
  PeerContact contact() const;
  // Hands over memory and sockets, and connects the endpoints. Notes in `peers` whom the kernel saw
  // at the other end of a local connection.
  base::Status connect(const std::vector<PeerContact>& contacts, std::vector<PeerInfo>* peers,
                       bootstrap::LocalListener* listener, const bootstrap::WaitLimits& limits);
  // The network's listening socket, after connect(). Precondition: contact() names one.
  base::UniqueFd takeSocket() { return network_->takeSocket(); }
  // Gives the endpoints away, connected.
  void moveTo(LinkSet* links);

 private:
  struct Opened {
    EndpointOwner endpoint;
    std::vector<int32_t> members;
    transports::Description description;
    const char* name() const { return endpoint->table->name; }
  };
  using Descriptors = std::vector<base::UniqueFd>;           // by rank
  using Sockets = std::vector<std::vector<base::UniqueFd>>;  // by rank

  base::Status openOne(const PlacedEndpoint& placed, size_t slotBytes);
  base::Status connectOne(Opened* opened, const std::vector<PeerContact>& contacts,
                          std::vector<PeerInfo>* peers, bootstrap::LocalListener* listener,
                          const bootstrap::WaitLimits& limits);
  base::Result<Descriptors> tradeDescriptors(const Opened& opened, std::vector<PeerInfo>* peers,
                                             bootstrap::LocalListener* listener,
                                             const bootstrap::WaitLimits& limits);
  base::Result<Sockets> connectSockets(const Opened& opened,
                                       const std::vector<PeerContact>& contacts,
                                       const bootstrap::WaitLimits& limits);
  int32_t rank() const { return static_cast<int32_t>(self_.rank); }

  const bootstrap::LocalIdentity& self_;
  const CommSettings& settings_;
  std::unique_ptr<bootstrap::PeerNetwork> network_;
  std::vector<std::unique_ptr<Opened>> opened_;
};

}  // namespace omnes::core
