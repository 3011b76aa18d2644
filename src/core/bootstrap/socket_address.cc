#include "core/bootstrap/socket_address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

#include "core/bootstrap/resolver.h"
#include "core/bootstrap/secret.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr std::string_view kUnixPrefix = "unix:@";
constexpr std::string_view kTcpPrefix = "tcp:";
constexpr int kBacklog = 4096;

struct HostPort {
  std::string host;
  std::string port;
};

Status badAddress(std::string_view text, const char* reason) {
  std::string message("'");
  message.append(text).append("' is not an address: ").append(reason);
  return Status(Code::kInvalidUsage, message + "; use host:port, a.b.c.d:port or [ip6]:port");
}

Result<HostPort> splitHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return badAddress(text, "it has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') return badAddress(text, "a bracket is missing");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return badAddress(text, "an IPv6 address needs brackets");
  }
  if (host.empty()) return badAddress(text, "it has no host");
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || port.empty() || number > 65535) {
    return badAddress(text, "the port must be a number up to 65535");
  }
  return HostPort{std::string(host), std::string(port)};
}

Result<SocketAddress> unixAddress(std::string_view name) {
  SocketAddress address;
  auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
  // One byte for the leading zero that makes a name abstract.
  if (name.empty() || name.size() + 1 > sizeof un->sun_path) {
    return badAddress(name, "an abstract socket name has 1 to 107 characters");
  }
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// A host that is written in digits is never looked up.
Result<SocketAddress> numericHost(const HostPort& parts) {
  AddressList list = lookUp(parts.host, parts.port, AI_NUMERICHOST);
  if (!list.isOk()) return list.status();
  return list.value().front();
}

Result<std::vector<SocketAddress>> resolveTcp(std::string_view text, const WaitLimits& limits) {
  OMNES_ASSIGN_OR_RETURN(const HostPort parts, splitHostPort(text));
  if (const Result<SocketAddress> numeric = numericHost(parts); numeric.isOk())
    return std::vector<SocketAddress>{numeric.value()};
  return resolveName(parts.host, parts.port, limits);
}

base::UniqueFd openSocket(const SocketAddress& address) {
  base::UniqueFd fd = base::UniqueFd::open([&address] {
    return ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  });
  if (fd.isOpen() && !address.isUnix()) {
    const int one = 1;
    // Frames are small and answered: waiting to fill a segment would only add delay. Best effort.
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  return fd;
}

Result<std::string> boundAddressText(int fd, const SocketAddress& address, std::string_view text) {
  if (address.isUnix()) return std::string(text);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return Status::fromErrno(errno, "getsockname");
  }
  const in_port_t port = bound.ss_family == AF_INET6
                             ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                             : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
  return std::string(text.substr(0, text.rfind(':') + 1)) + std::to_string(ntohs(port));
}

// What became of one attempt. ETIMEDOUT after `longest`; Status on deadline and abort.
Result<int> awaitConnect(int fd, const WaitLimits& limits, base::Duration longest,
                         const std::string& what) {
  WaitLimits capped = limits;
  if (limits.deadline.remaining(*limits.clock) > longest) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
    capped.deadline = base::Deadline::afterMs(*limits.clock, std::max<int64_t>(ms, 1));
  }
  const Status status = waitFor(fd, POLLOUT, capped, what);
  if (status.isOk()) return finishConnect(fd);
  const bool isOver = limits.deadline.hasPassed(*limits.clock);
  if (status.code() == Code::kTimeout && !isOver) return ETIMEDOUT;
  return status;
}

// EADDRINUSE is told in the words that people search for.
Status listenFailure(int error, std::string_view text, const char* call) {
  std::string what("cannot listen on ");
  what.append(text).append(" (").append(call).append(")");
  if (error == EADDRINUSE)
    what.append(": address in use, another process listens there; end it or choose another port");
  return Status::fromErrno(error, what);
}

Result<ListeningSocket> listenAt(const SocketAddress& address, std::string_view text,
                                 int* savedErrno) {
  const auto failure = [&](const char* call) {
    *savedErrno = errno;
    return listenFailure(errno, text, call);
  };
  base::UniqueFd fd = openSocket(address);
  if (!fd.isOpen()) return failure("socket");
  if (!address.isUnix()) {
    // Only skips the wait for old connections to fade; a second listener is refused all the same.
    const int one = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  }
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    return failure("bind");
  }
  if (::listen(fd.get(), kBacklog) != 0) return failure("listen");
  OMNES_ASSIGN_OR_RETURN(std::string bound, boundAddressText(fd.get(), address, text));
  return ListeningSocket{std::move(fd), std::move(bound)};
}

in_port_t* portOf(SocketAddress* address) {
  if (address->storage.ss_family == AF_INET6)
    return &reinterpret_cast<sockaddr_in6*>(&address->storage)->sin6_port;
  return &reinterpret_cast<sockaddr_in*>(&address->storage)->sin_port;
}

