// Names of hosts to addresses, within a deadline.
//
// The system's resolver cannot be interrupted, and may take half a minute for a server that does
// not answer. So it is asked in a thread of its own, which is abandoned when the deadline passes or
// the wait is aborted: it ends by itself when the resolver gives up. getaddrinfo_a would do the
// same with a queue that the whole process shares, and its own cancelling blocks.
//
// Stateless, thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {

using AddressList = base::Result<std::vector<SocketAddress>>;

// Asks the system at once, in this thread. `flags` as AI_NUMERICHOST, with which it never blocks.
// kSystemError says why there is no address; a list that is returned is not empty.
AddressList lookUp(const std::string& host, const std::string& port, int flags);

// kTimeout: no answer in time; kInvalidUsage: aborted; otherwise as lookUp().
AddressList resolveName(const std::string& host, const std::string& port, const WaitLimits& limits);
// The same with a resolver of the test's own; `ask` may outlive the call, so it must own what it
// uses.
AddressList resolveNameWith(std::function<AddressList()> ask, const std::string& host,
                            const WaitLimits& limits);

}  // namespace omnes::core::bootstrap
