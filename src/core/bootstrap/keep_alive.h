// How long a connection may be silent before its far end counts as gone, when nobody there can say
// so any more: a host that lost its power or its network.
//
// The kernel asks an idle peer (keep-alive) and gives up on bytes that nobody acknowledges
// (TCP_USER_TIMEOUT). Both ask the far kernel, not the far process: one that is stopped, or busy,
// is not called dead. There is one trap: Linux also applies TCP_USER_TIMEOUT to a window that the
// far process keeps closed by not reading, although its kernel answers. afterWrite() finds out and
// suspends that limit until the window is open again.
//
// One thread at a time per object. Has no effect on unix sockets, whose ends cannot vanish.
#pragma once

#include <chrono>

namespace omnes::core::bootstrap {

// With these a host that has vanished is noticed after some 10 s.
struct SilenceLimits {
  std::chrono::seconds idle{3};
  std::chrono::seconds interval{2};
  int probes = 3;
  std::chrono::milliseconds unacknowledged{10'000};
};

class KeepAlive {
 public:
  KeepAlive() = default;
  // Starts to watch a connection. Borrows `fd` until the object ends.
  explicit KeepAlive(int fd, const SilenceLimits& limits = {});

  // After each write, and each second or so while isSuspended().
  void afterWrite();
  // The peer does not read; only its kernel's answers to window probes count.
  bool isSuspended() const { return isSuspended_; }

 private:
  bool isPeerFull() const;

  int fd_ = -1;  // -1: not TCP, nothing to do
  SilenceLimits limits_;
  bool isSuspended_ = false;
};

}  // namespace omnes::core::bootstrap
