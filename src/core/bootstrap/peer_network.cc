#include "core/bootstrap/peer_network.h"

#include <errno.h>
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/bootstrap/outgoing_link.h"
#include "core/bootstrap/rank_list.h"
#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;
using base::TimePoint;

// Attempts under way at once: no more than a listener holds unproven, so that the ranks do not push
// each other out.
constexpr size_t kMaxUnderWay = 32;
// Between looks at the clock; descriptors wake earlier.
constexpr base::Duration kLongestNap = std::chrono::seconds(1);
constexpr const char* kWhat = "connecting to the other ranks over TCP";

bool isHungUp(int fd) {
  pollfd entry{fd, POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

Result<std::unique_ptr<PeerNetwork>> PeerNetwork::open(const LocalIdentity& self,
                                                       const NetworkOptions& options,
                                                       const base::Clock& clock) {
  OMNES_RETURN_IF_ERROR(initCrypto());
  OMNES_ASSIGN_OR_RETURN(const std::optional<std::string> host, chooseHost(options));
  if (!host.has_value()) {
    return Status(
        Code::kSystemError,
        "no network interface is up, so ranks on other hosts cannot be reached; bring one "
        "up, the loopback for ranks of one host");
  }
  AcceptorOptions accept;
  accept.address = "tcp:" + *host + ":0";
  Result<base::PortRange> ports = base::parsePortRange(options.ports);
  if (!ports.isOk()) return ports.status().withContext("OMNES_PORT_RANGE");
  accept.listen.ports = ports.value();
  accept.secret = self.secret;
  accept.expected = {
      .commId = self.commId, .nranks = self.nranks, .to = self.rank, .kind = LinkKind::kTcp};
  accept.kinds = kMaxSocketsPerPeer;
  OMNES_ASSIGN_OR_RETURN(std::unique_ptr<Acceptor> acceptor,
                         Acceptor::listen(std::move(accept), clock));
  return std::unique_ptr<PeerNetwork>(
      new PeerNetwork(self, std::move(acceptor)));  // NOLINT: private constructor
}

Status PeerNetwork::checkArguments(const std::vector<int32_t>& peers,
                                   const std::vector<std::string>& addresses,
                                   uint32_t count) const {
  const auto refuse = [](std::string text) {
    return Status(Code::kInvalidArgument, std::move(text));
  };
  if (count == 0 || count > kMaxSocketsPerPeer) {
    return refuse(std::to_string(count) + " sockets between two ranks; valid: 1 to " +
                  std::to_string(kMaxSocketsPerPeer));
  }
  if (addresses.size() != self_.nranks) {
    return refuse(std::to_string(addresses.size()) + " addresses for " +
                  std::to_string(self_.nranks) + " ranks");
  }
  std::set<int32_t> seen;
  for (const int32_t peer : peers) {
    const auto rank = static_cast<uint32_t>(peer);
    if (rank >= self_.nranks || rank == self_.rank || !seen.insert(peer).second)
      return refuse("rank " + std::to_string(peer) + " is not another rank, or is named twice");
  }
  return Status::ok();
}

void PeerNetwork::takeArrivals() {
  std::vector<ProvenConnection> proven;
  std::vector<RefusedConnection> refused;
  acceptor_->step(&proven, &refused);
  for (ProvenConnection& connection : proven) {
    const ProofIdentity& who = connection.hello.identity;
    const uint32_t socket = static_cast<uint32_t>(who.kind) - static_cast<uint32_t>(LinkKind::kTcp);
    if (who.from > self_.rank) {
      arrived_.insert_or_assign({who.from, socket}, std::move(connection.fd));
    } else {
      acceptor_->forget(who.from, who.kind);  // the lower one never connects; closed here
    }
  }
  // A rank that has lost its connection without knowing that it was proven comes again, and must
  // not be refused for the sake of the lost one.
  for (const RefusedConnection& connection : refused) {
    const ProofIdentity& who = connection.hello.identity;
    const uint32_t socket = static_cast<uint32_t>(who.kind) - static_cast<uint32_t>(LinkKind::kTcp);
    const auto found = arrived_.find({who.from, socket});
    if (found == arrived_.end() || !isHungUp(found->second.get())) continue;
    arrived_.erase(found);
    acceptor_->forget(who.from, who.kind);
  }
}

// One call of connectAll().
class PeerNetwork::Round {
 public:
  Round(PeerNetwork& network, const std::vector<int32_t>& peers,
        const std::vector<std::string>& addresses, uint32_t count, const WaitLimits& limits)
      : network_(network),
        self_(network.self_),
        peers_(peers),
        addresses_(addresses),
        count_(count),
        limits_(limits) {}

  Status prepare();
  Status run();
  std::vector<std::vector<base::UniqueFd>> take();

 private:
  const std::string& addressOf(uint32_t rank) const { return addresses_[rank]; }
  bool isDone() const;
  bool hasArrived(uint32_t peer) const;
  Status stepLinks();
  Status wait();
  base::Duration longestNap(TimePoint now) const;
  Status timeoutStatus() const;

  PeerNetwork& network_;
  const LocalIdentity& self_;
  const std::vector<int32_t>& peers_;
  const std::vector<std::string>& addresses_;
  const uint32_t count_;
  const WaitLimits& limits_;
  // Sockets of one index side by side, nearest peers first: so the ranks do not all begin with
  // rank 0. The first nextLink_ have been started.
  std::vector<OutgoingLink> links_;
  size_t nextLink_ = 0;
  std::vector<size_t> underWay_;  // of links_, started and not done
};

Status PeerNetwork::Round::prepare() {
  std::vector<uint32_t> lower;
  for (const int32_t peer : peers_)
    if (static_cast<uint32_t>(peer) < self_.rank) lower.push_back(static_cast<uint32_t>(peer));
  std::sort(lower.rbegin(), lower.rend());
  for (uint32_t socket = 0; socket < count_; ++socket) {
    for (const uint32_t peer : lower) {
      const Result<SocketAddress> address = numericAddress(addressOf(peer));
      if (!address.isOk() || address.value().isUnix()) {
        return Status(Code::kRemoteError, "rank " + std::to_string(peer) + " gave '" +
                                              addressOf(peer) + "' as its address, which is none");
      }
      links_.emplace_back(
          self_.secret,
          ProofIdentity{self_.commId, self_.nranks, self_.rank, peer, tcpKind(socket)},
          address.value());
    }
  }
  return Status::ok();
}

bool PeerNetwork::Round::hasArrived(uint32_t peer) const {
  for (uint32_t socket = 0; socket < count_; ++socket)
    if (!network_.arrived_.contains({peer, socket})) return false;
  return true;
}

bool PeerNetwork::Round::isDone() const {
  if (nextLink_ < links_.size() || !underWay_.empty()) return false;
  return std::all_of(peers_.begin(), peers_.end(), [this](int32_t peer) {
    const auto rank = static_cast<uint32_t>(peer);
    return rank < self_.rank || hasArrived(rank);
  });
}

Status PeerNetwork::Round::stepLinks() {
  while (nextLink_ < links_.size() && underWay_.size() < kMaxUnderWay)
    underWay_.push_back(nextLink_++);
  const TimePoint now = limits_.clock->now();
  for (const size_t index : underWay_) {
    OutgoingLink& link = links_[index];
    const Status status = link.step(now);
    if (!status.isOk()) {
      return status.withContext("connecting to rank " + std::to_string(link.peer()) + " at " +
                                addressOf(link.peer()));
    }
  }
  std::erase_if(underWay_, [this](size_t index) {
    return links_[index].state() == OutgoingLink::State::kDone;
  });
  return Status::ok();
}

Status PeerNetwork::Round::run() {
  for (;;) {
    if (isAborted(limits_)) return abortedStatus(kWhat);
    network_.takeArrivals();
    OMNES_RETURN_IF_ERROR(stepLinks());
    if (isDone()) return Status::ok();
    if (network_.acceptor_->isOutOfDescriptors()) {
      return Status::fromErrno(network_.counters().acceptErrno,
                               std::string("accepting while ") + kWhat + " (see ulimit -n)");
    }
    if (limits_.deadline.hasPassed(*limits_.clock)) return timeoutStatus();
    OMNES_RETURN_IF_ERROR(wait());
  }
}

base::Duration PeerNetwork::Round::longestNap(TimePoint now) const {
  base::Duration nap = std::min(kLongestNap, limits_.deadline.remaining(*limits_.clock));
  // A link can be started at once when another one has just made room.
  if (nextLink_ < links_.size() && underWay_.size() < kMaxUnderWay) return base::Duration{0};
  for (const size_t index : underWay_) nap = std::min(nap, links_[index].wakeAt() - now);
  const int acceptorMs = network_.acceptor_->timeoutMs();
  if (acceptorMs >= 0) nap = std::min<base::Duration>(nap, std::chrono::milliseconds(acceptorMs));
  return std::max(nap, base::Duration{0});
}

Status PeerNetwork::Round::wait() {
  std::vector<pollfd> fds{{network_.acceptor_->fd(), POLLIN, 0}, {limits_.abortFd, POLLIN, 0}};
  for (const size_t index : underWay_)
    if (links_[index].fd() >= 0) fds.push_back({links_[index].fd(), links_[index].events(), 0});
  const base::Duration nap = longestNap(limits_.clock->now());
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(nap).count();
  if (::poll(fds.data(), fds.size(), static_cast<int>(ms)) < 0 && errno != EINTR)
    return Status::fromErrno(errno, std::string("poll failed while ") + kWhat);
  return Status::ok();
}

Status PeerNetwork::Round::timeoutStatus() const {
  std::set<uint32_t> missing;
  std::string details;
  for (size_t index = 0; index < links_.size(); ++index) {
    const OutgoingLink& link = links_[index];
    if (link.state() == OutgoingLink::State::kDone || !missing.insert(link.peer()).second) continue;
    if (!details.empty()) continue;
    details = "; rank " + std::to_string(link.peer()) + " at " + addressOf(link.peer()) + ": " +
              (link.trouble().empty() ? "no answer" : link.trouble());
  }
  bool isAwaited = false;
  for (const int32_t peer : peers_) {
    const auto rank = static_cast<uint32_t>(peer);
    if (rank < self_.rank || hasArrived(rank)) continue;
    missing.insert(rank);
    isAwaited = true;
  }
  if (isAwaited) details += "; higher ranks connect to " + network_.address() + " of this rank";
  const AcceptorCounters& counters = network_.counters();
  if (counters.rejected + counters.dropped != 0) {
    details += ", where " + std::to_string(counters.rejected + counters.dropped) +
               " connections without a valid proof were turned away";
  }
  const std::vector<uint32_t> list(missing.begin(), missing.end());
  return Status(Code::kTimeout, std::string("timed out while ") + kWhat + ": " + formatRanks(list) +
                                    " of " + std::to_string(self_.nranks) +
                                    (list.size() == 1 ? " is" : " are") + " missing" + details +
                                    "; OMNES_IFNAME chooses other addresses");
}

std::vector<std::vector<base::UniqueFd>> PeerNetwork::Round::take() {
  std::vector<std::vector<base::UniqueFd>> sockets(self_.nranks);
  // Those of one peer stand in links_ in the order of their index.
  for (OutgoingLink& link : links_) sockets[link.peer()].push_back(link.take());
  for (const int32_t peer : peers_) {
    const auto rank = static_cast<uint32_t>(peer);
    for (uint32_t socket = 0; rank > self_.rank && socket < count_; ++socket) {
      auto node = network_.arrived_.extract({rank, socket});
      sockets[rank].push_back(std::move(node.mapped()));
    }
  }
  return sockets;
}

Result<std::vector<std::vector<base::UniqueFd>>> PeerNetwork::connectAll(
    const std::vector<int32_t>& peers, const std::vector<std::string>& addresses, uint32_t count,
    const WaitLimits& limits) {
  OMNES_RETURN_IF_ERROR(checkArguments(peers, addresses, count));
  Round round(*this, peers, addresses, count, limits);
  OMNES_RETURN_IF_ERROR(round.prepare());
  OMNES_RETURN_IF_ERROR(round.run());
  return round.take();
}

}  // namespace omnes::core::bootstrap
