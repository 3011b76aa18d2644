#include "core/bootstrap/acceptor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

namespace omnes::core::bootstrap {

using base::Result;
using base::Status;
using base::TimePoint;

namespace {

// How long the listener rests when the process has no descriptor left to accept with.
constexpr base::Duration kAcceptPause = std::chrono::milliseconds(50);

bool isPassing(int error) {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case EOPNOTSUPP:
    case ENOPROTOOPT:
    case EPERM: return true;  // of one connection, not of the listener (accept(2))
    default: return false;
  }
}

}  // namespace

struct Acceptor::Pending {
  Pending(base::UniqueFd connection, PeerCredentials credentials, const AcceptorOptions& options,
          base::TimePoint now)
      : fd(std::move(connection)),
        peer(credentials),
        proof(options.secret, options.expected, options.wireVersion, options.kinds),
        acceptedAt(now),
        expiresAt(now + options.proofTime) {}

  Peer who() const { return {proof.peer().identity.from, proof.peer().identity.kind}; }

  base::UniqueFd fd;
  PeerCredentials peer;
  ProofAcceptor proof;
  base::TimePoint acceptedAt;
  base::TimePoint expiresAt;
  bool wantsWrite = false;
  bool isLive = false;  // stands in live_
};

Acceptor::Acceptor(AcceptorOptions options, base::Epoll epoll, const base::Clock& clock)
    : options_(std::move(options)), clock_(clock), epoll_(std::move(epoll)) {
  static_assert(sizeof(Pending) <= 4096, "an unproven connection may hold at most 4 KiB");
}

Acceptor::~Acceptor() = default;

Result<std::unique_ptr<Acceptor>> Acceptor::listen(AcceptorOptions options,
                                                   const base::Clock& clock, int* savedErrno) {
  OMNES_RETURN_IF_ERROR(initCrypto());
  OMNES_ASSIGN_OR_RETURN(ListeningSocket socket,
                         listenOn(options.address, options.listen, savedErrno));
  options.address = std::move(socket.address);
  return adopt(std::move(socket.fd), std::move(options), clock);
}

Result<std::unique_ptr<Acceptor>> Acceptor::adopt(base::UniqueFd listener, AcceptorOptions options,
                                                  const base::Clock& clock) {
  OMNES_RETURN_IF_ERROR(initCrypto());
  OMNES_ASSIGN_OR_RETURN(base::Epoll epoll, base::Epoll::open());
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(std::move(options), std::move(epoll), clock));  // NOLINT: private constructor
  OMNES_RETURN_IF_ERROR(
      acceptor->epoll_.add(listener.get(), EPOLLIN, static_cast<uint64_t>(listener.get())));
  acceptor->listener_ = std::move(listener);
  acceptor->address_ = acceptor->options_.address;
  return acceptor;
}

