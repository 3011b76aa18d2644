// Connected stream sockets made on the spot, as a transport over the network is handed them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace omnes::tests {

struct SocketKind {
  int family = AF_INET;  // over the loopback; or AF_INET6, AF_UNIX
  int sendBytes = 0;     // SO_SNDBUF and SO_RCVBUF; 0 = the system's choice
  int receiveBytes = 0;
};

// Whether the loopback has such addresses.
bool canConnect(int family);

// Non-blocking and close-on-exec, without delay. Ports are the system's choice. Throws
// std::runtime_error, which fails the test that asked.
std::pair<base::UniqueFd, base::UniqueFd> connectedPair(const SocketKind& kind = {});

// `count` sockets between each two of n ranks.
class SocketMesh {
 public:
  SocketMesh(int32_t nranks, int32_t count, const SocketKind& kind);
  // Those of `rank` with `peer`, whom they belong to from now on; null for the rank itself.
  const int* take(int32_t rank, int32_t peer);

 private:
  std::vector<base::UniqueFd>& at(int32_t rank, int32_t peer) {
    return sockets_[static_cast<size_t>(rank) * nranks_ + peer];
  }

  int32_t nranks_;
  std::vector<std::vector<base::UniqueFd>> sockets_;
  std::vector<std::vector<int>> taken_;
};

}  // namespace omnes::tests
