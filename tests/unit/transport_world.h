// n endpoints of one transport in one thread, wired up: what the conformance suite runs on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/mem/hub.h"
#include "transports/transport.h"
#include "unit/socket_mesh.h"

namespace omnes::tests {

class TransportWorld {
 public:
  // A transport's name, and for tcp how it is used: "tcp" alone is IPv4 with one data socket, "-3"
  // has three, "-ipv6" and "-unix" are other sockets, "-tiny" has little room in them.
  TransportWorld(const std::string& kind, int32_t nranks, size_t slotBytes = 0);
  ~TransportWorld();
  TransportWorld(const TransportWorld&) = delete;
  TransportWorld& operator=(const TransportWorld&) = delete;

  // The transport's name.
  static std::string nameOf(const std::string& kind) { return kind.substr(0, kind.find('-')); }
  // What keeps this machine from running it, empty when nothing does.
  static std::string obstacleTo(const std::string& kind);

  bool hasFailed() const { return failed_; }
  transports::Endpoint* endpoint(int32_t rank) { return endpoints_[rank]; }
  void close(int32_t rank);

  transports::Link* link(int32_t rank, bool outgoing, uint8_t stream, int32_t peer);

  // Sends one chunk, once there is a slot; false when none comes.
  bool send(transports::Link* link, const std::string& bytes, uint64_t fingerprint);
  // Whether there is no slot although all that was under way has arrived.
  bool cannotSend(transports::Link* link);
  // The next chunk of `size` bytes; false when none comes.
  bool peek(transports::Link* link, size_t size, transports::Chunk* chunk);
  // Takes it.
  bool receive(transports::Link* link, size_t size, std::string* bytes, uint64_t* fingerprint);
  // Whether there is no chunk although all that was under way has arrived.
  bool nothingComes(transports::Link* link);

  // Lets all endpoints move; whether one did.
  bool pump();
  // Until nothing moves and nothing is on its way any more.
  void settle();
  // Tries until it is true; false when it stays false for long.
  template <typename Attempt>
  bool eventually(const Attempt& attempt);

 private:
  void connect(int32_t sockets, const SocketKind& kind);
  // Whether something to do has come up within the time.
  bool sleep(int milliseconds);

  transports::mem::Hub hub_;
  bool failed_ = false;
  bool isPumped_ = false;
  std::vector<transports::Endpoint*> endpoints_;
};

template <typename Attempt>
bool TransportWorld::eventually(const Attempt& attempt) {
  const base::Clock& clock = base::Clock::monotonic();
  const base::Deadline deadline = base::Deadline::afterMs(clock, 10'000);
  // Without sockets, time passes by itself, or the clock of `mem` does.
  for (int look = 0; isPumped_ ? !deadline.hasPassed(clock) : look < 3; ++look) {
    if (attempt()) return true;
    if (!pump() && isPumped_) sleep(10);
  }
  return false;
}

}  // namespace omnes::tests
