// Listens, and lets in those who prove that they belong.
//
// Strangers cost little: at most `maxUnproven` unproven connections at once, each of fixed size and
// at most `proofTime` old; when a new one finds no room, the oldest goes. No proof is ever waited
// for: step() moves what is ready. A connection that is refused or lost is only counted; the
// listener goes on.
//
// Used by one thread at a time. Put fd() into the owner's poll or epoll set (readable = call
// step()), and call step() after timeoutMs() in any case.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/event.h"
#include "base/fd.h"
#include "base/status.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/secret.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/socket_io.h"

namespace omnes::core::bootstrap {

struct AcceptorOptions {
  std::string address;
  Secret secret;
  ProofIdentity expected;
  // This many kinds of connections are let in, from expected.kind on.
  uint32_t kinds = 1;
  ListenOptions listen = {};
  // Refuses a second connection of a (from, to, kind) until forget() is called. Off: the owner
  // decides later.
  bool refusesDuplicates = true;
  unsigned maxUnproven = 64;
  base::Duration proofTime = std::chrono::seconds(5);
  uint32_t wireVersion = kWireVersion;  // for tests
};

struct ProvenConnection {
  base::UniqueFd fd;  // non-blocking, close-on-exec
  Hello hello;
  PeerCredentials peer;
};

// One of the family, proven, but refused for its version or number of ranks.
struct RefusedConnection {
  Hello hello;
  base::Status reason;
};

struct AcceptorCounters {
  uint64_t accepted = 0;  // connections taken from the kernel
  uint64_t proven = 0;
  uint64_t dropped = 0;   // pushed out by newer ones, or too old
  uint64_t rejected = 0;  // bad frames, bad proofs, wrong users
  int acceptErrno = 0;    // last failure of accept other than a passing one, e.g. EMFILE
};

class Acceptor {
 public:
  // kSystemError names the address; `savedErrno` gets its errno when it is not null. `clock` must
  // outlive the Acceptor.
  static base::Result<std::unique_ptr<Acceptor>> listen(AcceptorOptions options,
                                                        const base::Clock& clock,
                                                        int* savedErrno = nullptr);
  // The same with a socket that listens already (options.address is its address).
  static base::Result<std::unique_ptr<Acceptor>> adopt(base::UniqueFd listener,
                                                       AcceptorOptions options,
                                                       const base::Clock& clock);
  ~Acceptor();

  const std::string& address() const { return address_; }
  int fd() const { return epoll_.fd(); }
  // -1 when only fd() matters.
  int timeoutMs() const;
  // Appends to both; `refused` may be null.
  void step(std::vector<ProvenConnection>* proven, std::vector<RefusedConnection>* refused);
  // The connections of this rank have ended, or the one of this kind; it may come again.
  void forget(uint32_t from);
  void forget(uint32_t from, LinkKind kind) { live_.erase({from, kind}); }
  // Accepting fails for want of descriptors, and no unproven connection is left to give one back.
  bool isOutOfDescriptors() const;
  // The address is free for others from here on; unproven connections are dropped.
  void stopListening();
  // As stopListening(), but the listening socket lives on in the result: connections wait in its
  // queue.
  base::UniqueFd takeListener();

  const AcceptorCounters& counters() const { return counters_; }
  size_t unproven() const { return pending_.size(); }

 private:
  struct Pending;
  using Peer = std::pair<uint32_t, LinkKind>;

  Acceptor(AcceptorOptions options, base::Epoll epoll, const base::Clock& clock);
  void acceptAll();
  void accepted(base::UniqueFd fd);
  void onAcceptError(int error);
  void dropOldest();
  void dropExpired();
  void resumeListening();
  // Whether it is finished with and must leave the list.
  bool advance(Pending& pending, std::vector<ProvenConnection>* proven,
               std::vector<RefusedConnection>* refused);
  void updateInterest(Pending& pending);

  const AcceptorOptions options_;
  const base::Clock& clock_;
  std::string address_;
  base::Epoll epoll_;
  base::UniqueFd listener_;
  bool listenerPaused_ = false;
  base::TimePoint resumeAt_;
  std::vector<std::unique_ptr<Pending>> pending_;  // oldest first
  std::set<Peer> live_;
  AcceptorCounters counters_;
};

}  // namespace omnes::core::bootstrap
