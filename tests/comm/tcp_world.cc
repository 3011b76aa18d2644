#include "comm/tcp_world.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "base/clock.h"
#include "transports/streams.h"
#include "transports/tcp/tcp.h"

namespace omnes::tests {

using transports::Outcome;

TcpWorld::TcpWorld(const TcpWorldOptions& options)
    : nranks_(options.nranks), operations_(options.nranks), killed_(options.nranks) {
  const auto& table = transports::tcp::table();
  std::vector<int32_t> members(nranks_);
  std::iota(members.begin(), members.end(), 0);
  SocketMesh mesh(nranks_, 1 + options.dataSockets, options.sockets);
  for (int32_t rank = 0; rank < nranks_; ++rank) {
    transports::OpenParameters parameters;
    parameters.rank = rank;
    parameters.nranks = nranks_;
    parameters.slotBytes = options.slotBytes;
    parameters.dataSockets = options.dataSockets;
    transports::Endpoint* raw = nullptr;
    Outcome outcome = table.open(&parameters, &raw);
    core::EndpointOwner endpoint(raw);
    transports::Description description;
    table.describe(raw, &description);
    std::vector<transports::Peer> peers(nranks_);
    for (int32_t peer = 0; peer < nranks_; ++peer)
      peers[peer] = {description.text, description.bytes, -1, mesh.take(rank, peer)};
    if (outcome == Outcome::kOk) outcome = table.connect(raw, peers.data());
    if (outcome != Outcome::kOk) throw std::runtime_error(raw->error);
    links_.emplace_back(nranks_, transports::slotBytesFor(nranks_, options.slotBytes));
    links_.back().add(std::move(endpoint), members);
  }
}

void TcpWorld::kill(int32_t rank) {
  killed_[rank] = true;
  links_[rank] = core::LinkSet(nranks_);
}

std::string TcpWorld::run(const algorithms::Algorithm& algorithm, const core::Shape& shape,
                          const std::vector<core::CallBuffers>& buffers, uint64_t scalarBits) {
  std::vector<core::Prepared> prepared(nranks_);
  std::vector<int32_t> pending;
  ++calls_;
  for (int32_t rank = 0; rank < nranks_; ++rank) {
    if (killed_[rank]) continue;
    auto made =
        core::prepare(algorithm.make({.rank = rank, .nranks = nranks_, .root = shape.root}), shape,
                      [&](const transports::LinkShape& link) { return links_[rank].open(link); });
    if (!made.isOk()) return std::string(made.status().message());
    prepared[rank] = std::move(made).value();
    operations_[rank].start(prepared[rank], buffers[rank], 0x1234567 + calls_, scalarBits, false);
    pending.push_back(rank);
  }
  const base::Clock& clock = base::Clock::monotonic();
  const base::Deadline deadline = base::Deadline::afterMs(clock, 30'000);
  std::string error;
  while (!pending.empty()) {
    bool moved = false;
    const size_t finished =
        std::erase_if(pending, [&](int32_t rank) { return step(rank, &moved, &error); });
    if (moved || finished != 0) continue;
    if (deadline.hasPassed(clock)) return error + "nobody can move";
    sleep();
  }
  return error;
}

bool TcpWorld::step(int32_t rank, bool* moved, std::string* error) {
  core::Operation& operation = operations_[rank];
  const core::Progress progress = operation.advance();
  const bool hasFailed = progress == core::Progress::kFailed;
  Outcome outcome = Outcome::kAgain;
  if (!hasFailed && progress != core::Progress::kMoved) outcome = links_[rank].progress();
  if (hasFailed || (outcome != Outcome::kOk && outcome != Outcome::kAgain)) {
    *error += "rank " + std::to_string(rank) + ": " +
              (hasFailed ? operation.failure().text : links_[rank].failed()->error) + "; ";
    kill(rank);
    return true;
  }
  *moved |= outcome == Outcome::kOk;
  *moved |= progress == core::Progress::kMoved;
  return progress == core::Progress::kDone && !links_[rank].hasUnsent();
}

void TcpWorld::sleep() const {
  std::vector<pollfd> fds;
  for (const core::LinkSet& links : links_) links.addPollFds(&fds);
  ::poll(fds.data(), fds.size(), 10);
}

}  // namespace omnes::tests
