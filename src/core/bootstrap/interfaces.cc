#include "core/bootstrap/interfaces.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;
using Choice = std::optional<std::string>;

bool isLinkLocal(const SocketAddress& address) {
  if (address.storage.ss_family != AF_INET6) return false;
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

// Lower is better.
int rankOf(const SocketAddress& address, int family) {
  if (isLinkLocal(address)) return 2;
  return address.storage.ss_family == family ? 0 : 1;
}

const SocketAddress* bestOf(const Interface& interface, int family) {
  const auto best = std::min_element(
      interface.addresses.begin(), interface.addresses.end(),
      [family](const auto& a, const auto& b) { return rankOf(a, family) < rankOf(b, family); });
  return interface.isUp && best != interface.addresses.end() ? &*best : nullptr;
}

std::string describe(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& interface : interfaces) {
    text.append(text.empty() ? "" : ", ").append(interface.name);
    std::string addresses;
    for (const SocketAddress& address : interface.addresses)
      addresses.append(" ").append(hostText(address.storage));
    if (!interface.isUp) addresses = " down";
    text.append(" (").append(addresses.empty() ? "no address" : addresses.substr(1)).append(")");
  }
  return text.empty() ? "none" : text;
}

// Why an interface cannot be used.
std::string troubleWith(const std::vector<Interface>& interfaces, std::string_view name) {
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [name](const Interface& each) { return each.name == name; });
  std::string text = "'" + std::string(name) + "' ";
  if (found == interfaces.end()) return text + "does not exist";
  return text + (found->isUp ? "has no address" : "is down");
}

Result<Choice> chooseByName(const std::vector<Interface>& interfaces, const std::string& list,
                            int family) {
  std::string trouble;
  for (const std::string_view name : base::splitList(list)) {
    for (const Interface& interface : interfaces) {
      if (interface.name != name) continue;
      if (const SocketAddress* best = bestOf(interface, family))
        return Choice(hostText(best->storage));
    }
    trouble.append(trouble.empty() ? "" : ", ").append(troubleWith(interfaces, name));
  }
  if (trouble.empty()) trouble = "it names none";
  return Status(Code::kInvalidUsage,
                "OMNES_IFNAME is '" + list + "': " + trouble +
                    "; give the exact name of an interface that is up, or several, separated by "
                    "commas; there are: " +
                    describe(interfaces));
}

bool isAddressHere(const std::vector<Interface>& interfaces, const std::string& host) {
  for (const Interface& interface : interfaces)
    for (const SocketAddress& address : interface.addresses)
      if (hostText(address.storage) == host) return true;
  return false;
}

base::UniqueFd datagramSocket(const SocketAddress& address) {
  return base::UniqueFd::open(
      [&] { return ::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
}

// The near end of a datagram socket that is "connected" to an address reserved for documentation
// (RFC 5737, RFC 3849): the system looks up its route, and sends nothing.
std::string routedHost() {
  for (const char* outside : {"tcp:192.0.2.1:9", "tcp:[2001:db8::1]:9"}) {
    const Result<SocketAddress> address = numericAddress(outside);
    if (!address.isOk()) continue;
    const SocketAddress& to = address.value();
    const base::UniqueFd fd = datagramSocket(to);
    if (!fd.isOpen()) continue;
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length) == 0)
      return localHostText(fd.get());
  }
  return {};
}

bool canBind(const SocketAddress& address) {
  const base::UniqueFd fd = datagramSocket(address);
  const auto* name = reinterpret_cast<const sockaddr*>(&address.storage);
  return fd.isOpen() && ::bind(fd.get(), name, address.length) == 0;
}

struct IfAddrsDeleter {
  void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};

}  // namespace

Result<std::vector<Interface>> listInterfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return Status::fromErrno(errno, "listing network interfaces");
  const std::unique_ptr<ifaddrs, IfAddrsDeleter> owner(list);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    auto found = std::find_if(interfaces.begin(), interfaces.end(),
                              [entry](const auto& each) { return each.name == entry->ifa_name; });
    if (found == interfaces.end()) {
      const auto has = [entry](unsigned flags) { return (entry->ifa_flags & flags) == flags; };
      found = interfaces.insert(
          found, {entry->ifa_name, has(IFF_UP), has(IFF_UP | IFF_RUNNING), has(IFF_LOOPBACK), {}});
    }
    const int family = entry->ifa_addr == nullptr ? AF_UNSPEC : entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress address;
    address.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    if (canBind(address)) found->addresses.push_back(address);
  }
  return interfaces;
}

Result<Choice> chooseHostAmong(const std::vector<Interface>& interfaces,
                               const NetworkOptions& options, const std::string& route) {
  const int family = options.hint.starts_with('[') ? AF_INET6 : AF_INET;
  if (!options.interfaces.empty()) return chooseByName(interfaces, options.interfaces, family);
  if (isAddressHere(interfaces, options.hint)) return Choice(options.hint);
  if (isAddressHere(interfaces, route)) return Choice(route);
  struct Kind {
    bool isLoopback;
    bool isLinkLocal;
  };
  for (const Kind kind : {Kind{false, false}, Kind{false, true}, Kind{true, false}}) {
    for (const Interface& interface : interfaces) {
      if (!interface.isRunning || interface.isLoopback != kind.isLoopback) continue;
      const SocketAddress* best = bestOf(interface, family);
      if (best != nullptr && isLinkLocal(*best) == kind.isLinkLocal)
        return Choice(hostText(best->storage));
    }
  }
  return Choice();
}

Result<Choice> chooseHost(const NetworkOptions& options) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<Interface> interfaces, listInterfaces());
  return chooseHostAmong(interfaces, options, routedHost());
}

}  // namespace omnes::core::bootstrap
