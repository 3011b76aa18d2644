#include "unit/transport_world.h"

#include <poll.h>

#include <algorithm>

#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace omnes::tests {

using transports::Chunk;
using transports::Endpoint;
using transports::Link;
using transports::Outcome;

namespace {

// Less than a chunk; smaller ones make the system wait for timers of its own.
constexpr int kTinyBytes = 8 << 10;
// Longer than the loopback needs.
constexpr int kQuietMs = 20;

const transports::TransportTable& tableOf(const std::string& name) {
  if (name == "mem") return transports::mem::table();
  return name == "shm" ? transports::shm::table() : transports::tcp::table();
}

bool has(const std::string& kind, const char* trait) {
  return kind.find(trait) != std::string::npos;
}

SocketKind socketsOf(const std::string& kind) {
  SocketKind out;
  if (has(kind, "-ipv6")) out.family = AF_INET6;
  if (has(kind, "-unix")) out.family = AF_UNIX;
  if (has(kind, "-tiny")) out.sendBytes = out.receiveBytes = kTinyBytes;
  return out;
}

}  // namespace

std::string TransportWorld::obstacleTo(const std::string& kind) {
  return has(kind, "-ipv6") && !canConnect(AF_INET6) ? "the loopback has no IPv6 address" : "";
}

TransportWorld::TransportWorld(const std::string& kind, int32_t nranks, size_t slotBytes)
    : hub_({.nranks = nranks, .slotBytes = slotBytes == 0 ? 4096 : slotBytes}) {
  const transports::TransportTable& table = tableOf(nameOf(kind));
  for (int32_t rank = 0; rank < nranks; ++rank) {
    transports::OpenParameters parameters;
    parameters.rank = rank;
    parameters.nranks = nranks;
    parameters.slotBytes = slotBytes;
    parameters.dataSockets = has(kind, "-3") ? 3 : 1;
    parameters.context = &hub_;
    Endpoint* endpoint = nullptr;
    if (table.open(&parameters, &endpoint) != Outcome::kOk) failed_ = true;
    endpoints_.push_back(endpoint);
  }
  transports::Description description;
  if (!failed_) table.describe(endpoints_[0], &description);
  isPumped_ = description.sockets != 0;
  if (!failed_) connect(description.sockets, socketsOf(kind));
}

TransportWorld::~TransportWorld() {
  for (Endpoint* endpoint : endpoints_)
    if (endpoint != nullptr) endpoint->table->close(endpoint);
}

void TransportWorld::close(int32_t rank) {
  endpoints_[rank]->table->close(endpoints_[rank]);
  endpoints_[rank] = nullptr;
}

void TransportWorld::connect(int32_t sockets, const SocketKind& kind) {
  const int32_t nranks = static_cast<int32_t>(endpoints_.size());
  std::vector<transports::Description> described(endpoints_.size());
  std::vector<transports::Peer> peers(endpoints_.size());
  SocketMesh mesh(nranks, sockets, kind);
  for (int32_t rank = 0; rank < nranks; ++rank) {
    endpoints_[rank]->table->describe(endpoints_[rank], &described[rank]);
    peers[rank] = {described[rank].text, described[rank].bytes, described[rank].descriptor};
  }
  for (int32_t rank = 0; rank < nranks; ++rank) {
    for (int32_t peer = 0; peer < nranks; ++peer) peers[peer].sockets = mesh.take(rank, peer);
    Endpoint* endpoint = endpoints_[rank];
    if (endpoint->table->connect(endpoint, peers.data()) != Outcome::kOk) failed_ = true;
  }
}

Link* TransportWorld::link(int32_t rank, bool outgoing, uint8_t stream, int32_t peer) {
  Link* made = nullptr;
  const transports::LinkShape shape{outgoing, stream, peer};
  const auto* table = endpoints_[rank]->table;
  return table->openLink(endpoints_[rank], &shape, &made) == Outcome::kOk ? made : nullptr;
}

bool TransportWorld::pump() {
  bool moved = false;
  for (Endpoint* endpoint : endpoints_)
    moved |= endpoint != nullptr && endpoint->table->progress(endpoint) == Outcome::kOk;
  hub_.clock().advanceTo(hub_.clock().now() + std::chrono::milliseconds(1));
  return moved;
}

bool TransportWorld::sleep(int milliseconds) {
  std::vector<pollfd> fds;
  for (const Endpoint* endpoint : endpoints_)
    if (endpoint != nullptr && endpoint->pollFd >= 0) fds.push_back({endpoint->pollFd, POLLIN, 0});
  return ::poll(fds.data(), fds.size(), milliseconds) > 0;
}

void TransportWorld::settle() {
  do {
    while (pump()) {
    }
  } while (isPumped_ && sleep(kQuietMs));
}

bool TransportWorld::send(Link* link, const std::string& bytes, uint64_t fingerprint) {
  const auto* table = link->endpoint->table;
  Chunk chunk;
  if (!eventually([&] { return table->acquire(link, bytes.size(), &chunk) == Outcome::kOk; }))
    return false;
  std::copy(bytes.begin(), bytes.end(), chunk.data);
  return table->commit(link, bytes.size(), fingerprint) == Outcome::kOk;
}

bool TransportWorld::cannotSend(Link* link) {
  settle();
  Chunk chunk;
  return link->endpoint->table->acquire(link, 0, &chunk) == Outcome::kAgain;
}

bool TransportWorld::peek(Link* link, size_t size, Chunk* chunk) {
  const auto* table = link->endpoint->table;
  return eventually([&] { return table->peek(link, size, chunk) == Outcome::kOk; });
}

bool TransportWorld::receive(Link* link, size_t size, std::string* bytes, uint64_t* fingerprint) {
  Chunk chunk;
  if (!peek(link, size, &chunk)) return false;
  bytes->assign(chunk.data, chunk.data + chunk.bytes);
  *fingerprint = chunk.fingerprint;
  return link->endpoint->table->release(link) == Outcome::kOk;
}

bool TransportWorld::nothingComes(Link* link) {
  settle();
  Chunk chunk;
  return link->endpoint->table->peek(link, 0, &chunk) == Outcome::kAgain;
}

}  // namespace omnes::tests
