// Addresses in text form, and the sockets behind them.
//
// "unix:@name" is an abstract unix socket: nothing in the file system to leak, fill or plant.
// "tcp:host:port" is TCP; host is an IPv4 address, an IPv6 address in brackets, or a name.
// Stateless, thread-safe.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "base/text.h"
#include "core/bootstrap/socket_io.h"

namespace omnes::core::bootstrap {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  bool isUnix() const { return storage.ss_family == AF_UNIX; }
};

// The numeric host as it stands in an address text: "10.0.0.1", "[fe80::1%eth0]"; empty for a unix
// socket.
std::string hostText(const sockaddr_storage& address);
// The same of the near end of a connection.
std::string localHostText(int fd);

// Checks the form of "host:port", "[ip6]:port" or "name:port" and gives it back with "tcp:" in
// front. kInvalidUsage says what is wrong with it.
base::Result<std::string> tcpAddressText(std::string_view hostAndPort);
// Whether a text has the form of an address of either family; asks no resolver.
base::Status checkAddressForm(std::string_view text);
// A fresh abstract name that nobody can guess: "unix:@omnes-<32 hex digits>".
std::string randomUnixAddress();
// The address that a text with a numeric host stands for; asks no resolver. kInvalidUsage: a name,
// or no address.
base::Result<SocketAddress> numericAddress(std::string_view text);
// All addresses a text stands for, in the order in which to try them. Names ask the resolver, for
// no longer than the limits (resolver.h).
base::Result<std::vector<SocketAddress>> resolveAddress(std::string_view text,
                                                        const WaitLimits& limits);

struct ListenOptions {
  // Where a text with port 0 may listen.
  base::PortRange ports = {};
  // For resolving the host's name.
  WaitLimits limits = {.clock = &base::Clock::monotonic()};
};
struct ListeningSocket {
  base::UniqueFd fd;
  std::string address;  // as text, with the port that was chosen when 0 was asked for
};
// kSystemError names the address, or the range of which all ports are in use; the errno is in
// `savedErrno` when it is not null.
base::Result<ListeningSocket> listenOn(std::string_view text, const ListenOptions& options = {},
                                       int* savedErrno = nullptr);

struct ConnectAttempt {
  base::UniqueFd fd;
  int error = 0;  // errno of the last address tried, 0 when connected
};
// True when both ends of a TCP connection are this one socket. That happens where nobody listens:
// the system may give a socket that connects to a local port of its dynamic range that very port.
bool isConnectedToItself(int fd);
// Begins to connect; never blocks. `error` EINPROGRESS: wait until fd is writable, then call
// finishConnect(). A Status only when no socket can be opened.
base::Result<ConnectAttempt> startConnect(const SocketAddress& address);
// 0 when connected, else the errno. A connection to itself counts as refused.
int finishConnect(int fd);
// Tries each address once, within the limits and at most `perAddress` each. A refusal is not a
// Status but an `error` (ETIMEDOUT after `perAddress`), since callers differ in what they do about
// it; kTimeout and aborts are.
base::Result<ConnectAttempt> connectOnce(std::string_view text, const WaitLimits& limits,
                                         base::Duration perAddress = base::Duration::max());

}  // namespace omnes::core::bootstrap