int Acceptor::timeoutMs() const {
  base::TimePoint next{base::Duration::max()};
  if (listenerPaused_) next = resumeAt_;
  if (!pending_.empty()) next = std::min(next, pending_.front()->expiresAt);
  if (next.sinceStart == base::Duration::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - clock_.now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void Acceptor::step(std::vector<ProvenConnection>* proven,
                    std::vector<RefusedConnection>* refused) {
  resumeListening();
  dropExpired();
  epoll_event events[32];
  const int ready =
      ::epoll_wait(epoll_.fd(), events, 32, 0);  // EINTR: the next step sees the same events
  bool mayAccept = false;
  for (int i = 0; i < ready; ++i) {
    const int fd = static_cast<int>(events[i].data.u64);
    if (fd == listener_.get()) {
      mayAccept = true;
      continue;
    }
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [fd](const auto& entry) { return entry->fd.get() == fd; });
    if (found != pending_.end() && advance(**found, proven, refused)) pending_.erase(found);
  }
  // After the others, so that a flood pushes out nobody whose bytes are already here.
  if (mayAccept) acceptAll();
}

void Acceptor::acceptAll() {
  // A bounded number, so that a flood cannot keep the owner from its other work; and a fraction of
  // the room, so that whoever has come gets several turns to answer before it is pushed out.
  const unsigned atOnce = std::max(options_.maxUnproven / 4, 1u);
  for (unsigned i = 0; i < atOnce && listener_.isOpen(); ++i) {
    base::UniqueFd fd = base::UniqueFd::open([this] {
      return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    });
    if (fd.isOpen()) {
      accepted(std::move(fd));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (isPassing(errno)) continue;
    onAcceptError(errno);
    return;
  }
}

void Acceptor::accepted(base::UniqueFd fd) {
  ++counters_.accepted;
  const Result<PeerCredentials> peer = checkPeer(fd.get());
  if (!peer.isOk()) {
    ++counters_.rejected;
    return;
  }
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one,
               sizeof one);  // fails on unix sockets, which need it not
  if (pending_.size() >= options_.maxUnproven) dropOldest();
  if (!epoll_.add(fd.get(), EPOLLIN, static_cast<uint64_t>(fd.get())).isOk()) {
    ++counters_.dropped;
    return;
  }
  pending_.push_back(
      std::make_unique<Pending>(std::move(fd), peer.value(), options_, clock_.now()));
}

void Acceptor::onAcceptError(int error) {
  counters_.acceptErrno = error;
  TimePoint resumeAt = clock_.now() + kAcceptPause;
  if (!pending_.empty()) {
    // The oldest gives a descriptor back, but not before it has had its time to answer: where ranks
    // are more than descriptors they would push each other out for ever.
    const TimePoint mayGoAt = pending_.front()->acceptedAt + kAcceptPause;
    if (mayGoAt <= clock_.now()) {
      dropOldest();  // the listener is still readable, and the next step tries again
      return;
    }
    resumeAt = mayGoAt;
  }
  // Level-triggered readiness would make the owner spin.
  if (epoll_.modify(listener_.get(), 0, static_cast<uint64_t>(listener_.get())).isOk()) {
    listenerPaused_ = true;
    resumeAt_ = resumeAt;
  }
}

void Acceptor::resumeListening() {
  if (!listenerPaused_ || clock_.now() < resumeAt_) return;
  const auto tag = static_cast<uint64_t>(listener_.get());
  listenerPaused_ = !epoll_.modify(listener_.get(), EPOLLIN, tag).isOk();
}

void Acceptor::dropOldest() {
  if (pending_.front()->isLive) live_.erase(pending_.front()->who());
  pending_.erase(pending_.begin());
  ++counters_.dropped;
}

void Acceptor::dropExpired() {
  const base::TimePoint now = clock_.now();
  while (!pending_.empty() && pending_.front()->expiresAt <= now) dropOldest();
}

bool Acceptor::advance(Pending& pending, std::vector<ProvenConnection>* proven,
                       std::vector<RefusedConnection>* refused) {
  driveProof(pending.fd.get(), pending.proof);
  if (pending.proof.state() == ProofState::kDecide) {
    const bool isNew = !options_.refusesDuplicates || live_.insert(pending.who()).second;
    pending.isLive = isNew && options_.refusesDuplicates;
    pending.proof.decide(isNew ? Refusal::kNone : Refusal::kDuplicate);
    driveProof(pending.fd.get(), pending.proof);
  }
  if (pending.proof.state() == ProofState::kFailed) {
    ++counters_.rejected;
    if (pending.isLive) live_.erase(pending.who());
    if (refused != nullptr && pending.proof.isProven()) {
      refused->push_back({pending.proof.peer(), pending.proof.status()});
    }
    return true;
  }
  if (pending.proof.state() == ProofState::kDone && pending.proof.output().empty()) {
    if (!epoll_.remove(pending.fd.get()).isOk()) return true;  // cannot be: it is ours and watched
    ++counters_.proven;
    proven->push_back({std::move(pending.fd), pending.proof.peer(), pending.peer});
    return true;
  }
  updateInterest(pending);
  return false;
}

void Acceptor::updateInterest(Pending& pending) {
  const bool wantsWrite = !pending.proof.output().empty();
  if (wantsWrite == pending.wantsWrite) return;
  pending.wantsWrite = wantsWrite;
  const auto tag = static_cast<uint64_t>(pending.fd.get());
  // Cannot fail on a descriptor of ours; if it did, the connection would run into its time limit.
  (void)epoll_.modify(pending.fd.get(), wantsWrite ? EPOLLOUT : EPOLLIN, tag);
}

void Acceptor::forget(uint32_t from) {
  std::erase_if(live_, [from](const Peer& peer) { return peer.first == from; });
}

bool Acceptor::isOutOfDescriptors() const {
  return listenerPaused_ && pending_.empty() &&
         (counters_.acceptErrno == EMFILE || counters_.acceptErrno == ENFILE);
}

void Acceptor::stopListening() {
  pending_.clear();
  listener_.reset();
  listenerPaused_ = false;
}

base::UniqueFd Acceptor::takeListener() {
  pending_.clear();
  listenerPaused_ = false;
  if (listener_.isOpen()) (void)epoll_.remove(listener_.get());  // watched by nobody else
  return std::move(listener_);
}

}  // namespace omnes::core::bootstrap
