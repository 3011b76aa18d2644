#include "core/comm/endpoint_wiring.h"

#include <poll.h>
#include <unistd.h>

#include "transports/registry.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;
using bootstrap::LocalChannel;
using bootstrap::LocalListener;
using bootstrap::WaitLimits;
using transports::Outcome;

// How long an endpoint that is not connected yet is left alone when nothing wakes us before.
constexpr int kConnectNapMs = 1;

// What stands between ranks of one host that cannot hand over memory is seldom ours to remove.
Status withoutSharing(const Status& cause) {
  // The end of a wait says what it waited for; sharing may be well.
  if (cause.code() == Code::kTimeout) return cause;
  return Status(cause.code(), std::string(cause.message()) +
                                  "; where ranks of one host cannot share memory, "
                                  "OMNES_TRANSPORTS=tcp on all ranks, or another OMNES_HOST_ID on "
                                  "each, connects them over the network");
}

// Swaps memory with one member.
Result<base::UniqueFd> trade(LocalChannel* channel, int own, const WaitLimits& limits) {
  OMNES_RETURN_IF_ERROR(channel->send(std::span<const int>(&own, 1), "memory", limits));
  OMNES_ASSIGN_OR_RETURN(bootstrap::LocalMessage message, channel->receive(limits));
  if (message.descriptors.size() != 1)
    return Status(Code::kRemoteError, "rank " + std::to_string(channel->peerRank()) + " sent " +
                                          std::to_string(message.descriptors.size()) +
                                          " descriptors instead of 1");
  return std::move(message.descriptors[0]);
}

// Connects until the transport is done, which may take what others do first.
Status connectUntilDone(transports::Endpoint* endpoint, std::vector<transports::Peer>* peers,
                        const WaitLimits& limits) {
  for (;;) {
    const Outcome outcome = endpoint->table->connect(endpoint, peers->data());
    if (outcome == Outcome::kOk) return Status::ok();
    if (outcome == Outcome::kPeerGone) return Status(Code::kRemoteError, endpoint->error);
    if (outcome != Outcome::kAgain) return Status(Code::kSystemError, endpoint->error);
    // The endpoint owns the sockets from the first call on.
    for (transports::Peer& peer : *peers) peer.sockets = nullptr;
    const std::string what = std::string("connecting over ") + endpoint->table->name;
    if (bootstrap::isAborted(limits)) return bootstrap::abortedStatus(what);
    if (limits.deadline.hasPassed(*limits.clock))
      return Status(Code::kTimeout, "timed out while " + what);
    pollfd wake[2] = {{endpoint->pollFd, POLLIN, 0}, {limits.abortFd, POLLIN, 0}};
    poll(wake, 2, kConnectNapMs);
  }
}

}  // namespace

Status EndpointWiring::openOne(const PlacedEndpoint& placed, size_t slotBytes) {
  const transports::TransportTable* table = transports::find(placed.transport);
  if (table == nullptr)
    return Status(Code::kNotSupported,
                  std::string("this build has no transport ") + placed.transport);
  transports::OpenParameters parameters;
  parameters.rank = rank();
  parameters.nranks = static_cast<int32_t>(self_.nranks);
  parameters.members = placed.members.data();
  parameters.memberCount = static_cast<int32_t>(placed.members.size());
  parameters.slotBytes = slotBytes;
  parameters.dataSockets = settings_.tcpSockets;
  transports::Endpoint* raw = nullptr;
  const Outcome outcome = table->open(&parameters, &raw);
  EndpointOwner endpoint(raw);
  if (outcome != Outcome::kOk)
    return Status(Code::kSystemError,
                  endpoint ? endpoint->error : std::string(table->name) + " could not be opened");
  auto opened = std::make_unique<Opened>();
  opened->members = placed.members;
  if (table->describe(endpoint.get(), &opened->description) != Outcome::kOk)
    return Status(Code::kSystemError, endpoint->error);
  opened->endpoint = std::move(endpoint);
  opened_.push_back(std::move(opened));
  return Status::ok();
}

Status EndpointWiring::open(const Placement& placement, const std::string& networkHint) {
  bool needsNetwork = false;
  for (const PlacedEndpoint& placed : placement.endpoints) {
    OMNES_RETURN_IF_ERROR(openOne(placed, placement.slotBytes));
    needsNetwork = needsNetwork || opened_.back()->description.sockets > 0;
  }
  if (!needsNetwork) return Status::ok();
  const bootstrap::NetworkOptions options{settings_.interfaces, settings_.portRange, networkHint};
  OMNES_ASSIGN_OR_RETURN(network_,
                         bootstrap::PeerNetwork::open(self_, options, base::Clock::monotonic()));
  return Status::ok();
}

