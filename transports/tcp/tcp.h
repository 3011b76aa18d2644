// The `tcp` transport: ranks that are joined by stream sockets only.
//
// It never listens, resolves or proves. connect() is handed 1 + dataSockets proven connections with
// each other member, which the endpoint owns from then on: the first one for control, the others
// for data. IPv4, IPv6 and Unix stream sockets all do.
//
// Data sockets carry chunks only, in both directions, and credits travel on the control socket
// only. For a rank that has finished an operation has read every chunk of it: when it closes its
// data sockets nothing is left unread in them, so that the system delivers what is under way to the
// others and then says that it is the end. Were anything unread, it would reset the connection
// instead and throw away what the others still need. Credits that are lost that way at the end hurt
// nobody.
//
// A link is (peer, stream), with the kinds and largest chunks of streams.h. A chunk goes by
// whichever data socket of the peer is free; the receiver puts it in its place by its sequence
// number. An outgoing multicast is one link: a chunk is kept once, and is queued for each of the
// other members. docs/wire.md describes the bytes.
//
// Memory: a link may have `credits` chunks under way, 2 MiB of them (at least twice what plans
// count on, at most 64 chunks). The buffers come from a pool of the endpoint: a sending one is in
// use from acquire() until the chunk is handed to the system, a receiving one from the first byte
// of the chunk until release(). So what is kept is what was once under way at the same time, at
// most 2 MiB a link and direction, and what is used stays in the cache. Beside that 16 KiB an
// endpoint to read into, and less than 4 KiB a member and data socket.
//
// One thread at a time an endpoint, as transport.h says.
#pragma once

#include "transports/transport.h"

namespace omnes::transports::tcp {

const TransportTable& table();

}  // namespace omnes::transports::tcp
