#include "core/bootstrap/local_channel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/fork.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/wire.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr uint32_t kMagic = 0x4c4e4d4fu;  // "OMNL"
constexpr size_t kHeaderBytes = 12;       // magic u32, bytes u32, descriptors u32
constexpr base::Duration kFullPause = std::chrono::milliseconds(1);
// Between looks at the clock; fd() wakes earlier.
constexpr int kLongestNapMs = 1000;

struct ControlBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
};

// The first bytes carry the descriptors; returns how many bytes went, 0 for "would block".
Result<size_t> sendWithDescriptors(int fd, std::span<const int> descriptors,
                                   std::span<const uint8_t> bytes) {
  ControlBuffer control{};
  iovec io{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return size_t{0};
    return Status::fromErrno(errno, "passing descriptors");
  }
}

// Takes ownership of everything in the control data, whatever it is.
void takeDescriptors(msghdr* message, std::vector<base::UniqueFd>* out) {
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      out->emplace_back(fd);
    }
  }
}

struct Received {
  IoResult io;
  bool wasCut = false;  // more descriptors than may be, or than this process can hold
};

Received receiveWithDescriptors(int fd, std::span<uint8_t> bytes,
                                std::vector<base::UniqueFd>* descriptors) {
  ControlBuffer control{};
  iovec io{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  for (;;) {
    const base::ForkGuard guard;  // until their owners have the descriptors
    const ssize_t n = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n < 0) return {{IoState::kClosed, 0, errno}, false};
    takeDescriptors(&message, descriptors);
    const bool wasCut = (message.msg_flags & MSG_CTRUNC) != 0;
    return {{n == 0 ? IoState::kClosed : IoState::kDone, static_cast<size_t>(n), 0}, wasCut};
  }
}

}  // namespace

Result<LocalChannel> LocalChannel::connect(const std::string& address, const LocalIdentity& self,
                                           uint32_t peer, const WaitLimits& limits) {
  OMNES_RETURN_IF_ERROR(initCrypto());
  const std::string what = "connecting to rank " + std::to_string(peer) + " on this host";
  if (!address.starts_with("unix:@")) {
    return Status(Code::kInvalidArgument, "'" + address + "' is not a local address");
  }
  for (;;) {
    if (isAborted(limits)) return abortedStatus(what);
    OMNES_ASSIGN_OR_RETURN(ConnectAttempt attempt, connectOnce(address, limits));
    if (attempt.error == 0) {
      OMNES_ASSIGN_OR_RETURN(const PeerCredentials credentials, checkPeer(attempt.fd.get()));
      ProofInitiator proof(self.secret,
                           {self.commId, self.nranks, self.rank, peer, LinkKind::kShm});
      const Status proven = runProof(attempt.fd.get(), proof, limits);
      if (proven.isOk()) return LocalChannel(std::move(attempt.fd), peer, credentials);
      // Pushed out by strangers before it was proven: try again.
      if (!proof.wasClosed()) return proven.withContext(what);
    } else if (attempt.error != EAGAIN) {
      const Status cause = Status::fromErrno(attempt.error, what);
      return Status(Code::kRemoteError,
                    std::string(cause.message()) + ": is it on another host, or gone?");
    }
    if (limits.deadline.hasPassed(*limits.clock))
      return Status(Code::kTimeout, "timed out while " + what);
    OMNES_RETURN_IF_ERROR(sleepFor(kFullPause, limits, what));
  }
}

Status LocalChannel::send(std::span<const int> descriptors, std::string_view bytes,
                          const WaitLimits& limits) {
  if (descriptors.size() > kMaxDescriptors || bytes.size() > kMaxLocalBytes) {
    return Status(Code::kInvalidArgument,
                  "a local message takes at most 8 descriptors and 4096 bytes, not " +
                      std::to_string(descriptors.size()) + " and " + std::to_string(bytes.size()));
  }
  const std::string what = "handing memory to " + name();
  std::string message(kHeaderBytes, '\0');
  auto* header = reinterpret_cast<uint8_t*>(message.data());
  putLe<uint32_t>(header, kMagic);
  putLe<uint32_t>(header + 4, static_cast<uint32_t>(bytes.size()));
  putLe<uint32_t>(header + 8, static_cast<uint32_t>(descriptors.size()));
  message.append(bytes);
  size_t sent = 0;
  while (sent == 0) {
    const Result<size_t> n = sendWithDescriptors(fd_.get(), descriptors, bytesOf(message));
    if (!n.isOk())
      return Status(Code::kRemoteError, std::string(n.status().withContext(what).message()));
    sent = n.value();
    if (sent == 0) OMNES_RETURN_IF_ERROR(waitFor(fd_.get(), POLLOUT, limits, what));
  }
  return sendAll(fd_.get(), bytesOf(message).subspan(sent), limits, what);
}

