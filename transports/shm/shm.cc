#include "transports/shm/shm.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/memfd.h"
#include "base/status.h"
#include "transports/shm/mapping_cache.h"
#include "transports/shm/segment.h"

namespace omnes::transports::shm {
namespace {

struct ShmLink : Link {
  base::SlotSender sending;
  base::SlotReceiver receiving;
  std::vector<base::SlotTail*> tails;  // of the readers, for a sender
  std::vector<int32_t> readerRanks;
};

struct ShmEndpoint : Endpoint {
  explicit ShmEndpoint(const Layout& how) : layout(how) {}

  Layout layout;
  int32_t rank = 0;
  std::vector<int32_t> members;   // their ranks; a member is a place in this list
  std::vector<int32_t> memberOf;  // by rank; -1 = connected by other means
  int32_t self = 0;               // the own member
  base::UniqueFd memory;
  std::vector<std::shared_ptr<base::Mapping>> segments;  // by member; the own one from open() on
  std::vector<base::Board*> boardList;                   // by rank
  // By direction, stream and member (0 for an outgoing multicast).
  std::vector<std::unique_ptr<ShmLink>> links[2];

  uint8_t* segment(int32_t member) { return reinterpret_cast<uint8_t*>(segments[member]->data()); }
};

ShmEndpoint* self(Endpoint* endpoint) { return static_cast<ShmEndpoint*>(endpoint); }

Outcome fail(Endpoint* endpoint, const base::Status& status) {
  std::snprintf(endpoint->error, kErrorBytes, "%.*s", static_cast<int>(status.message().size()),
                status.message().data());
  return Outcome::kFailed;
}

base::Board* boardOf(ShmEndpoint* me, int32_t member) {
  return reinterpret_cast<base::Board*>(me->segment(member) + Layout::boardOffset());
}

void takeMembers(const OpenParameters& parameters, ShmEndpoint* me) {
  me->rank = parameters.rank;
  me->memberOf.assign(parameters.nranks, -1);
  me->boardList.resize(parameters.nranks);
  const int32_t count = parameters.members == nullptr ? parameters.nranks : parameters.memberCount;
  for (int32_t member = 0; member < count; ++member) {
    const int32_t rank = parameters.members == nullptr ? member : parameters.members[member];
    me->memberOf[rank] = member;
    me->members.push_back(rank);
  }
  me->self = me->memberOf[me->rank];
  me->segments.resize(count);
}

Outcome open(const OpenParameters* parameters, Endpoint** endpoint) {
  const int32_t count =
      parameters->members == nullptr ? parameters->nranks : parameters->memberCount;
  const Layout layout(count, slotBytesFor(count, parameters->slotBytes));
  auto made = std::make_unique<ShmEndpoint>(layout);
  ShmEndpoint* me = made.get();
  *endpoint = made.release();
  me->table = &table();
  takeMembers(*parameters, me);
  auto memory = base::createSharedMemory("omnes", layout.segmentBytes());
  if (!memory.isOk()) return fail(me, memory.status());
  me->memory = std::move(memory).value();
  auto mapping = mapOnce(me->memory.get(), layout.segmentBytes());
  if (!mapping.isOk()) return fail(me, mapping.status());
  me->segments[me->self] = std::move(mapping).value();
  const SegmentHeader header{kMagic, static_cast<uint32_t>(me->rank),
                             static_cast<uint32_t>(layout.members()), layout.slotBytes(),
                             layout.segmentBytes()};
  std::memcpy(me->segment(me->self), &header, sizeof header);
  me->boardList[me->rank] = boardOf(me, me->self);
  return Outcome::kOk;
}

Outcome describe(Endpoint* endpoint, Description* description) {
  ShmEndpoint* me = self(endpoint);
  description->bytes = static_cast<size_t>(
      std::snprintf(description->text, kDescriptionBytes, "shm %zu", me->layout.slotBytes()));
  description->descriptor = me->memory.get();
  description->sockets = 0;
  return Outcome::kOk;
}

// Maps a peer's segment and checks that it is cut as ours.
base::Status mapPeer(ShmEndpoint* me, int32_t member, int descriptor) {
  const int32_t peer = me->members[member];
  auto mapping = mapOnce(descriptor, me->layout.segmentBytes());
  if (!mapping.isOk()) return mapping.status();
  me->segments[member] = std::move(mapping).value();
  SegmentHeader header;
  std::memcpy(&header, me->segment(member), sizeof header);
  if (header.magic != kMagic || header.rank != static_cast<uint32_t>(peer) ||
      header.members != static_cast<uint32_t>(me->layout.members()) ||
      header.slotBytes != me->layout.slotBytes() ||
      header.segmentBytes != me->layout.segmentBytes())
    return base::Status(base::Code::kInvalidUsage,
                        "the shared memory of rank " + std::to_string(peer) +
                            " is cut differently (slots of " + std::to_string(header.slotBytes) +
                            " bytes there, " + std::to_string(me->layout.slotBytes()) +
                            " here); give OMNES_SLOT_BYTES the same value on all ranks");
  me->boardList[peer] = boardOf(me, member);
  return base::Status::ok();
}

Outcome connect(Endpoint* endpoint, const Peer* peers) {
  ShmEndpoint* me = self(endpoint);
  for (int32_t member = 0; member < me->layout.members(); ++member) {
    if (member == me->self) continue;
    const int32_t peer = me->members[member];
    if (peers[peer].descriptor < 0)
      return fail(me, base::Status(base::Code::kInternalError,
                                   "rank " + std::to_string(peer) + " has handed out no memory"));
    const base::Status status = mapPeer(me, member, peers[peer].descriptor);
    if (!status.isOk()) return fail(me, status);
  }
  me->boards = me->boardList.data();
  for (auto& list : me->links) list.resize(static_cast<size_t>(kStreams) * me->layout.members());
  return Outcome::kOk;
}

base::SlotTail* tailAt(ShmEndpoint* me, int32_t reader, int32_t source, uint8_t stream) {
  return reinterpret_cast<base::SlotTail*>(me->segment(reader) +
                                           me->layout.tailOffset(source, stream));
}

void makeSender(ShmEndpoint* me, ShmLink* link, uint8_t stream, int32_t member) {
  const bool multicast = me->layout.streamClass(stream).multicast;
  for (int32_t reader = 0; reader < me->layout.members(); ++reader) {
    if (multicast ? reader == me->self : reader != member) continue;
    link->tails.push_back(tailAt(me, reader, me->self, stream));
    link->readerRanks.push_back(me->members[reader]);
  }
  link->readers = link->readerRanks.data();
  link->sending = base::SlotSender(me->layout.ring(me->segment(me->self), stream, me->self, member),
                                   link->tails.data(), static_cast<uint32_t>(link->tails.size()));
  link->sender = &link->sending;
}

Outcome openLink(Endpoint* endpoint, const LinkShape* shape, Link** out) {
  ShmEndpoint* me = self(endpoint);
  const StreamClass streamClass = me->layout.streamClass(shape->stream);
  const bool isMulticast = shape->outgoing && streamClass.multicast;
  const bool isRank = shape->peer >= 0 && shape->peer < static_cast<int32_t>(me->memberOf.size());
  const int32_t peer = isMulticast ? 0 : isRank ? me->memberOf[shape->peer] : -1;
  if (shape->stream >= kStreams || peer < 0 || (!shape->outgoing && peer == me->self)) {
    return fail(me, base::Status(base::Code::kInternalError,
                                 "shm has no stream " + std::to_string(shape->stream) +
                                     " with rank " + std::to_string(shape->peer)));
  }
  std::unique_ptr<ShmLink>& link =
      me->links[shape->outgoing][static_cast<size_t>(shape->stream) * me->layout.members() + peer];
  if (!link) {
    link = std::make_unique<ShmLink>();
    link->endpoint = me;
    link->slotBytes = streamClass.bodyBytes;
    link->credits = streamClass.slots;
    if (shape->outgoing) {
      makeSender(me, link.get(), shape->stream, peer);
    } else {
      // The slots of a unicast link are the ones that its source keeps for us.
      link->receiving =
          base::SlotReceiver(me->layout.ring(me->segment(peer), shape->stream, peer, me->self),
                             tailAt(me, me->self, peer, shape->stream));
      link->receiver = &link->receiving;
      link->awaited = shape->peer;
    }
  }
  *out = link.get();
  return Outcome::kOk;
}

Outcome acquire(Link* link, size_t bytes, Chunk* chunk) {
  if (!link->sender->tryAcquire()) {
    link->awaited = link->readers[link->sender->slowestReader()];
    return Outcome::kAgain;
  }
  chunk->data = base::slotPayload(link->sender->slot(), bytes);
  chunk->bytes = bytes;
  return Outcome::kOk;
}

Outcome commit(Link* link, size_t, uint64_t fingerprint) {
  link->sender->publish(fingerprint);
  return Outcome::kOk;
}

Outcome peek(Link* link, size_t bytes, Chunk* chunk) {
  if (!link->receiver->tryPeek()) return Outcome::kAgain;
  chunk->data = base::slotPayload(link->receiver->slot(), bytes);
  chunk->bytes = bytes;
  chunk->fingerprint = link->receiver->slot()->fingerprint;
  return Outcome::kOk;
}

Outcome release(Link* link) {
  link->receiver->release();
  return Outcome::kOk;
}

Outcome progress(Endpoint*) { return Outcome::kAgain; }

void close(Endpoint* endpoint) { std::unique_ptr<ShmEndpoint> owned(self(endpoint)); }

}  // namespace

const TransportTable& table() {
  static constexpr TransportTable kTable = {sizeof(TransportTable),
                                            "shm",
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

}  // namespace omnes::transports::shm
