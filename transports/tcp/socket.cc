#include "transports/tcp/socket.h"

#include <sys/socket.h>

#include <cerrno>

namespace omnes::transports::tcp {
namespace {

// Nothing moved; why.
ssize_t refusal(int error) { return error == EAGAIN || error == EWOULDBLOCK ? 0 : -error; }

}  // namespace

ssize_t sendSome(int fd, const uint8_t* data, size_t bytes) {
  for (;;) {
    const ssize_t sent = ::send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return sent;
    if (errno != EINTR) return refusal(errno);
  }
}

ssize_t receiveSome(int fd, std::span<iovec> into) {
  msghdr message{};
  message.msg_iov = into.data();
  message.msg_iovlen = into.size();
  for (;;) {
    const ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT);
    if (got > 0) return got;
    if (got == 0) return kClosed;
    if (errno != EINTR) return refusal(errno);
  }
}

}  // namespace omnes::transports::tcp