PeerContact EndpointWiring::contact() const {
  PeerContact contact;
  if (network_) contact.network = network_->address();
  for (const auto& opened : opened_)
    contact.endpoints.emplace_back(
        opened->name(), std::string(opened->description.text, opened->description.bytes));
  return contact;
}

// A rank connects to the lower ones, then accepts the higher ones, so that nobody waits in a
// circle. Gives one descriptor a member (none for the own rank).
Result<EndpointWiring::Descriptors> EndpointWiring::tradeDescriptors(const Opened& opened,
                                                                     std::vector<PeerInfo>* peers,
                                                                     LocalListener* listener,
                                                                     const WaitLimits& limits) {
  Descriptors out(peers->size());
  for (const int32_t peer : opened.members) {
    if (peer == rank()) {
      (*peers)[peer].visiblePid = getpid();
      continue;
    }
    const auto number = static_cast<uint32_t>(peer);
    auto channel = peer < rank()
                       ? LocalChannel::connect((*peers)[peer].channel, self_, number, limits)
                       : listener->accept(number, limits);
    if (!channel.isOk())
      return withoutSharing(
          channel.status().withContext("connecting to rank " + std::to_string(peer)));
    (*peers)[peer].visiblePid = channel->peerPid();
    auto theirs = trade(&channel.value(), opened.description.descriptor, limits);
    if (!theirs.isOk()) return withoutSharing(theirs.status());
    out[peer] = std::move(theirs).value();
  }
  return out;
}

Result<EndpointWiring::Sockets> EndpointWiring::connectSockets(
    const Opened& opened, const std::vector<PeerContact>& contacts, const WaitLimits& limits) {
  std::vector<int32_t> others;
  for (const int32_t member : opened.members)
    if (member != rank()) others.push_back(member);
  std::vector<std::string> addresses;
  for (const PeerContact& contact : contacts) addresses.push_back(contact.network);
  return network_->connectAll(others, addresses, static_cast<uint32_t>(opened.description.sockets),
                              limits);
}

Status EndpointWiring::connectOne(Opened* opened, const std::vector<PeerContact>& contacts,
                                  std::vector<PeerInfo>* peers, LocalListener* listener,
                                  const WaitLimits& limits) {
  Descriptors descriptors(peers->size());
  Sockets sockets(peers->size());
  if (opened->description.descriptor >= 0) {
    OMNES_ASSIGN_OR_RETURN(descriptors, tradeDescriptors(*opened, peers, listener, limits));
  }
  if (opened->description.sockets > 0) {
    OMNES_ASSIGN_OR_RETURN(sockets, connectSockets(*opened, contacts, limits));
  }
  std::vector<transports::Peer> handed(peers->size());
  std::vector<std::vector<int>> numbers(peers->size());
  for (const int32_t member : opened->members) {
    const std::string* text = contacts[member].descriptionBy(opened->name());
    if (text == nullptr)
      return Status(Code::kRemoteError, (*peers)[member].nameAs(member) + " has not opened " +
                                            opened->name() + ", which joins it with rank " +
                                            std::to_string(rank()));
    for (base::UniqueFd& socket : sockets[member]) numbers[member].push_back(socket.release());
    handed[member] = {text->data(), text->size(), descriptors[member].get(),
                      numbers[member].empty() ? nullptr : numbers[member].data()};
  }
  return connectUntilDone(opened->endpoint.get(), &handed, limits);
}

Status EndpointWiring::connect(const std::vector<PeerContact>& contacts,
                               std::vector<PeerInfo>* peers, LocalListener* listener,
                               const WaitLimits& limits) {
  (*peers)[rank()].visiblePid = getpid();
  for (const auto& opened : opened_)
    OMNES_RETURN_IF_ERROR(connectOne(opened.get(), contacts, peers, listener, limits));
  return Status::ok();
}

void EndpointWiring::moveTo(LinkSet* links) {
  for (const auto& opened : opened_) links->add(std::move(opened->endpoint), opened->members);
  opened_.clear();
}

}  // namespace omnes::core
