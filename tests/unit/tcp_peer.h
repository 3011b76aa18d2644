// An endpoint of tcp, rank 0, whose one peer, rank 1, is the test: it has the other ends of the
// sockets and may say what it likes.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/tcp.h"
#include "unit/socket_mesh.h"

namespace omnes::tests {

class TcpPeer {
 public:
  static constexpr size_t kSlotBytes = 4096;

  explicit TcpPeer(int32_t dataSockets = 1, const SocketKind& kind = {.family = AF_UNIX}) {
    transports::OpenParameters parameters;
    parameters.nranks = 2;
    parameters.slotBytes = kSlotBytes;
    parameters.dataSockets = dataSockets;
    table().open(&parameters, &endpoint_);
    transports::Description description;
    table().describe(endpoint_, &description);
    std::vector<int> theirs;
    for (int32_t i = 0; i < description.sockets; ++i) {
      auto [one, other] = connectedPair(kind);
      theirs.push_back(one.release());
      sockets_.push_back(std::move(other));
    }
    const transports::Peer peers[] = {{}, {description.text, description.bytes, -1, theirs.data()}};
    isConnected_ = table().connect(endpoint_, peers) == transports::Outcome::kOk;
  }
  ~TcpPeer() { table().close(endpoint_); }
  TcpPeer(const TcpPeer&) = delete;
  TcpPeer& operator=(const TcpPeer&) = delete;

  static const transports::TransportTable& table() { return transports::tcp::table(); }
  bool isConnected() const { return isConnected_; }
  transports::Endpoint* endpoint() { return endpoint_; }
  // Number 0 is the control socket.
  int socket(size_t number) const { return sockets_[number].get(); }
  void closeSocket(size_t number) { sockets_[number].reset(); }
  void closeAll() {
    for (base::UniqueFd& fd : sockets_) fd.reset();
  }

  transports::Link* link(bool outgoing, uint8_t stream) {
    transports::Link* made = nullptr;
    const transports::LinkShape shape{outgoing, stream, 1};
    table().openLink(endpoint_, &shape, &made);
    return made;
  }

  // What the peer writes must fit in the socket.
  bool write(size_t number, const std::string& bytes) const {
    return ::send(socket(number), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // All that there is to read for the peer.
  std::string read(size_t number) const {
    std::string all;
    char buffer[4096];
    for (ssize_t got; (got = ::recv(socket(number), buffer, sizeof buffer, 0)) > 0;)
      all.append(buffer, static_cast<size_t>(got));
    return all;
  }
  static std::string chunk(uint8_t stream, uint64_t sequence, const std::string& payload,
                           uint64_t fingerprint = 7) {
    return header({stream, payload.size(), sequence, fingerprint}) + payload;
  }
  static std::string header(const transports::tcp::ChunkHeader& header) {
    uint8_t bytes[transports::tcp::kChunkHeaderBytes];
    encode(header, bytes);
    return {bytes, bytes + sizeof bytes};
  }
  static std::string credit(uint8_t stream, uint64_t consumed) {
    uint8_t bytes[transports::tcp::kCreditBytes];
    encode(transports::tcp::Credit{stream, consumed}, bytes);
    return {bytes, bytes + sizeof bytes};
  }

  transports::Outcome progress() { return table().progress(endpoint_); }
  // Until it has nothing to do, or fails.
  transports::Outcome settle() {
    transports::Outcome outcome = transports::Outcome::kOk;
    while (outcome == transports::Outcome::kOk ||
           (outcome == transports::Outcome::kAgain && stirs(0)))
      outcome = progress();
    return outcome;
  }
  // Whether its descriptor becomes readable within the time.
  bool stirs(int milliseconds) const {
    pollfd fd{endpoint_->pollFd, POLLIN, 0};
    return ::poll(&fd, 1, milliseconds) > 0;
  }
  // Progress, slept for in between, until the condition holds; false when it does not for long.
  template <typename Condition>
  bool until(const Condition& holds) {
    const base::Clock& clock = base::Clock::monotonic();
    const base::Deadline deadline = base::Deadline::afterMs(clock, 10'000);
    while (!holds()) {
      if (deadline.hasPassed(clock)) return false;
      if (progress() != transports::Outcome::kOk) stirs(10);
    }
    return true;
  }

 private:
  transports::Endpoint* endpoint_ = nullptr;
  std::vector<base::UniqueFd> sockets_;
  bool isConnected_ = false;
};

}  // namespace omnes::tests
