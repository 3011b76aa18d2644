// Proven connections between two ranks of one host, over which memory is handed: the plumbing of
// the shm transport.
//
// Each rank listens at an abstract socket with a random name, which travels in its address blob; a
// rank connects to another's, both prove who they are (kind "shm"), the kernel vouches for the user
// at the other end, and then messages with up to 8 descriptors and 4 KiB of bytes go either way.
// That a descriptor arrives here is what "same host" means.
//
// Every wait ends at its deadline or on abort. One thread at a time per object.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "core/bootstrap/acceptor.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/secret.h"
#include "core/bootstrap/socket_io.h"

namespace omnes::core::bootstrap {

inline constexpr size_t kMaxDescriptors = 8;
inline constexpr size_t kMaxLocalBytes = 4096;

// Who this rank is to its peers. Copyable.
struct LocalIdentity {
  Secret secret;
  uint64_t commId = 0;
  uint32_t rank = 0;
  uint32_t nranks = 0;
};

struct LocalMessage {
  std::vector<base::UniqueFd> descriptors;  // close-on-exec
  std::string bytes;
};

class LocalChannel {
 public:
  // Connects to the listener of rank `peer`. kRemoteError: nobody listens there any more.
  static base::Result<LocalChannel> connect(const std::string& address, const LocalIdentity& self,
                                            uint32_t peer, const WaitLimits& limits);

  uint32_t peerRank() const { return peer_; }
  // As the kernel recorded it: for pidfds and messages.
  pid_t peerPid() const { return credentials_.pid; }
  // Hangs up when the peer's process is gone.
  int fd() const { return fd_.get(); }

  // Borrows the descriptors until it returns; the receiver gets copies. kInvalidArgument beyond the
  // limits.
  base::Status send(std::span<const int> descriptors, std::string_view bytes,
                    const WaitLimits& limits);
  // kRemoteError: the peer hung up, or sent what is not a message. No descriptor is left open on
  // failure.
  base::Result<LocalMessage> receive(const WaitLimits& limits);

 private:
  friend class LocalListener;
  LocalChannel(base::UniqueFd fd, uint32_t peer, PeerCredentials credentials)
      : fd_(std::move(fd)), peer_(peer), credentials_(credentials) {}
  std::string name() const { return "rank " + std::to_string(peer_); }

  base::UniqueFd fd_;
  uint32_t peer_ = 0;
  PeerCredentials credentials_;
};

class LocalListener {
 public:
  static base::Result<std::unique_ptr<LocalListener>> open(const LocalIdentity& self,
                                                           const base::Clock& clock);

  const std::string& address() const { return acceptor_->address(); }
  // Readable: step() has something to do.
  int fd() const { return acceptor_->fd(); }
  int timeoutMs() const { return acceptor_->timeoutMs(); }
  void step();
  // Waits for rank `peer`; others that come meanwhile are kept for their turn.
  base::Result<LocalChannel> accept(uint32_t peer, const WaitLimits& limits);
  // Lets rank `peer` connect again, after its channel has gone.
  void forget(uint32_t peer) { acceptor_->forget(peer); }
  // Ends this listener; its socket goes on (Acceptor::takeListener).
  base::UniqueFd takeSocket() { return acceptor_->takeListener(); }

 private:
  explicit LocalListener(std::unique_ptr<Acceptor> acceptor) : acceptor_(std::move(acceptor)) {}
  std::unique_ptr<Acceptor> acceptor_;
  std::map<uint32_t, LocalChannel> arrived_;
};

}  // namespace omnes::core::bootstrap
