#include "core/comm/wiring.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/cpus.h"
#include "base/event.h"
#include "base/log.h"
#include "base/proc_file.h"
#include "base/text.h"
#include "core/bootstrap/local_channel.h"
#include "transports/registry.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;
using bootstrap::LocalChannel;
using bootstrap::LocalListener;
using bootstrap::WaitLimits;

constexpr int64_t kTellMs = 250;
constexpr int kEchoMs = 200;

// One field a line, in this order; text fields are single lines. docs/wire.md describes it.
std::string encode(const PeerInfo& info) {
  std::string cpus;
  for (const int cpu : info.cpus) cpus += (cpus.empty() ? "" : ",") + std::to_string(cpu);
  return info.host + "\n" + info.hostIdentity + "\n" + std::to_string(info.pid) + "\n" + cpus +
         "\n" + info.channel + "\n" + info.transport + "\n";
}

Result<PeerInfo> decode(std::string_view text, int32_t rank) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  const Status bad(Code::kRemoteError,
                   "rank " + std::to_string(rank) + " described itself in a form we do not know");
  if (lines.size() != 6) return bad;
  PeerInfo info;
  info.host = lines[0];
  info.hostIdentity = lines[1];
  const auto pid = base::parseInt(lines[2]);
  if (!pid.isOk()) return bad;
  info.pid = pid.value();
  for (const std::string_view cpu : base::splitList(lines[3])) {
    const auto number = base::parseInt(cpu);
    if (!number.isOk()) return bad;
    info.cpus.push_back(static_cast<int>(number.value()));
  }
  info.channel = lines[4];
  info.transport = lines[5];
  return info;
}

// What ranks must have in common to be asked to share memory; that they can is shown by the memory
// arriving.
std::string hostIdentity(const CommSettings& settings) {
  if (!settings.hostId.empty()) return "OMNES_HOST_ID " + settings.hostId;
  const std::string bootId = base::readProcFile("/proc/sys/kernel/random/boot_id");
  std::string id = bootId.empty() ? "host " + base::hostname() : bootId;
  id.erase(std::remove(id.begin(), id.end(), '\n'), id.end());
  return id;
}

Status checkOneHost(const std::vector<PeerInfo>& peers) {
  for (size_t rank = 1; rank < peers.size(); ++rank)
    if (peers[rank].hostIdentity != peers[0].hostIdentity)
      return Status(Code::kNotSupported, peers[0].nameAs(0) + " and " +
                                             peers[rank].nameAs(static_cast<int32_t>(rank)) +
                                             " are on different hosts (" + peers[0].hostIdentity +
                                             ", " + peers[rank].hostIdentity +
                                             "); this version connects the ranks of one host only");
  return Status::ok();
}

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

// Hands our descriptor to every peer and takes theirs. A rank connects to the lower ones, then
// accepts the higher ones, so that nobody waits in a circle. Gives one descriptor a rank (none for
// the own), and notes whom the kernel saw at the other end.
Result<std::vector<base::UniqueFd>> tradeDescriptors(const bootstrap::LocalIdentity& self,
                                                     LocalListener* listener,
                                                     std::vector<PeerInfo>* peers, int own,
                                                     const WaitLimits& limits) {
  std::vector<base::UniqueFd> out(peers->size());
  for (uint32_t peer = 0; peer < peers->size(); ++peer) {
    if (peer == self.rank) {
      (*peers)[peer].visiblePid = getpid();
      continue;
    }
    auto channel = peer < self.rank
                       ? LocalChannel::connect((*peers)[peer].channel, self, peer, limits)
                       : listener->accept(peer, limits);
    if (!channel.isOk())
      return channel.status().withContext("connecting to rank " + std::to_string(peer));
    (*peers)[peer].visiblePid = channel->peerPid();
    OMNES_RETURN_IF_ERROR(channel->send(std::span<const int>(&own, 1), "memory", limits));
    OMNES_ASSIGN_OR_RETURN(bootstrap::LocalMessage message, channel->receive(limits));
    if (message.descriptors.size() != 1)
      return Status(Code::kRemoteError, "rank " + std::to_string(peer) + " sent " +
                                            std::to_string(message.descriptors.size()) +
                                            " descriptors instead of 1");
    out[peer] = std::move(message.descriptors[0]);
  }
  return out;
}

Result<EndpointOwner> openEndpoint(int32_t rank, int32_t nranks, const CommSettings& settings) {
  const transports::TransportTable& table = *transports::all().front();  // one, in this version
  transports::OpenParameters parameters;
  parameters.rank = rank;
  parameters.nranks = nranks;
  parameters.slotBytes = settings.slotBytes;
  transports::Endpoint* raw = nullptr;
  const transports::Outcome outcome = table.open(&parameters, &raw);
  EndpointOwner endpoint(raw);
  if (outcome != transports::Outcome::kOk)
    return Status(Code::kSystemError, endpoint ? endpoint->error : "no transport could be opened");
  return endpoint;
}

