// n endpoints of one transport in one thread, wired up: what the conformance suite runs on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/mem/hub.h"
#include "transports/shm/shm.h"
#include "transports/transport.h"

namespace omnes::tests {

class TransportWorld {
 public:
  TransportWorld(const std::string& name, int32_t nranks, size_t slotBytes = 0)
      : hub_({.nranks = nranks, .slotBytes = slotBytes == 0 ? 4096 : slotBytes}) {
    const transports::TransportTable& table =
        name == "mem" ? transports::mem::table() : transports::shm::table();
    for (int32_t rank = 0; rank < nranks; ++rank) {
      transports::OpenParameters parameters;
      parameters.rank = rank;
      parameters.nranks = nranks;
      parameters.slotBytes = slotBytes;
      parameters.context = &hub_;
      transports::Endpoint* endpoint = nullptr;
      if (table.open(&parameters, &endpoint) != transports::Outcome::kOk) failed_ = true;
      endpoints_.push_back(endpoint);
    }
    if (!failed_) connect();
  }
  ~TransportWorld() {
    for (transports::Endpoint* endpoint : endpoints_)
      if (endpoint != nullptr) endpoint->table->close(endpoint);
  }
  TransportWorld(const TransportWorld&) = delete;
  TransportWorld& operator=(const TransportWorld&) = delete;

  bool hasFailed() const { return failed_; }
  transports::Endpoint* endpoint(int32_t rank) { return endpoints_[rank]; }
  void close(int32_t rank) {
    endpoints_[rank]->table->close(endpoints_[rank]);
    endpoints_[rank] = nullptr;
  }

  transports::Link* link(int32_t rank, bool outgoing, uint8_t stream, int32_t peer) {
    transports::Link* made = nullptr;
    const transports::LinkShape shape{outgoing, stream, peer};
    const auto* table = endpoints_[rank]->table;
    return table->openLink(endpoints_[rank], &shape, &made) == transports::Outcome::kOk ? made
                                                                                        : nullptr;
  }

  // Sends one chunk; false when there is no slot.
  static bool send(transports::Link* link, const std::string& bytes, uint64_t fingerprint) {
    const auto* table = link->endpoint->table;
    transports::Chunk chunk;
    if (table->acquire(link, bytes.size(), &chunk) != transports::Outcome::kOk) return false;
    std::copy(bytes.begin(), bytes.end(), chunk.data);
    return table->commit(link, bytes.size(), fingerprint) == transports::Outcome::kOk;
  }
  // The next chunk of `size` bytes, letting time pass for transports that have it; false when none
  // comes.
  bool peek(transports::Link* link, size_t size, transports::Chunk* chunk) {
    const auto* table = link->endpoint->table;
    for (int look = 0; look < 3; ++look) {
      if (table->peek(link, size, chunk) == transports::Outcome::kOk) return true;
      table->progress(link->endpoint);
      hub_.clock().advanceTo(hub_.clock().now() + std::chrono::milliseconds(1));
    }
    return false;
  }
  // Takes it.
  bool receive(transports::Link* link, size_t size, std::string* bytes, uint64_t* fingerprint) {
    transports::Chunk chunk;
    if (!peek(link, size, &chunk)) return false;
    bytes->assign(chunk.data, chunk.data + chunk.bytes);
    *fingerprint = chunk.fingerprint;
    return link->endpoint->table->release(link) == transports::Outcome::kOk;
  }

 private:
  void connect() {
    std::vector<transports::Description> described(endpoints_.size());
    std::vector<transports::Peer> peers(endpoints_.size());
    for (size_t rank = 0; rank < endpoints_.size(); ++rank) {
      endpoints_[rank]->table->describe(endpoints_[rank], &described[rank]);
      peers[rank] = {described[rank].text, described[rank].bytes, described[rank].descriptor};
    }
    for (transports::Endpoint* endpoint : endpoints_)
      if (endpoint->table->connect(endpoint, peers.data()) != transports::Outcome::kOk)
        failed_ = true;
  }

  transports::mem::Hub hub_;
  bool failed_ = false;
  std::vector<transports::Endpoint*> endpoints_;
};

}  // namespace omnes::tests