Result<LocalMessage> LocalChannel::receive(const WaitLimits& limits) {
  const std::string what = "waiting for memory from " + name();
  const auto nonsense = [&](const char* why) {
    return Status(Code::kRemoteError, name() + " sent " + why);
  };
  LocalMessage message;
  std::array<uint8_t, kHeaderBytes> header;
  for (size_t have = 0; have < header.size();) {
    const Received got =
        receiveWithDescriptors(fd_.get(), std::span(header).subspan(have), &message.descriptors);
    if (got.wasCut && message.descriptors.size() < kMaxDescriptors) {
      return Status(Code::kSystemError, "the descriptors that " + name() +
                                            " sent are more than this process may open; raise its "
                                            "limit (ulimit -n)");
    }
    if (got.wasCut) return nonsense("more descriptors than 8");
    if (got.io.state == IoState::kClosed) {
      return Status(Code::kRemoteError, name() + " hung up while this rank was " + what);
    }
    if (got.io.state == IoState::kAgain)
      OMNES_RETURN_IF_ERROR(waitFor(fd_.get(), POLLIN, limits, what));
    have += got.io.bytes;
  }
  const auto bytes = getLe<uint32_t>(&header[4]);
  if (getLe<uint32_t>(&header[0]) != kMagic || bytes > kMaxLocalBytes)
    return nonsense("what is not a message");
  if (getLe<uint32_t>(&header[8]) != message.descriptors.size())
    return nonsense("a wrong number of descriptors");
  message.bytes.assign(bytes, '\0');
  const std::span<uint8_t> body(reinterpret_cast<uint8_t*>(message.bytes.data()), bytes);
  OMNES_RETURN_IF_ERROR(receiveAll(fd_.get(), body, limits, what));
  return message;
}

Result<std::unique_ptr<LocalListener>> LocalListener::open(const LocalIdentity& self,
                                                           const base::Clock& clock) {
  OMNES_RETURN_IF_ERROR(initCrypto());
  AcceptorOptions options;
  options.address = randomUnixAddress();
  options.secret = self.secret;
  options.expected = {
      .commId = self.commId, .nranks = self.nranks, .to = self.rank, .kind = LinkKind::kShm};
  OMNES_ASSIGN_OR_RETURN(std::unique_ptr<Acceptor> acceptor,
                         Acceptor::listen(std::move(options), clock));
  return std::unique_ptr<LocalListener>(
      new LocalListener(std::move(acceptor)));  // NOLINT: private constructor
}

void LocalListener::step() {
  std::vector<ProvenConnection> proven;
  acceptor_->step(&proven, nullptr);
  for (ProvenConnection& connection : proven) {
    const uint32_t from = connection.hello.identity.from;
    arrived_.insert_or_assign(from, LocalChannel(std::move(connection.fd), from, connection.peer));
  }
}

Result<LocalChannel> LocalListener::accept(uint32_t peer, const WaitLimits& limits) {
  const std::string what = "waiting for rank " + std::to_string(peer) + " on this host to connect";
  for (;;) {
    step();
    const auto found = arrived_.find(peer);
    if (found != arrived_.end()) {
      LocalChannel channel = std::move(found->second);
      arrived_.erase(found);
      return channel;
    }
    // Unlike a meeting, whose strangers give their descriptors back, this will not get better by
    // itself.
    const int acceptErrno = acceptor_->counters().acceptErrno;
    if (acceptErrno == EMFILE || acceptErrno == ENFILE)
      return Status::fromErrno(acceptErrno, "accepting while " + what);
    if (limits.deadline.hasPassed(*limits.clock))
      return Status(Code::kTimeout, "timed out while " + what);
    // The acceptor has times of its own: a paused listener, strangers that grow old.
    WaitLimits nap = limits;
    const int acceptorMs = timeoutMs();
    const int ms = std::clamp(acceptorMs < 0 ? kLongestNapMs : acceptorMs, 1, kLongestNapMs);
    if (limits.deadline.remaining(*limits.clock) > std::chrono::milliseconds(ms)) {
      nap.deadline = base::Deadline::afterMs(*limits.clock, ms);
    }
    const Status status = waitFor(fd(), POLLIN, nap, what);
    if (!status.isOk() && status.code() != Code::kTimeout) return status;
  }
}

}  // namespace omnes::core::bootstrap
