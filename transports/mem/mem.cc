// The `mem` transport: the ten functions over a Hub.
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "transports/mem/hub.h"

namespace omnes::transports::mem {
namespace {

struct MemLink : Link {
  Pipe* pipe = nullptr;
  size_t reader = 0;  // index in pipe->readers, for the receiving side
  bool outgoing = true;
  std::vector<uint8_t> staging;  // of the chunk between acquire and commit
};

struct MemEndpoint : Endpoint {
  Hub* hub = nullptr;
  int32_t rank = 0;
  std::map<std::pair<bool, std::pair<uint8_t, int32_t>>, std::unique_ptr<MemLink>> links;
};

MemEndpoint* self(Endpoint* endpoint) { return static_cast<MemEndpoint*>(endpoint); }
MemLink* self(Link* link) { return static_cast<MemLink*>(link); }

Outcome peerGone(MemLink* link, int32_t peer) {
  link->endpoint->failedPeer = peer;
  std::snprintf(link->endpoint->error, kErrorBytes, "rank %d is gone", peer);
  return Outcome::kPeerGone;
}

Outcome open(const OpenParameters* parameters, Endpoint** endpoint) {
  auto made = std::make_unique<MemEndpoint>();
  made->table = &table();
  made->hub = static_cast<Hub*>(parameters->context);
  made->rank = parameters->rank;
  *endpoint = made.release();
  return Outcome::kOk;
}

Outcome describe(Endpoint* endpoint, Description* description) {
  description->bytes = static_cast<size_t>(
      std::snprintf(description->text, kDescriptionBytes, "mem rank %d", self(endpoint)->rank));
  return Outcome::kOk;
}

Outcome connect(Endpoint*, const Peer*) { return Outcome::kOk; }

Outcome openLink(Endpoint* endpoint, const LinkShape* shape, Link** link) {
  MemEndpoint* me = self(endpoint);
  const bool multicast = shape->stream % 2 == 0;
  const int32_t peer = shape->outgoing && multicast ? -1 : shape->peer;
  std::unique_ptr<MemLink>& made = me->links[{shape->outgoing, {shape->stream, peer}}];
  if (!made) {
    made = std::make_unique<MemLink>();
    made->endpoint = endpoint;
    made->slotBytes = me->hub->options().slotBytes;
    made->credits = me->hub->options().credits;
    made->outgoing = shape->outgoing;
    made->pipe = shape->outgoing ? me->hub->pipe(me->rank, shape->stream, shape->peer)
                                 : me->hub->pipe(shape->peer, shape->stream, me->rank);
    for (size_t i = 0; i < made->pipe->readers.size(); ++i)
      if (made->pipe->readers[i] == me->rank) made->reader = i;
  }
  *link = made.get();
  return Outcome::kOk;
}

Outcome acquire(Link* link, size_t bytes, Chunk* chunk) {
  MemLink* me = self(link);
  Hub* hub = self(link->endpoint)->hub;
  for (size_t i = 0; i < me->pipe->readers.size(); ++i) {
    if (me->pipe->sent - me->pipe->consumed[i] < hub->options().credits) continue;
    if (hub->isKilled(me->pipe->readers[i])) return peerGone(me, me->pipe->readers[i]);
    return Outcome::kAgain;
  }
  me->staging.resize(bytes);
  chunk->data = me->staging.data();
  chunk->bytes = bytes;
  return Outcome::kOk;
}

Outcome commit(Link* link, size_t bytes, uint64_t fingerprint) {
  MemLink* me = self(link);
  me->staging.resize(bytes);
  self(link->endpoint)->hub->send(me->pipe, std::exchange(me->staging, {}), fingerprint);
  return Outcome::kOk;
}

Outcome peek(Link* link, size_t, Chunk* chunk) {
  MemLink* me = self(link);
  Hub* hub = self(link->endpoint)->hub;
  const uint64_t next = me->pipe->consumed[me->reader];
  if (next == me->pipe->sent) {
    return hub->isKilled(me->pipe->source) ? peerGone(me, me->pipe->source) : Outcome::kAgain;
  }
  Parcel& parcel = *me->pipe->parcels[next - me->pipe->first];
  if (parcel.arrival[me->reader] > hub->clock().now()) return Outcome::kAgain;
  chunk->data = parcel.bytes.data();
  chunk->bytes = parcel.bytes.size();
  chunk->fingerprint = parcel.fingerprint;
  return Outcome::kOk;
}

Outcome release(Link* link) {
  MemLink* me = self(link);
  self(link->endpoint)->hub->consume(me->pipe, me->reader);
  return Outcome::kOk;
}

Outcome progress(Endpoint*) { return Outcome::kAgain; }

void close(Endpoint* endpoint) { std::unique_ptr<MemEndpoint> owned(self(endpoint)); }

}  // namespace

const TransportTable& table() {
  static constexpr TransportTable kTable = {sizeof(TransportTable),
                                            "mem",
                                            open,
                                            describe,
                                            connect,
                                            openLink,
                                            acquire,
                                            commit,
                                            peek,
                                            release,
                                            progress,
                                            close};
  return kTable;
}

}  // namespace omnes::transports::mem