Result<ListeningSocket> listenInRange(SocketAddress address, std::string_view text,
                                      base::PortRange ports, int* savedErrno) {
  for (uint32_t port = ports.first; port <= ports.last; ++port) {
    *portOf(&address) = htons(static_cast<in_port_t>(port));
    Result<ListeningSocket> socket = listenAt(address, text, savedErrno);
    if (socket.isOk() || *savedErrno != EADDRINUSE) return socket;
  }
  return Status(Code::kSystemError,
                "cannot listen on " + std::string(text.substr(0, text.rfind(':'))) +
                    ": address in use, all ports of OMNES_PORT_RANGE=" +
                    base::formatPortRange(ports) + " are taken; name a wider range");
}

}  // namespace

Result<std::string> tcpAddressText(std::string_view hostAndPort) {
  OMNES_RETURN_IF_ERROR(splitHostPort(hostAndPort).status());
  return std::string(kTcpPrefix).append(hostAndPort);
}

std::string randomUnixAddress() {
  uint8_t random[16];
  fillRandom(random);
  char hex[2 * sizeof random + 1];
  ::sodium_bin2hex(hex, sizeof hex, random, sizeof random);
  return std::string(kUnixPrefix) + "omnes-" + hex;
}

std::string hostText(const sockaddr_storage& address) {
  char host[NI_MAXHOST];
  const bool isSix = address.ss_family == AF_INET6;
  if (!isSix && address.ss_family != AF_INET) return {};
  const socklen_t length = isSix ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, nullptr,
                    0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return isSix ? "[" + std::string(host) + "]" : std::string(host);
}

std::string localHostText(int fd) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0) return {};
  return hostText(own);
}

Status checkAddressForm(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) return unixAddress(text.substr(kUnixPrefix.size())).status();
  if (text.starts_with(kTcpPrefix)) return splitHostPort(text.substr(kTcpPrefix.size())).status();
  return badAddress(text, "it starts with neither unix:@ nor tcp:");
}

Result<SocketAddress> numericAddress(std::string_view text) {
  OMNES_RETURN_IF_ERROR(checkAddressForm(text));
  if (text.starts_with(kUnixPrefix)) return unixAddress(text.substr(kUnixPrefix.size()));
  OMNES_ASSIGN_OR_RETURN(const HostPort parts, splitHostPort(text.substr(kTcpPrefix.size())));
  Result<SocketAddress> address = numericHost(parts);
  if (!address.isOk()) return badAddress(text, "its host is not numeric");
  return address;
}

Result<std::vector<SocketAddress>> resolveAddress(std::string_view text, const WaitLimits& limits) {
  OMNES_RETURN_IF_ERROR(checkAddressForm(text));
  if (text.starts_with(kTcpPrefix)) return resolveTcp(text.substr(kTcpPrefix.size()), limits);
  OMNES_ASSIGN_OR_RETURN(const SocketAddress address, unixAddress(text.substr(kUnixPrefix.size())));
  return std::vector<SocketAddress>{address};
}

Result<ListeningSocket> listenOn(std::string_view text, const ListenOptions& options,
                                 int* savedErrno) {
  int ignored = 0;
  if (savedErrno == nullptr) savedErrno = &ignored;
  OMNES_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                         resolveAddress(text, options.limits));
  SocketAddress address = addresses.front();
  if (!address.isUnix() && !options.ports.isAny() && *portOf(&address) == 0)
    return listenInRange(address, text, options.ports, savedErrno);
  return listenAt(address, text, savedErrno);
}

bool isConnectedToItself(int fd) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t ownLength = sizeof own;
  socklen_t peerLength = sizeof peer;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &ownLength) != 0) return false;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peerLength) != 0) return false;
  // Two ends of a unix socket may both be nameless.
  return own.ss_family != AF_UNIX && ownLength == peerLength &&
         std::memcmp(&own, &peer, ownLength) == 0;
}

Result<ConnectAttempt> startConnect(const SocketAddress& address) {
  base::UniqueFd fd = openSocket(address);
  if (!fd.isOpen()) {
    // A family that this host does not have is like an address that nobody answers at.
    if (errno == EAFNOSUPPORT) return ConnectAttempt{{}, errno};
    return Status::fromErrno(errno, "cannot open a socket (see ulimit -n)");
  }
  const auto* name = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(fd.get(), name, address.length) == 0) {
    const int error = finishConnect(fd.get());
    return ConnectAttempt{std::move(fd), error};
  }
  // An interrupted connect goes on in the background, as EINPROGRESS does.
  const int error = errno == EINTR ? EINPROGRESS : errno;
  return ConnectAttempt{std::move(fd), error};
}

int finishConnect(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0 || !isConnectedToItself(fd)) return error;
  // Reset at once: an orderly close would keep the port from whoever is to listen there.
  const linger reset{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  return ECONNREFUSED;
}

Result<ConnectAttempt> connectOnce(std::string_view text, const WaitLimits& limits,
                                   base::Duration perAddress) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, resolveAddress(text, limits));
  const std::string what = std::string("connecting to ").append(text);
  int error = 0;
  for (const SocketAddress& address : addresses) {
    OMNES_ASSIGN_OR_RETURN(ConnectAttempt attempt, startConnect(address));
    if (attempt.error == EINPROGRESS) {
      OMNES_ASSIGN_OR_RETURN(attempt.error,
                             awaitConnect(attempt.fd.get(), limits, perAddress, what));
    }
    if (attempt.error == 0) return attempt;
    error = attempt.error;
  }
  return ConnectAttempt{{}, error};
}

}  // namespace omnes::core::bootstrap
