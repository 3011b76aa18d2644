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
};

struct ShmEndpoint : Endpoint {
  explicit ShmEndpoint(const Layout& how) : layout(how) {}

  Layout layout;
  int32_t rank = 0;
  base::UniqueFd memory;
  std::vector<std::shared_ptr<base::Mapping>> segments;  // by rank; the own one from open() on
  std::vector<base::Board*> boardList;                   // by rank
  // By direction, stream and peer (0 for an outgoing multicast).
  std::vector<std::unique_ptr<ShmLink>> links[2];

  uint8_t* segment(int32_t r) { return reinterpret_cast<uint8_t*>(segments[r]->data()); }
};

ShmEndpoint* self(Endpoint* endpoint) { return static_cast<ShmEndpoint*>(endpoint); }

Outcome fail(Endpoint* endpoint, const base::Status& status) {
  std::snprintf(endpoint->error, kErrorBytes, "%.*s", static_cast<int>(status.message().size()),
                status.message().data());
  return Outcome::kFailed;
}

base::Board* boardOf(ShmEndpoint* me, int32_t rank) {
  return reinterpret_cast<base::Board*>(me->segment(rank) + Layout::boardOffset());
}

Outcome open(const OpenParameters* parameters, Endpoint** endpoint) {
  const Layout layout(parameters->nranks, parameters->slotBytes);
  auto made = std::make_unique<ShmEndpoint>(layout);
  ShmEndpoint* me = made.get();
  *endpoint = made.release();
  me->table = &table();
  me->rank = parameters->rank;
  me->segments.resize(parameters->nranks);
  me->boardList.resize(parameters->nranks);
  auto memory = base::createSharedMemory("omnes", layout.segmentBytes());
  if (!memory.isOk()) return fail(me, memory.status());
  me->memory = std::move(memory).value();
  auto mapping = mapOnce(me->memory, layout.segmentBytes());
  if (!mapping.isOk()) return fail(me, mapping.status());
  me->segments[me->rank] = std::move(mapping).value();
  const SegmentHeader header{kMagic, static_cast<uint32_t>(me->rank),
                             static_cast<uint32_t>(layout.nranks()), layout.slotBytes(),
                             layout.segmentBytes()};
  std::memcpy(me->segment(me->rank), &header, sizeof header);
  me->boardList[me->rank] = boardOf(me, me->rank);
  return Outcome::kOk;
}

Outcome describe(Endpoint* endpoint, char* text, size_t* bytes, int* descriptor) {
  ShmEndpoint* me = self(endpoint);
  *bytes = static_cast<size_t>(
      std::snprintf(text, kDescriptionBytes, "shm %zu", me->layout.slotBytes()));
  *descriptor = me->memory.get();
  return Outcome::kOk;
}

// Maps a peer's segment and checks that it is cut as ours.
base::Status mapPeer(ShmEndpoint* me, int32_t peer, int descriptor) {
  base::UniqueFd borrowed(descriptor);
  auto mapping = mapOnce(borrowed, me->layout.segmentBytes());
  borrowed.release();
  if (!mapping.isOk()) return mapping.status();
  me->segments[peer] = std::move(mapping).value();
  SegmentHeader header;
  std::memcpy(&header, me->segment(peer), sizeof header);
  if (header.magic != kMagic || header.rank != static_cast<uint32_t>(peer) ||
      header.nranks != static_cast<uint32_t>(me->layout.nranks()) ||
      header.slotBytes != me->layout.slotBytes() ||
      header.segmentBytes != me->layout.segmentBytes())
    return base::Status(base::Code::kInvalidUsage,
                        "the shared memory of rank " + std::to_string(peer) +
                            " is cut differently (slots of " + std::to_string(header.slotBytes) +
                            " bytes there, " + std::to_string(me->layout.slotBytes()) +
                            " here); give OMNES_SLOT_BYTES the same value on all ranks");
  me->boardList[peer] = boardOf(me, peer);
  return base::Status::ok();
}

Outcome connect(Endpoint* endpoint, const char* const*, const size_t*, const int* descriptors) {
  ShmEndpoint* me = self(endpoint);
  for (int32_t peer = 0; peer < me->layout.nranks(); ++peer) {
    if (peer == me->rank || descriptors[peer] < 0) continue;
    const base::Status status = mapPeer(me, peer, descriptors[peer]);
    if (!status.isOk()) return fail(me, status);
  }
  me->boards = me->boardList.data();
  for (auto& list : me->links) list.resize(static_cast<size_t>(kStreams) * me->layout.nranks());
  return Outcome::kOk;
}

base::SlotTail* tailAt(ShmEndpoint* me, int32_t reader, int32_t source, uint8_t stream) {
  return reinterpret_cast<base::SlotTail*>(me->segment(reader) +
                                           me->layout.tailOffset(source, stream));
}

void makeSender(ShmEndpoint* me, ShmLink* link, uint8_t stream, int32_t peer) {
  const bool multicast = me->layout.streamClass(stream).multicast;
  for (int32_t reader = 0; reader < me->layout.nranks(); ++reader)
    if (multicast ? reader != me->rank : reader == peer)
      link->tails.push_back(tailAt(me, reader, me->rank, stream));
  link->sending = base::SlotSender(me->layout.ring(me->segment(me->rank), stream, me->rank, peer),
                                   link->tails.data(), static_cast<uint32_t>(link->tails.size()));
  link->sender = &link->sending;
}

Outcome openLink(Endpoint* endpoint, const LinkShape* shape, Link** out) {
  ShmEndpoint* me = self(endpoint);
  const StreamClass& streamClass = me->layout.streamClass(shape->stream);
  if (shape->stream >= kStreams || shape->peer < 0 || shape->peer >= me->layout.nranks() ||
      (!shape->outgoing && shape->peer == me->rank)) {
    return fail(me, base::Status(base::Code::kInternalError,
                                 "shm has no stream " + std::to_string(shape->stream) +
                                     " with rank " + std::to_string(shape->peer)));
  }
  const int32_t peer = shape->outgoing && streamClass.multicast ? 0 : shape->peer;
  std::unique_ptr<ShmLink>& link =
      me->links[shape->outgoing][static_cast<size_t>(shape->stream) * me->layout.nranks() + peer];
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
          base::SlotReceiver(me->layout.ring(me->segment(peer), shape->stream, peer, me->rank),
                             tailAt(me, me->rank, peer, shape->stream));
      link->receiver = &link->receiving;
    }
  }
  *out = link.get();
  return Outcome::kOk;
}

Outcome acquire(Link* link, size_t bytes, Chunk* chunk) {
  if (!link->sender->tryAcquire()) return Outcome::kAgain;
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
