#include "core/comm/wiring.h"

#include <poll.h>

#include <optional>

#include "base/event.h"
#include "base/log.h"
#include "core/bootstrap/interfaces.h"
#include "core/bootstrap/local_channel.h"
#include "core/comm/endpoint_wiring.h"
#include "core/comm/placement.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;
using bootstrap::LocalListener;
using bootstrap::WaitLimits;

constexpr int64_t kTellMs = 250;
constexpr int kEchoMs = 200;

// What another rank has said on the control connection: why it failed, or that it is gone. Waits a
// moment, since a failure of ours is often only an echo of theirs.
std::optional<Status> causeFromOthers(bootstrap::Rendezvous* rendezvous) {
  pollfd readable{rendezvous->controlFd(), POLLIN, 0};
  poll(&readable, 1, kEchoMs);
  while (auto event = rendezvous->receiveControl()) {
    if (event->kind == bootstrap::ControlEvent::Kind::kLeft)
      return Status(Code::kRemoteError,
                    "rank " + std::to_string(event->rank) + " left before all had joined");
    if (!event->status.isOk()) return event->status;
  }
  return std::nullopt;
}

// Tells all ranks about a failure of ours, at once: they may be waiting for us.
Status tellAll(bootstrap::Rendezvous* rendezvous, const Status& cause) {
  const auto deadline = base::Deadline::afterMs(base::Clock::monotonic(), kTellMs);
  const std::string who = "rank " + std::to_string(rendezvous->rank()) + " could not join";
  const Status sent = rendezvous->sendControl(
      rendezvous->rank(), Status(Code::kRemoteError, who + ": " + std::string(cause.message())),
      deadline);
  if (!sent.isOk())
    OMNES_LOG_INFO(Init, "the other ranks could not be told: %s",
                   std::string(sent.message()).c_str());
  return cause;
}

// What an exchange ended with: the others have been told, unless we have left it.
Status tellOfAbort(bootstrap::Rendezvous* rendezvous, const Status& status,
                   const WaitLimits& abort) {
  return !status.isOk() && bootstrap::isAborted(abort) ? tellAll(rendezvous, status) : status;
}

// Round 0.
Status exchangeInfo(Wiring* wiring, const PeerInfo& own, base::Deadline deadline) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<std::string> blobs,
                         wiring->rendezvous->exchange(own.encode(), deadline));
  for (size_t peer = 0; peer < blobs.size(); ++peer) {
    OMNES_ASSIGN_OR_RETURN(PeerInfo decoded,
                           PeerInfo::decode(blobs[peer], static_cast<int32_t>(peer)));
    wiring->peers.push_back(std::move(decoded));
  }
  return Status::ok();
}

// Round 1.
Result<std::vector<PeerContact>> exchangeContacts(bootstrap::Rendezvous* rendezvous,
                                                  const PeerContact& own, base::Deadline deadline) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<std::string> blobs,
                         rendezvous->exchange(own.encode(), deadline));
  std::vector<PeerContact> contacts;
  for (size_t peer = 0; peer < blobs.size(); ++peer) {
    OMNES_ASSIGN_OR_RETURN(PeerContact decoded,
                           PeerContact::decode(blobs[peer], static_cast<int32_t>(peer)));
    contacts.push_back(std::move(decoded));
  }
  return contacts;
}

// An address of this host that leads to the others, for those who need one.
std::string networkHint(const bootstrap::Rendezvous& rendezvous) {
  const std::string known = rendezvous.localAddress();
  // A unix socket reaches no further than the network namespace, so all ranks are in one.
  return known.empty() ? "127.0.0.1" : known;
}

// Readable when the wait for a peer must end.
Result<base::Epoll> watchForEnd(int controlFd, int abortFd) {
  OMNES_ASSIGN_OR_RETURN(base::Epoll end, base::Epoll::open());
  OMNES_RETURN_IF_ERROR(end.add(controlFd, EPOLLIN, 0));
  if (abortFd >= 0) OMNES_RETURN_IF_ERROR(end.add(abortFd, EPOLLIN, 1));
  return end;
}

