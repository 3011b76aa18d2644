#include "unit/socket_mesh.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace omnes::tests {

using base::UniqueFd;

namespace {

int check(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return result;
}

void setOption(int fd, int level, int option, int value) {
  check(setsockopt(fd, level, option, &value, sizeof value), "setsockopt");
}

UniqueFd makeSocket(const SocketKind& kind) {
  UniqueFd fd(check(socket(kind.family, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  if (kind.sendBytes != 0) setOption(fd.get(), SOL_SOCKET, SO_SNDBUF, kind.sendBytes);
  if (kind.receiveBytes != 0) setOption(fd.get(), SOL_SOCKET, SO_RCVBUF, kind.receiveBytes);
  return fd;
}

struct Loopback {
  explicit Loopback(int family) {
    std::memset(&storage, 0, sizeof storage);
    if (family == AF_INET6) {
      auto* address = reinterpret_cast<sockaddr_in6*>(&storage);
      address->sin6_family = AF_INET6;
      address->sin6_addr = in6addr_loopback;
      bytes = sizeof *address;
    } else {
      auto* address = reinterpret_cast<sockaddr_in*>(&storage);
      address->sin_family = AF_INET;
      address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      bytes = sizeof *address;
    }
  }
  sockaddr* address() { return reinterpret_cast<sockaddr*>(&storage); }
  sockaddr_storage storage;
  socklen_t bytes;
};

void finish(int fd, bool isTcp) {
  check(fcntl(fd, F_SETFL, O_NONBLOCK), "fcntl");
  check(fcntl(fd, F_SETFD, FD_CLOEXEC), "fcntl");
  if (isTcp) setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

std::pair<UniqueFd, UniqueFd> unixPair(const SocketKind& kind) {
  int fds[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
  for (const int fd : fds) {
    if (kind.sendBytes != 0) setOption(fd, SOL_SOCKET, SO_SNDBUF, kind.sendBytes);
    finish(fd, false);
  }
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace

bool canConnect(int family) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Loopback loopback(family);
  return fd.isOpen() && bind(fd.get(), loopback.address(), loopback.bytes) == 0;
}

std::pair<UniqueFd, UniqueFd> connectedPair(const SocketKind& kind) {
  if (kind.family == AF_UNIX) return unixPair(kind);
  Loopback at(kind.family);
  const UniqueFd listener = makeSocket(kind);
  check(bind(listener.get(), at.address(), at.bytes), "bind");
  check(listen(listener.get(), 1), "listen");
  check(getsockname(listener.get(), at.address(), &at.bytes), "getsockname");
  UniqueFd first = makeSocket(kind);
  check(connect(first.get(), at.address(), at.bytes), "connect");
  UniqueFd second(check(accept(listener.get(), nullptr, nullptr), "accept"));
  finish(first.get(), true);
  finish(second.get(), true);
  return {std::move(first), std::move(second)};
}

SocketMesh::SocketMesh(int32_t nranks, int32_t count, const SocketKind& kind)
    : nranks_(nranks), sockets_(static_cast<size_t>(nranks) * nranks), taken_(sockets_.size()) {
  for (int32_t low = 0; low < nranks; ++low)
    for (int32_t high = low + 1; high < nranks; ++high)
      for (int32_t i = 0; i < count; ++i) {
        auto [one, other] = connectedPair(kind);
        at(low, high).push_back(std::move(one));
        at(high, low).push_back(std::move(other));
      }
}

const int* SocketMesh::take(int32_t rank, int32_t peer) {
  std::vector<int>& taken = taken_[static_cast<size_t>(rank) * nranks_ + peer];
  for (UniqueFd& fd : at(rank, peer)) taken.push_back(fd.release());
  at(rank, peer).clear();
  return taken.empty() ? nullptr : taken.data();
}

}  // namespace omnes::tests
