// The one interface between omnes and a way to move bytes: a C table of ten functions.
//
// A transport moves ordered chunks one way between two ranks, or from one rank to a group (a link).
// It sees ranks, streams and bytes; never a communicator, a collective or an element type.
// Pipelining, fusing, deadlines and errors of operations are the executor's. No function waits;
// "not now" is kAgain. Completion is found by polling. An endpoint and its links are driven by one
// thread at a time.
//
// Shared memory links expose their rings (Link::sender, Link::receiver), which the executor then
// drives inline; the four data functions serve everybody else, with the same meaning.
//
// Ranks are numbers of the communicator everywhere in this interface. An endpoint connects its
// rank to some of the others, its members (of one communicator, shared memory may connect those of
// this host and TCP the rest); a multicast goes to all other members.
//
// Rules of streams, the same for every transport: streams.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/board.h"
#include "base/slot_ring.h"

namespace omnes::transports {

enum class Outcome : uint8_t {
  kOk = 0,
  kAgain = 1,     // nothing happened; poll again
  kFailed = 2,    // Endpoint::error says why; the endpoint is only good for close()
  kPeerGone = 3,  // as kFailed; Endpoint::failedPeer died
};

inline constexpr size_t kErrorBytes = 512;
inline constexpr size_t kDescriptionBytes = 4096;

struct TransportTable;

// Every transport's endpoint starts with this.
struct Endpoint {
  const TransportTable* table = nullptr;
  int32_t failedPeer = -1;
  char error[kErrorBytes] = {};  // text of the last failure, with the remedy
  // Where ranks say what they are doing, if the transport has such a place: boards[r] is rank r's
  // (owned by the endpoint), null where it cannot be read from here. boards is null when there are
  // none, or before connect().
  base::Board* const* boards = nullptr;
  // Readable when progress() has something to do; a sleeper polls it. -1: nothing to sleep on,
  // since chunks come without a call of ours.
  int pollFd = -1;
  // Committed or released, but not on its way before progress() has been called again. An operation
  // has not ended while this is true: nobody may call for a long time after it.
  bool hasUnsent = false;
};

// Every transport's link starts with this. `sender` or `receiver` is set when the link is a ring
// that the caller may drive inline instead of through the table.
struct Link {
  Endpoint* endpoint = nullptr;
  base::SlotSender* sender = nullptr;
  base::SlotReceiver* receiver = nullptr;
  size_t slotBytes = 0;  // largest chunk
  uint32_t credits = 0;  // chunks that may be under way
  // The rank that it waits for after kAgain, -1 when that is not known. For a sending ring:
  // readers[sender->slowestReader()].
  int32_t awaited = -1;
  const int32_t* readers = nullptr;
};

struct OpenParameters {
  size_t size = sizeof(OpenParameters);
  int32_t rank = 0;
  int32_t nranks = 1;
  // Global ranks in ascending order, `rank` among them; borrowed during open(). Null: all ranks.
  const int32_t* members = nullptr;
  int32_t memberCount = 0;
  size_t slotBytes = 0;  // of staged slots, see streams.h. Equal on all ranks, whatever transport.
  int32_t dataSockets = 1;  // tcp: connections that carry chunks, beside the one for control
  void* context = nullptr;  // mem: the Hub
};

struct LinkShape {
  bool outgoing = true;
  uint8_t stream = 0;
  int32_t peer = 0;  // the receiver, or the source of an incoming link; ignored by an outgoing
                     // multicast stream
};

// What peers need to reach an endpoint.
struct Description {
  char text[kDescriptionBytes] = {};  // carried to all members
  size_t bytes = 0;
  // To hand to the members over connections that have proved who they are; borrowed. -1 = none.
  int descriptor = -1;
  // How many connections of the network it wants with each member, proven and handed to connect().
  int32_t sockets = 0;
};

// What one member sent us. Everything is borrowed during connect(), except for the sockets.
struct Peer {
  const char* text = "";
  size_t bytes = 0;
  int descriptor = -1;  // -1 = the member has none
  // As many as were wanted, in the same order at both ends; non-blocking, close-on-exec. The
  // endpoint owns them from the call on, also when it fails. Null when none were wanted.
  const int* sockets = nullptr;
};

struct Chunk {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  uint64_t fingerprint = 0;
};

struct TransportTable {
  size_t size;
  const char* name;

  // Makes an endpoint that can be described to peers. On failure *endpoint may still be set, for
  // its error text.
  Outcome (*open)(const OpenParameters* parameters, Endpoint** endpoint);
  Outcome (*describe)(Endpoint* endpoint, Description* description);
  // Wires up with the members. `peers` has one entry a rank of the communicator; the own one and
  // those of other ranks than members are ignored. kAgain: call again, with the same peers but no
  // sockets.
  Outcome (*connect)(Endpoint* endpoint, const Peer* peers);
  // Names one link. Links persist; naming the same one again gives the same object, owned by the
  // endpoint.
  Outcome (*openLink)(Endpoint* endpoint, const LinkShape* shape, Link** link);

  // Sender: a slot for the next chunk of `bytes`; data is valid until commit(). Asked again before
  // that, it names the same slot.
  Outcome (*acquire)(Link* link, size_t bytes, Chunk* chunk);
  Outcome (*commit)(Link* link, size_t bytes, uint64_t fingerprint);
  // Receiver: the next chunk, `bytes` long as far as the caller expects; valid until release().
  Outcome (*peek)(Link* link, size_t bytes, Chunk* chunk);
  Outcome (*release)(Link* link);

  // Moves what needs a caller's time; kOk when something moved, kAgain when there was nothing to
  // do.
  Outcome (*progress)(Endpoint* endpoint);
  // Frees the endpoint and its links. Never fails, never waits.
  void (*close)(Endpoint* endpoint);
};

}  // namespace omnes::transports
