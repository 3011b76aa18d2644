// The links of one rank, whatever carries them: some ranks are reached through shared memory, the
// others over the network, and plans need not know.
//
// Owns the endpoints. An incoming link, and an outgoing one to one peer, is a link of the endpoint
// that has the peer for a member; a multicast is one link an endpoint. Used by the thread that
// drives the communicator's operations.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "transports/transport.h"

namespace omnes::core {

struct EndpointCloser {
  void operator()(transports::Endpoint* endpoint) const { endpoint->table->close(endpoint); }
};
using EndpointOwner = std::unique_ptr<transports::Endpoint, EndpointCloser>;

using LinkList = std::vector<transports::Link*>;

class LinkSet {
 public:
  // slotBytes: what all endpoints were opened with.
  explicit LinkSet(int32_t nranks = 0, size_t slotBytes = 0)
      : slotBytes_(slotBytes), carrier_(nranks, nullptr) {}

  // The endpoint reaches `members` (the own rank may be among them). Call connect first.
  void add(EndpointOwner endpoint, const std::vector<int32_t>& members);
  // One link, or for an outgoing multicast one an endpoint.
  base::Result<LinkList> open(const transports::LinkShape& shape) const;

  // Moves what needs a caller's time; kOk when something moved. After kFailed and kPeerGone,
  // failed() is the endpoint that has the text.
  transports::Outcome progress();
  const transports::Endpoint* failed() const { return failed_; }
  // Whether progress() can ever do anything.
  bool needsProgress() const { return !pumped_.empty(); }
  bool hasUnsent() const {
    for (const transports::Endpoint* endpoint : pumped_)
      if (endpoint->hasUnsent) return true;
    return false;
  }
  // What a sleeper polls.
  void addPollFds(std::vector<pollfd>* fds) const;
  // Null where the rank's board cannot be read from here.
  base::Board* boardOf(int32_t rank) const;
  // "shm", "tcp": what carries the link to a rank; "" for the own one.
  const char* carrierOf(int32_t rank) const;

 private:
  base::Result<transports::Link*> openOn(transports::Endpoint* endpoint,
                                         const transports::LinkShape& shape) const;

  size_t slotBytes_;
  std::vector<EndpointOwner> endpoints_;
  std::vector<transports::Endpoint*> pumped_;   // those with something to pump
  std::vector<transports::Endpoint*> carrier_;  // by rank
  const transports::Endpoint* failed_ = nullptr;
};

}  // namespace omnes::core
