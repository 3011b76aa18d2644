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
// Rules of streams, the same for every transport: streams 1 and 3 (modulo 4) are unicast, streams 0
// and 2 multicast to a fixed group (in this version: all other ranks). See plan/plan.h.
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
};

// Every transport's link starts with this. `sender` or `receiver` is set when the link is a ring
// that the caller may drive inline instead of through the table.
struct Link {
  Endpoint* endpoint = nullptr;
  base::SlotSender* sender = nullptr;
  base::SlotReceiver* receiver = nullptr;
  size_t slotBytes = 0;  // largest chunk
  uint32_t credits = 0;  // chunks that may be under way
};

struct OpenParameters {
  size_t size = sizeof(OpenParameters);
  int32_t rank = 0;
  int32_t nranks = 1;
  size_t slotBytes =
      0;  // of staged slots; 0 = the transport chooses from nranks. Equal on all ranks.
  void* context = nullptr;  // mem: the Hub
};

struct LinkShape {
  bool outgoing = true;
  uint8_t stream = 0;
  int32_t peer = 0;  // the receiver, or the source of an incoming link; ignored by an outgoing
                     // multicast stream
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
  // Writes what peers need to reach it, at most kDescriptionBytes, and a descriptor (borrowed; -1 =
  // none) to hand to the peers on this host, over connections that have proved who they are.
  Outcome (*describe)(Endpoint* endpoint, char* text, size_t* bytes, int* descriptor);
  // Wires up with the peers, given what they described, by rank (own entry ignored). descriptors[r]
  // is borrowed during the call, -1 for a peer on another host. kAgain: call again.
  Outcome (*connect)(Endpoint* endpoint, const char* const* texts, const size_t* bytes,
                     const int* descriptors);
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

  // Moves what needs a caller's time; kAgain when there is nothing to do.
  Outcome (*progress)(Endpoint* endpoint);
  // Frees the endpoint and its links. Never fails, never waits.
  void (*close)(Endpoint* endpoint);
};

}  // namespace omnes::transports
