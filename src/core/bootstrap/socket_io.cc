#include "core/bootstrap/socket_io.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Status;

std::string sentence(const char* start, std::string_view what) {
  std::string text(start);
  return text.append(what);
}

Status closedStatus(const IoResult& result, std::string_view what) {
  if (result.error == 0) {
    return Status(Code::kRemoteError,
                  sentence("the other side closed the connection while ", what));
  }
  const Status cause = Status::fromErrno(result.error, sentence("connection lost while ", what));
  return Status(Code::kRemoteError, std::string(cause.message()));
}

// One poll, EINTR restarted by the caller's loop. Returns the number of ready descriptors, or -1
// with errno.
int pollOnce(pollfd* fds, nfds_t count, const WaitLimits& limits) {
  const int ready = ::poll(fds, count, limits.deadline.pollMs(*limits.clock));
  if (ready < 0 && errno == EINTR) return 0;
  return ready;
}

}  // namespace

IoResult sendSome(int fd, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return {IoState::kDone, 0, 0};
  for (;;) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return {IoState::kDone, static_cast<size_t>(n), 0};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return {IoState::kAgain, 0, 0};
    return {IoState::kClosed, 0, errno};
  }
}

IoResult receiveSome(int fd, std::span<uint8_t> bytes) {
  if (bytes.empty()) return {IoState::kDone, 0, 0};
  for (;;) {
    const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) return {IoState::kDone, static_cast<size_t>(n), 0};
    if (n == 0) return {IoState::kClosed, 0, 0};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoState::kAgain, 0, 0};
    return {IoState::kClosed, 0, errno};
  }
}

Status abortedStatus(std::string_view what) {
  return Status(Code::kInvalidUsage, sentence("aborted by this process while ", what));
}

bool isAborted(const WaitLimits& limits) {
  if (limits.abortFd < 0) return false;
  pollfd abort{limits.abortFd, POLLIN, 0};
  return ::poll(&abort, 1, 0) > 0;
}

Status waitFor(int fd, short events, const WaitLimits& limits, std::string_view what) {
  for (;;) {
    pollfd fds[2] = {{fd, events, 0}, {limits.abortFd, POLLIN, 0}};
    const int ready = pollOnce(fds, limits.abortFd < 0 ? 1 : 2, limits);
    if (ready < 0) return Status::fromErrno(errno, sentence("poll failed while ", what));
    if (limits.abortFd >= 0 && fds[1].revents != 0) return abortedStatus(what);
    if (fds[0].revents != 0) return Status::ok();
    if (limits.deadline.hasPassed(*limits.clock)) {
      return Status(Code::kTimeout, sentence("timed out while ", what));
    }
  }
}

Status sleepFor(base::Duration time, const WaitLimits& limits, std::string_view what) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  WaitLimits nap = limits;
  if (limits.deadline.remaining(*limits.clock) > time) {
    nap.deadline = base::Deadline::afterMs(*limits.clock, ms);
  }
  const Status status = waitFor(-1, 0, nap, what);
  return status.code() == Code::kTimeout ? Status::ok() : status;
}

Status sendAll(int fd, std::span<const uint8_t> bytes, const WaitLimits& limits,
               std::string_view what, const std::function<void()>& afterWrite) {
  while (!bytes.empty()) {
    const IoResult result = sendSome(fd, bytes);
    if (result.state == IoState::kClosed) return closedStatus(result, what);
    if (afterWrite) afterWrite();
    if (result.state == IoState::kAgain) OMNES_RETURN_IF_ERROR(waitFor(fd, POLLOUT, limits, what));
    bytes = bytes.subspan(result.bytes);
  }
  return Status::ok();
}

Status receiveAll(int fd, std::span<uint8_t> bytes, const WaitLimits& limits,
                  std::string_view what) {
  while (!bytes.empty()) {
    const IoResult result = receiveSome(fd, bytes);
    if (result.state == IoState::kClosed) return closedStatus(result, what);
    if (result.state == IoState::kAgain) OMNES_RETURN_IF_ERROR(waitFor(fd, POLLIN, limits, what));
    bytes = bytes.subspan(result.bytes);
  }
  return Status::ok();
}

base::Result<PeerCredentials> checkPeer(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Status::fromErrno(errno, "getsockname");
  }
  if (address.ss_family != AF_UNIX) return PeerCredentials{0, ::geteuid()};
  ucred credentials{};
  length = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return Status::fromErrno(errno, "SO_PEERCRED");
  }
  if (credentials.uid != ::geteuid() && credentials.uid != 0) {
    return Status(Code::kInvalidUsage, "the process " + std::to_string(credentials.pid) +
                                           " at the other end belongs to user " +
                                           std::to_string(credentials.uid) + ", not to user " +
                                           std::to_string(::geteuid()) + " or root");
  }
  return PeerCredentials{credentials.pid, credentials.uid};
}

}  // namespace omnes::core::bootstrap