// One listener of each rank lives on: the network's where ranks are on several hosts.
void keepListener(Wiring* wiring, const std::vector<PeerContact>& contacts,
                  EndpointWiring* endpoints, LocalListener* local) {
  bool haveAllNetwork = true;
  for (const PeerContact& contact : contacts)
    haveAllNetwork = haveAllNetwork && !contact.network.empty();
  for (size_t rank = 0; rank < contacts.size(); ++rank)
    wiring->addresses.push_back(haveAllNetwork ? contacts[rank].network
                                               : wiring->peers[rank].channel);
  wiring->listener = haveAllNetwork ? endpoints->takeSocket() : local->takeSocket();
}

// Round 1 and what follows from it: the part in which a rank may fail for reasons of its own, or as
// an echo of another's failure.
Status connectPeers(Wiring* wiring, EndpointWiring* endpoints, LocalListener* listener,
                    const WaitLimits& abort, bool* mayHaveFormed) {
  bootstrap::Rendezvous* rendezvous = wiring->rendezvous.get();
  auto contacts = exchangeContacts(rendezvous, endpoints->contact(), abort.deadline);
  // Who does not come to an exchange is named there, to all.
  if (!contacts.isOk()) return tellOfAbort(rendezvous, contacts.status(), abort);
  // A word on the control connection means that somebody has failed: no wait for that rank goes on.
  const Result<base::Epoll> end = watchForEnd(rendezvous->controlFd(), abort.abortFd);
  if (!end.isOk()) return tellAll(rendezvous, end.status());
  const WaitLimits limits{abort.deadline, abort.clock, end.value().fd()};
  const Status connected = endpoints->connect(contacts.value(), &wiring->peers, listener, limits);
  if (connected.isOk()) {
    keepListener(wiring, contacts.value(), endpoints, listener);
    if (mayHaveFormed != nullptr) *mayHaveFormed = true;
    // Up on all ranks or on none.
    return tellOfAbort(rendezvous, rendezvous->exchange("ready", abort.deadline).status(), abort);
  }
  const bool mayBeEcho = connected.code() != Code::kSystemError && !bootstrap::isAborted(abort);
  if (mayBeEcho)
    if (const auto cause = causeFromOthers(rendezvous)) return *cause;
  return tellAll(rendezvous, connected);
}

}  // namespace

Result<Wiring> wire(const bootstrap::MeetingPoint& point, int32_t rank, int32_t nranks,
                    const CommSettings& settings, base::Deadline deadline, int abortFd,
                    bool* mayHaveFormed) {
  const base::Clock& clock = base::Clock::monotonic();
  const WaitLimits abort{deadline, &clock, abortFd};
  const bootstrap::LocalIdentity self{point.peerSecret(), point.commId, static_cast<uint32_t>(rank),
                                      static_cast<uint32_t>(nranks)};
  // A name that is wrong is said at once, also where no network turns out to be needed.
  if (!settings.interfaces.empty())
    OMNES_RETURN_IF_ERROR(bootstrap::chooseHost({.interfaces = settings.interfaces}).status());
  Wiring wiring;
  OMNES_ASSIGN_OR_RETURN(wiring.rendezvous, bootstrap::Rendezvous::join(
                                                point, self.rank, self.nranks,
                                                settings.agreedText(), deadline, clock, abortFd));
  bootstrap::Rendezvous* rendezvous = wiring.rendezvous.get();
  auto listener = LocalListener::open(self, clock);
  if (!listener.isOk()) return tellAll(rendezvous, listener.status());
  PeerInfo own = describeSelf(settings.hostId);
  own.channel = listener.value()->address();
  const Status known = exchangeInfo(&wiring, own, deadline);
  if (!known.isOk()) return tellOfAbort(rendezvous, known, abort);
  // Fails on all ranks alike.
  OMNES_ASSIGN_OR_RETURN(const Placement placement,
                         place(wiring.peers, rank, settings.transports, settings.slotBytes));
  EndpointWiring endpoints(self, settings);
  const Status opened = endpoints.open(placement, networkHint(*rendezvous));
  if (!opened.isOk()) return tellAll(rendezvous, opened);
  OMNES_RETURN_IF_ERROR(
      connectPeers(&wiring, &endpoints, listener.value().get(), abort, mayHaveFormed));
  wiring.links = LinkSet(nranks, placement.slotBytes);
  endpoints.moveTo(&wiring.links);
  OMNES_LOG_INFO(Init, "rank %d of %d connected to %s", rank, nranks,
                 describe(placement, rank).c_str());
  return wiring;
}

}  // namespace omnes::core