Status connectEndpoint(transports::Endpoint* endpoint, const std::vector<PeerInfo>& peers,
                       const std::vector<base::UniqueFd>& descriptors) {
  std::vector<transports::Peer> handed;
  for (size_t i = 0; i < peers.size(); ++i)
    handed.push_back({peers[i].transport.data(), peers[i].transport.size(), descriptors[i].get()});
  if (endpoint->table->connect(endpoint, handed.data()) == transports::Outcome::kOk)
    return Status::ok();
  return Status(Code::kSystemError, endpoint->error);
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

Status exchangeInfo(Wiring* wiring, const PeerInfo& own, base::Deadline deadline) {
  OMNES_ASSIGN_OR_RETURN(std::vector<std::string> blobs,
                         wiring->rendezvous->exchange(encode(own), deadline));
  for (size_t peer = 0; peer < blobs.size(); ++peer) {
    OMNES_ASSIGN_OR_RETURN(PeerInfo decoded, decode(blobs[peer], static_cast<int32_t>(peer)));
    wiring->peers.push_back(std::move(decoded));
  }
  return checkOneHost(wiring->peers);
}

// The part in which a rank may fail for reasons of its own.
Status connectPeers(Wiring* wiring, EndpointOwner endpoint, const bootstrap::LocalIdentity& self,
                    LocalListener* listener, base::Deadline deadline, int abortFd) {
  // A word on the control connection means that somebody has failed: no wait for that rank goes on.
  OMNES_ASSIGN_OR_RETURN(const base::Epoll end, base::Epoll::open());
  OMNES_RETURN_IF_ERROR(end.add(wiring->rendezvous->controlFd(), EPOLLIN, 0));
  if (abortFd >= 0) OMNES_RETURN_IF_ERROR(end.add(abortFd, EPOLLIN, 1));
  const WaitLimits limits{deadline, &base::Clock::monotonic(), end.fd()};
  transports::Description own;
  endpoint->table->describe(endpoint.get(), &own);
  OMNES_ASSIGN_OR_RETURN(const std::vector<base::UniqueFd> descriptors,
                         tradeDescriptors(self, listener, &wiring->peers, own.descriptor, limits));
  OMNES_RETURN_IF_ERROR(connectEndpoint(endpoint.get(), wiring->peers, descriptors));
  std::vector<int32_t> members(wiring->peers.size());
  std::iota(members.begin(), members.end(), 0);
  wiring->links.add(std::move(endpoint), members);
  return Status::ok();
}

}  // namespace

std::string PeerInfo::nameAs(int32_t rank) const {
  return "rank " + std::to_string(rank) + " (host " + host + ", process " + std::to_string(pid) +
         ")";
}

Result<Wiring> wire(const bootstrap::MeetingPoint& point, int32_t rank, int32_t nranks,
                    const CommSettings& settings, base::Deadline deadline, int abortFd) {
  const base::Clock& clock = base::Clock::monotonic();
  const bootstrap::LocalIdentity self{point.secret, point.commId, static_cast<uint32_t>(rank),
                                      static_cast<uint32_t>(nranks)};
  Wiring wiring;
  wiring.links = LinkSet(nranks);
  OMNES_ASSIGN_OR_RETURN(wiring.rendezvous, bootstrap::Rendezvous::join(
                                                point, self.rank, self.nranks,
                                                settings.agreedText(), deadline, clock, abortFd));
  bootstrap::Rendezvous* rendezvous = wiring.rendezvous.get();
  auto endpoint = openEndpoint(rank, nranks, settings);
  if (!endpoint.isOk()) return tellAll(rendezvous, endpoint.status());
  auto listener = LocalListener::open(self, clock);
  if (!listener.isOk()) return tellAll(rendezvous, listener.status());
  PeerInfo info;
  info.host = base::hostname();
  info.hostIdentity = hostIdentity(settings);
  info.pid = getpid();
  info.cpus = base::allowedCpus();
  info.channel = listener.value()->address();
  transports::Description description;
  endpoint.value()->table->describe(endpoint.value().get(), &description);
  info.transport.assign(description.text, description.bytes);
  const WaitLimits abort{deadline, &clock, abortFd};
  const Status known = exchangeInfo(&wiring, info, deadline);
  if (!known.isOk()) return bootstrap::isAborted(abort) ? tellAll(rendezvous, known) : known;
  const Status connected = connectPeers(&wiring, std::move(endpoint).value(), self,
                                        listener.value().get(), deadline, abortFd);
  if (!connected.isOk()) {
    const bool mayBeEcho = connected.code() != Code::kSystemError && !bootstrap::isAborted(abort);
    if (mayBeEcho)
      if (const auto cause = causeFromOthers(rendezvous)) return *cause;
    return tellAll(rendezvous, connected);
  }
  // Up on all ranks or on none.
  auto all = rendezvous->exchange("ready", deadline);
  if (!all.isOk())
    return bootstrap::isAborted(abort) ? tellAll(rendezvous, all.status()) : all.status();
  OMNES_LOG_INFO(Init, "rank %d of %d connected over shm", rank, nranks);
  return wiring;
}

bool sharesCores(const std::vector<PeerInfo>& peers, int32_t rank, int usableCores) {
  if (static_cast<int>(peers.size()) <= 1) return false;
  // Every rank spreads itself evenly over its cores; a core with more than one rank's worth is
  // shared.
  std::map<int, double> load;
  for (const PeerInfo& peer : peers)
    for (const int cpu : peer.cpus) load[cpu] += 1.0 / static_cast<double>(peer.cpus.size());
  double most = 0;
  for (const int cpu : peers[rank].cpus) most = std::max(most, load[cpu]);
  // A quota of processor time binds like fewer cores (the ranks of this host share it).
  const bool quotaBinds = usableCores < static_cast<int>(peers[rank].cpus.size()) &&
                          static_cast<int>(peers.size()) > usableCores;
  return most > 1.001 || quotaBinds;
}

}  // namespace omnes::core
