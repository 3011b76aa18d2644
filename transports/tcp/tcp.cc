#include "transports/tcp/tcp.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/event.h"
#include "base/fd.h"
#include "base/status.h"
#include "transports/tcp/member.h"
#include "transports/tcp/window.h"

namespace omnes::transports::tcp {
namespace {

constexpr int kEvents = 64;
// A member's sockets are told apart by one byte.
constexpr int32_t kMostDataSockets = (1 << Member::kSocketBits) - 1;

struct TcpEndpoint : Endpoint {
  TcpEndpoint(const OpenParameters& parameters, size_t slots)
      : rank(parameters.rank), dataSockets(parameters.dataSockets), shared(this, slots) {}

  int32_t rank;
  int32_t dataSockets;
  std::string version;  // what peers compare with theirs
  Shared shared;
  std::optional<base::Epoll> epoll;
  std::vector<int32_t> placeOf;                  // by rank: its place in members; -1 = none of ours
  std::vector<std::unique_ptr<Member>> members;  // null for the own rank
  std::vector<std::unique_ptr<Outgoing>> links;  // outgoing, by stream and place (multicast: 0)
};

TcpEndpoint* self(Endpoint* endpoint) { return static_cast<TcpEndpoint*>(endpoint); }
Outgoing* outgoing(Link* link) { return static_cast<Outgoing*>(link); }
Incoming* incoming(Link* link) { return static_cast<Incoming*>(link); }

Outcome fail(Endpoint* endpoint, const std::string& text) {
  std::snprintf(endpoint->error, kErrorBytes, "%s", text.c_str());
  return Outcome::kFailed;
}

Outcome gone(TcpEndpoint* me, const Member& member) {
  me->failedPeer = member.rank();
  fail(me, member.whyGone());
  return Outcome::kPeerGone;
}

// A failure of the endpoint stays.
bool hasFailed(TcpEndpoint* me) { return !me->shared.failure.empty(); }
Outcome failure(TcpEndpoint* me) { return fail(me, me->shared.failure); }

Outcome open(const OpenParameters* parameters, Endpoint** endpoint) {
  const int32_t count =
      parameters->members == nullptr ? parameters->nranks : parameters->memberCount;
  auto made =
      std::make_unique<TcpEndpoint>(*parameters, slotBytesFor(count, parameters->slotBytes));
  TcpEndpoint* me = made.get();
  *endpoint = made.release();
  me->table = &table();
  if (me->dataSockets < 1 || me->dataSockets > kMostDataSockets)
    return fail(me, "tcp cannot use " + std::to_string(me->dataSockets) +
                        " data sockets a peer; 1 to " + std::to_string(kMostDataSockets) + " do");
  me->version = "tcp " + std::to_string(kFrameVersion) + " " +
                std::to_string(me->shared.slotBytes) + " " + std::to_string(me->dataSockets);
  me->placeOf.assign(parameters->nranks, -1);
  me->members.resize(count);
  for (int32_t place = 0; place < count; ++place) {
    const int32_t rank = parameters->members == nullptr ? place : parameters->members[place];
    me->placeOf[rank] = place;
    if (rank != me->rank) me->members[place] = std::make_unique<Member>(&me->shared, place, rank);
  }
  me->links.resize(static_cast<size_t>(kStreams) * count);
  auto epoll = base::Epoll::open();
  if (!epoll.isOk()) return fail(me, std::string(epoll.status().message()));
  me->epoll.emplace(std::move(epoll).value());
  me->shared.epoll = &*me->epoll;
  me->pollFd = me->epoll->fd();
  return Outcome::kOk;
}

Outcome describe(Endpoint* endpoint, Description* description) {
  TcpEndpoint* me = self(endpoint);
  description->bytes = static_cast<size_t>(
      std::snprintf(description->text, kDescriptionBytes, "%s", me->version.c_str()));
  description->descriptor = -1;
  description->sockets = 1 + me->dataSockets;
  return Outcome::kOk;
}

base::Status connectMember(TcpEndpoint* me, Member* member, const Peer& peer,
                           std::vector<base::UniqueFd> sockets) {
  const std::string rank = "rank " + std::to_string(member->rank());
  const std::string theirs(peer.text, peer.bytes);
  if (theirs != me->version)
    return base::Status(base::Code::kInvalidUsage,
                        rank +
                            " uses tcp in another way (version, bytes of a slot, data sockets): "
                            "\"" +
                            theirs + "\" there, \"" + me->version +
                            "\" here; give OMNES_SLOT_BYTES and OMNES_TCP_SOCKETS the same value "
                            "on all ranks");
  for (const base::UniqueFd& socket : sockets)
    if (!socket.isOpen())
      return base::Status(base::Code::kInternalError, "a connection with " + rank + " is missing");
  if (sockets.empty())
    return base::Status(base::Code::kInternalError, "there are no connections with " + rank);
  return member->takeSockets(std::move(sockets));
}

Outcome connect(Endpoint* endpoint, const Peer* peers) {
  TcpEndpoint* me = self(endpoint);
  // They are ours whatever happens.
  std::vector<std::vector<base::UniqueFd>> sockets(me->members.size());
  for (size_t place = 0; place < me->members.size(); ++place) {
    const Member* member = me->members[place].get();
    const int* fds = member == nullptr ? nullptr : peers[member->rank()].sockets;
    for (int32_t i = 0; fds != nullptr && i <= me->dataSockets; ++i)
      sockets[place].emplace_back(fds[i]);
  }
  for (size_t place = 0; place < me->members.size(); ++place) {
    Member* member = me->members[place].get();
    if (member == nullptr) continue;
    const base::Status status =
        connectMember(me, member, peers[member->rank()], std::move(sockets[place]));
    if (!status.isOk()) return fail(me, std::string(status.message()));
  }
  return Outcome::kOk;
}

void makeOutgoing(TcpEndpoint* me, std::unique_ptr<Outgoing>* link, uint8_t stream, int32_t place,
                  bool isMulticast) {
  std::vector<int32_t> readers;
  for (int32_t other = 0; other < static_cast<int32_t>(me->members.size()); ++other)
    if (me->members[other] && (isMulticast || other == place)) readers.push_back(other);
  *link = std::make_unique<Outgoing>(me, stream, me->shared.slotBytes, std::move(readers));
  for (size_t i = 0; i < (*link)->readers().size(); ++i)
    me->members[(*link)->readers()[i]]->addReader(link->get(), i);
}

Outcome openLink(Endpoint* endpoint, const LinkShape* shape, Link** link) {
  TcpEndpoint* me = self(endpoint);
  const bool isStream = shape->stream < kStreams;
  const bool isMulticast =
      isStream && shape->outgoing && streamClass(shape->stream, me->shared.slotBytes).multicast;
  const bool isRank = shape->peer >= 0 && shape->peer < static_cast<int32_t>(me->placeOf.size());
  const int32_t place = isMulticast ? 0 : isRank ? me->placeOf[shape->peer] : -1;
  if (!isStream || place < 0 || (!isMulticast && !me->members[place]))
    return fail(me, "tcp has no stream " + std::to_string(shape->stream) + " with rank " +
                        std::to_string(shape->peer));
  if (!shape->outgoing) {
    *link = me->members[place]->incoming(shape->stream);
    return Outcome::kOk;
  }
  std::unique_ptr<Outgoing>& made = me->links[shape->stream * me->members.size() + place];
  if (!made) makeOutgoing(me, &made, shape->stream, place, isMulticast);
  *link = made.get();
  return Outcome::kOk;
}

Outcome acquire(Link* link, size_t bytes, Chunk* chunk) {
  Outgoing* out = outgoing(link);
  TcpEndpoint* me = self(link->endpoint);
  // What was given stays given: whoever asks again does so without looking at the answer.
  if (out->held == nullptr) {
    if (hasFailed(me)) return failure(me);
    if (bytes > link->slotBytes)
      return fail(me, "a chunk of " + std::to_string(bytes) + " bytes does not fit in a slot of " +
                          std::to_string(link->slotBytes));
    for (const int32_t reader : out->readers())
      if (!me->members[reader]->canSend()) return gone(me, *me->members[reader]);
    if (!out->hasCredit()) {
      link->awaited = me->members[out->readers()[out->slowest()]]->rank();
      return Outcome::kAgain;
    }
    out->held = me->shared.poolOf(out->stream())->take();
  }
  chunk->data = out->held->payload();
  chunk->bytes = bytes;
  return Outcome::kOk;
}

Outcome commit(Link* link, size_t bytes, uint64_t fingerprint) {
  Outgoing* out = outgoing(link);
  TcpEndpoint* me = self(link->endpoint);
  if (hasFailed(me)) return failure(me);
  if (out->held == nullptr || bytes > link->slotBytes)
    return fail(me, "a chunk was committed without a slot that holds it");
  Buffer* buffer = std::exchange(out->held, nullptr);
  encode(ChunkHeader{out->stream(), bytes, out->next(), fingerprint}, buffer->frame());
  buffer->frameBytes = kChunkHeaderBytes + bytes;
  for (const int32_t reader : out->readers()) me->members[reader]->send(buffer);
  BufferPool::drop(buffer);
  if (hasFailed(me)) return failure(me);
  for (const int32_t reader : out->readers())
    if (!me->members[reader]->canSend()) return gone(me, *me->members[reader]);
  return Outcome::kOk;
}

Outcome peek(Link* link, size_t, Chunk* chunk) {
  Incoming* in = incoming(link);
  TcpEndpoint* me = self(link->endpoint);
  if (const Incoming::Slot* slot = in->front(); slot != nullptr) {
    *chunk = {slot->buffer->payload(), slot->bytes, slot->fingerprint};
    return Outcome::kOk;
  }
  if (hasFailed(me)) return failure(me);
  const Member& member = *me->members[me->placeOf[link->awaited]];
  return member.canReceive() ? Outcome::kAgain : gone(me, member);
}

Outcome release(Link* link) {
  Incoming* in = incoming(link);
  TcpEndpoint* me = self(link->endpoint);
  if (in->front() == nullptr) return fail(me, "a chunk was released that is not there");
  in->pop();
  me->members[me->placeOf[link->awaited]]->consumed(in);
  return Outcome::kOk;
}

Outcome progress(Endpoint* endpoint) {
  TcpEndpoint* me = self(endpoint);
  if (hasFailed(me)) return failure(me);
  epoll_event events[kEvents];
  // -1 is EINTR: the next call sees the same events.
  const int count = ::epoll_wait(me->epoll->fd(), events, kEvents, 0);
  if (count < 0 && errno != EINTR) {
    me->shared.failure = base::Status::fromErrno(errno, "cannot poll the connections").message();
    return failure(me);
  }
  bool moved = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t tag = events[i].data.u64;
    const size_t socket = tag & ((1u << Member::kSocketBits) - 1);
    moved |= me->members[tag >> Member::kSocketBits]->onEvent(socket, events[i].events);
  }
  if (me->hasUnsent)
    for (const std::unique_ptr<Member>& member : me->members)
      if (member) moved |= member->flush();
  if (hasFailed(me)) return failure(me);
  return moved ? Outcome::kOk : Outcome::kAgain;
}

void close(Endpoint* endpoint) { std::unique_ptr<TcpEndpoint> owned(self(endpoint)); }

}  // namespace

const TransportTable& table() {
  static constexpr TransportTable kTable = {sizeof(TransportTable),
                                            "tcp",
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

}  // namespace omnes::transports::tcp
