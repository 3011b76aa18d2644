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
#include "core/bootstrap/socket_io.h"

namespace omnes::core::bootstrap {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  bool isUnix() const { return storage.ss_family == AF_UNIX; }
};

// Checks the form of "host:port", "[ip6]:port" or "name:port" and gives it back with "tcp:" in
// front. kInvalidUsage says what is wrong with it.
base::Result<std::string> tcpAddressText(std::string_view hostAndPort);
// A fresh abstract name that nobody can guess: "unix:@omnes-<32 hex digits>".
std::string randomUnixAddress();
// All addresses a text stands for, in the order in which to try them. Names ask the resolver, which
// may take as long as the system's resolver takes; numeric addresses never do.
base::Result<std::vector<SocketAddress>> resolveAddress(std::string_view text);

struct ListeningSocket {
  base::UniqueFd fd;
  std::string address;  // as text, with the port that was chosen when 0 was asked for
};
// kSystemError names the address; the errno is in `savedErrno` when it is not null.
base::Result<ListeningSocket> listenOn(std::string_view text, int* savedErrno = nullptr);

struct ConnectAttempt {
  base::UniqueFd fd;
  int error = 0;  // errno of the last address tried, 0 when connected
};
// True when both ends of a TCP connection are this one socket. That happens where nobody listens:
// the system may give a socket that connects to a local port of its dynamic range that very port.
bool isConnectedToItself(int fd);
// Tries each address once, within the limits. A refusal is not a Status but an `error`, since
// callers differ in what they do about it; kTimeout and aborts are. A connection to itself counts
// as a refusal.
base::Result<ConnectAttempt> connectOnce(std::string_view text, const WaitLimits& limits);

}  // namespace omnes::core::bootstrap
