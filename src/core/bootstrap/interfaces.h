// Which of this host's addresses the other ranks are given.
//
// In this order: the first usable interface of OMNES_IFNAME; the address that is known to lead to
// the others; the one by which the system would route to the outside; the first interface that
// runs; the loopback. Within an interface IPv4 comes before IPv6, unless the known address is of
// the other family; link-local IPv6 addresses come last, since they only work where the far host
// has an interface of the same name.
//
// Stateless, thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {

struct NetworkOptions {
  // OMNES_IFNAME: exact names, in order of preference; empty = by route.
  std::string interfaces = {};
  // OMNES_PORT_RANGE: "first-last" or one port; empty = the system's choice.
  std::string ports = {};
  // An address of this host that is known to lead to the others: what the control connection uses,
  // as hostText() writes it.
  std::string hint = {};
};

struct Interface {
  std::string name;
  bool isUp = false;
  bool isRunning = false;  // up, and with a carrier: a cable, or a partner
  bool isLoopback = false;
  // IPv4 and IPv6, in the system's order; only those that sockets can have, which a new IPv6
  // address cannot until the system knows that nobody else has it.
  std::vector<SocketAddress> addresses;
};

// In the system's order. kSystemError when it does not say.
base::Result<std::vector<Interface>> listInterfaces();

// The host of an address text ("10.0.0.1", "[fd00::1]"); nullopt when no interface is up and has an
// address. kInvalidUsage: no interface of options.interfaces can be used; the message says why, and
// lists those that there are.
base::Result<std::optional<std::string>> chooseHost(const NetworkOptions& options);
// The same among given interfaces; `route` is the host that the system's routes lead to, or empty.
base::Result<std::optional<std::string>> chooseHostAmong(const std::vector<Interface>& interfaces,
                                                         const NetworkOptions& options,
                                                         const std::string& route);

}  // namespace omnes::core::bootstrap
