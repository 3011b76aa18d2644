// Sleeping and waking: owners of an eventfd and of an epoll set. Interruptions by signals are
// invisible.
//
// Thread-safety: EventFd::signal() from any thread or process that has the descriptor; Epoll::add()
// and remove() from any thread, wait() from several at once.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace omnes::base {

// A flag that can be slept on. Signals before a drain() merge into one.
class EventFd {
 public:
  static Result<EventFd> open();
  // Takes over a descriptor that a peer has sent. It must be non-blocking, since signal() must not
  // wait.
  static EventFd adopt(UniqueFd fd) { return EventFd(std::move(fd)); }

  int fd() const { return fd_.get(); }
  // Wakes whoever sleeps on it, and the next who will. Never blocks; cannot fail on a valid
  // descriptor.
  void signal() const;
  // Takes the signals so far away. Whether there was one.
  bool drain() const;

 private:
  explicit EventFd(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

class Epoll {
 public:
  static Result<Epoll> open();

  // `events` as EPOLLIN | ...; `tag` comes back in epoll_event::data.u64. Borrows `fd` until it is
  // removed or closed everywhere.
  Status add(int fd, uint32_t events, uint64_t tag) const;
  Status modify(int fd, uint32_t events, uint64_t tag) const;
  Status remove(int fd) const;

  // Sleeps until something is ready or the deadline has passed; returns how many entries of `ready`
  // are filled, 0 only at the deadline. An already passed deadline still polls once.
  Result<size_t> wait(Deadline deadline, const Clock& clock, std::span<epoll_event> ready) const;

  int fd() const { return fd_.get(); }

 private:
  explicit Epoll(UniqueFd fd) : fd_(std::move(fd)) {}
  Status control(int operation, int fd, uint32_t events, uint64_t tag) const;
  UniqueFd fd_;
};

}  // namespace omnes::base
