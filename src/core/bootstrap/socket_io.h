// Reads, writes and waits on sockets: the one place of bootstrap where EINTR, short transfers and
// SIGPIPE are met.
//
// Every descriptor is non-blocking; a wait is always a poll that ends on readiness, on the deadline
// or on abort. Stateless functions, thread-safe for different descriptors.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace omnes::core::bootstrap {

// What may end a wait early. `clock` and the descriptor must outlive the call that is given them.
struct WaitLimits {
  base::Deadline deadline = base::Deadline::never();
  const base::Clock* clock = nullptr;
  int abortFd =
      -1;  // borrowed; readable (an eventfd that was written) means abort; -1 = cannot be aborted
};

enum class IoState : uint8_t { kDone, kAgain, kClosed };
// kDone: `bytes` were moved, at least one unless zero were asked for. kClosed: end of stream, or
// the errno of a connection that is lost.
struct IoResult {
  IoState state = IoState::kAgain;
  size_t bytes = 0;
  int error = 0;
};

IoResult sendSome(int fd, std::span<const uint8_t> bytes);
IoResult receiveSome(int fd, std::span<uint8_t> bytes);

// The status every aborted wait ends with.
base::Status abortedStatus(std::string_view what);
// Waits until fd has one of `events` (or has failed). `what` finishes the sentence "timed out while
// ...". kTimeout, kInvalidUsage (aborted), kSystemError.
base::Status waitFor(int fd, short events, const WaitLimits& limits, std::string_view what);
// Sleeps for `time`, or less when the deadline or abort come first; only abort is an error.
base::Status sleepFor(base::Duration time, const WaitLimits& limits, std::string_view what);
// All of it or an error; a closed connection is kRemoteError. `afterWrite` is called after each
// write, before it is waited for.
base::Status sendAll(int fd, std::span<const uint8_t> bytes, const WaitLimits& limits,
                     std::string_view what, const std::function<void()>& afterWrite = {});
base::Status receiveAll(int fd, std::span<uint8_t> bytes, const WaitLimits& limits,
                        std::string_view what);

// Whether abort has been asked for; never blocks.
bool isAborted(const WaitLimits& limits);

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};
// Who is at the other end of a unix socket, as the kernel recorded it at connect time. Refuses
// (kInvalidUsage) users other than ours and root. Any other socket family gives {0, our uid}.
base::Result<PeerCredentials> checkPeer(int fd);

inline std::span<const uint8_t> bytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace omnes::core::bootstrap
