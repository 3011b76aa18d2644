#include "core/bootstrap/keep_alive.h"

#include <linux/sockios.h>
#include <linux/tcp.h>  // not netinet/tcp.h, whose tcp_info ends before what is needed here
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstddef>

namespace omnes::core::bootstrap {
namespace {

// Bytes that stay unacknowledged for longer than this are lost on their way, not refused.
constexpr unsigned kAnswerMs = 1000;

bool setTcp(int fd, int option, int value) {
  return ::setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value) == 0;
}

}  // namespace

KeepAlive::KeepAlive(int fd, const SilenceLimits& limits) : limits_(limits) {
  const int one = 1;
  if (!setTcp(fd, TCP_KEEPIDLE, static_cast<int>(limits.idle.count()))) return;  // a unix socket
  // Best effort: without them the deadlines of the operations still end every wait.
  setTcp(fd, TCP_KEEPINTVL, static_cast<int>(limits.interval.count()));
  setTcp(fd, TCP_KEEPCNT, limits.probes);
  setTcp(fd, TCP_USER_TIMEOUT, static_cast<int>(limits.unacknowledged.count()));
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  fd_ = fd;
}

// Whether bytes wait because the peer's window has no room for them.
bool KeepAlive::isPeerFull() const {
  tcp_info info{};
  socklen_t length = sizeof info;
  int queued = 0;  // sent and not acknowledged, and not sent
  if (::ioctl(fd_, SIOCOUTQ, &queued) != 0) return false;
  if (::getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  if (length < offsetof(tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd) return false;
  const unsigned waiting = info.tcpi_notsent_bytes;
  const unsigned inFlight = static_cast<unsigned>(queued) - waiting;
  const bool isSilent = info.tcpi_unacked != 0 && info.tcpi_last_ack_recv > kAnswerMs;
  return waiting != 0 && !isSilent && info.tcpi_snd_wnd < inFlight + waiting;
}

void KeepAlive::afterWrite() {
  if (fd_ < 0 || isPeerFull() == isSuspended_) return;
  isSuspended_ = !isSuspended_;
  setTcp(fd_, TCP_USER_TIMEOUT,
         isSuspended_ ? 0 : static_cast<int>(limits_.unacknowledged.count()));
}

}  // namespace omnes::core::bootstrap
