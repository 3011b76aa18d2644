#include "core/bootstrap/socket_address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstring>

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

struct AddrInfoDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

Result<std::vector<SocketAddress>> resolveTcp(std::string_view text) {
  OMNES_ASSIGN_OR_RETURN(const HostPort parts, splitHostPort(text));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(parts.host.c_str(), parts.port.c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, AddrInfoDeleter> owner(found);
  if (error != 0) {
    return Status(Code::kSystemError, "the host name '" + parts.host +
                                          "' cannot be resolved: " + ::gai_strerror(error));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  if (addresses.empty())
    return Status(Code::kSystemError, "the host name '" + parts.host + "' has no address");
  return addresses;
}

base::UniqueFd openSocket(const SocketAddress& address) {
  base::UniqueFd fd(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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

// 0 when connected, else the errno; Status on deadline and abort.
Result<int> finishConnect(int fd, const WaitLimits& limits, std::string_view text) {
  OMNES_RETURN_IF_ERROR(waitFor(fd, POLLOUT, limits, std::string("connecting to ").append(text)));
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error;
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

Result<std::vector<SocketAddress>> resolveAddress(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) {
    OMNES_ASSIGN_OR_RETURN(const SocketAddress address,
                           unixAddress(text.substr(kUnixPrefix.size())));
    return std::vector<SocketAddress>{address};
  }
  if (text.starts_with(kTcpPrefix)) return resolveTcp(text.substr(kTcpPrefix.size()));
  return badAddress(text, "it starts with neither unix:@ nor tcp:");
}

Result<ListeningSocket> listenOn(std::string_view text, int* savedErrno) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, resolveAddress(text));
  const SocketAddress& address = addresses.front();
  const auto failure = [&](const char* call) {
    if (savedErrno != nullptr) *savedErrno = errno;
    return Status::fromErrno(
        errno, std::string("cannot listen on ").append(text).append(" (").append(call).append(")"));
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

Result<ConnectAttempt> connectOnce(std::string_view text, const WaitLimits& limits) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, resolveAddress(text));
  ConnectAttempt attempt;
  for (const SocketAddress& address : addresses) {
    base::UniqueFd fd = openSocket(address);
    if (!fd.isOpen()) return Status::fromErrno(errno, "cannot open a socket (see ulimit -n)");
    const int failed =
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length);
    attempt.error = failed == 0 ? 0 : errno;
    // An interrupted connect goes on in the background, as EINPROGRESS does.
    if (attempt.error == EINPROGRESS || attempt.error == EINTR) {
      OMNES_ASSIGN_OR_RETURN(attempt.error, finishConnect(fd.get(), limits, text));
    }
    if (attempt.error != 0) continue;
    if (!isConnectedToItself(fd.get())) return ConnectAttempt{std::move(fd), 0};
    // Reset at once: an orderly close would keep the port from whoever is to listen there.
    const linger reset{1, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    attempt.error = ECONNREFUSED;
  }
  return attempt;
}

}  // namespace omnes::core::bootstrap
