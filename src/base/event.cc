#include "base/event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace omnes::base {

Result<EventFd> EventFd::open() {
  UniqueFd fd = UniqueFd::open([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!fd.isOpen()) return Status::fromErrno(errno, "cannot make an eventfd");
  return EventFd(std::move(fd));
}

void EventFd::signal() const {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full, hence already signalled.
  while (::write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

bool EventFd::drain() const {
  uint64_t count = 0;
  ssize_t got;
  do {
    got = ::read(fd_.get(), &count, sizeof count);
  } while (got < 0 && errno == EINTR);
  return got == sizeof count && count != 0;
}

Result<Epoll> Epoll::open() {
  UniqueFd fd = UniqueFd::open([] { return ::epoll_create1(EPOLL_CLOEXEC); });
  if (!fd.isOpen()) return Status::fromErrno(errno, "cannot make an epoll set");
  return Epoll(std::move(fd));
}

Status Epoll::control(int operation, int fd, uint32_t events, uint64_t tag) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(fd_.get(), operation, fd, &event) == 0) return Status::ok();
  const int error = errno;
  const char* verb = operation == EPOLL_CTL_ADD   ? "add"
                     : operation == EPOLL_CTL_MOD ? "modify"
                                                  : "remove";
  return Status::fromErrno(error, std::string("cannot ") + verb + " descriptor " +
                                      std::to_string(fd) + " in an epoll set");
}

Status Epoll::add(int fd, uint32_t events, uint64_t tag) const {
  return control(EPOLL_CTL_ADD, fd, events, tag);
}

Status Epoll::modify(int fd, uint32_t events, uint64_t tag) const {
  return control(EPOLL_CTL_MOD, fd, events, tag);
}

Status Epoll::remove(int fd) const { return control(EPOLL_CTL_DEL, fd, 0, 0); }

Result<size_t> Epoll::wait(Deadline deadline, const Clock& clock,
                           std::span<epoll_event> ready) const {
  for (;;) {
    const int count =
        epoll_wait(fd_.get(), ready.data(), static_cast<int>(ready.size()), deadline.pollMs(clock));
    if (count > 0) return static_cast<size_t>(count);
    if (count < 0 && errno != EINTR) return Status::fromErrno(errno, "cannot wait on an epoll set");
    if (deadline.hasPassed(clock)) return size_t{0};
  }
}

}  // namespace omnes::base
