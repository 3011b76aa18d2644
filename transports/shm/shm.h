// The `shm` transport: ranks of one host over sealed memfds; see segment.h for the memory and
// docs/adr/0002-memfd.md for why. Every link is a ring that the executor drives inline.
#pragma once

#include "transports/transport.h"

namespace omnes::transports::shm {

const TransportTable& table();

}  // namespace omnes::transports::shm
