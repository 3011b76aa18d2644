// One connection that this rank makes to another: connects, proves, and does both again as long as
// that may help. The event loop is its owner's.
//
//   pausing --pauseEnd()--> connecting --> proving --> done
//      ^------- lost, full or unreachable ----'
//
// One thread at a time per object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {

class OutgoingLink {
 public:
  enum class State : uint8_t { kPausing, kConnecting, kProving, kDone };

  // `address` is numeric. Precondition: initCrypto() has succeeded.
  // `refusalGrace`: how long a refusal is no answer yet; a listener that was there a moment ago may
  // refuse in passing.
  OutgoingLink(const Secret& secret, const ProofIdentity& identity, const SocketAddress& address,
               base::Duration refusalGrace = std::chrono::seconds(1))
      : secret_(secret), identity_(identity), address_(address), refusalGrace_(refusalGrace) {}

  State state() const { return state_; }
  uint32_t peer() const { return identity_.to; }
  // -1 while pausing. Poll for events() on it, then call step().
  int fd() const { return fd_.get(); }
  short events() const;
  // When step() must be called in any case; TimePoint of Duration::max() when only fd() matters.
  base::TimePoint wakeAt() const { return wakeAt_; }
  // Does what can be done now. A Status is final.
  base::Status step(base::TimePoint now);
  // What stood in the way last; empty when nothing did.
  const std::string& trouble() const { return trouble_; }
  // The connection. Precondition: state() is kDone.
  base::UniqueFd take() { return std::move(fd_); }

 private:
  base::Status start(base::TimePoint now);
  base::Status onConnected(int error, base::TimePoint now);
  base::Status prove(base::TimePoint now);
  // Pauses, or gives up when `error` has stood in the way for too long.
  base::Status retry(int error, base::TimePoint now);
  void pause(base::TimePoint now);

  const Secret secret_;
  const ProofIdentity identity_;
  const SocketAddress address_;
  const base::Duration refusalGrace_;
  State state_ = State::kPausing;
  base::UniqueFd fd_;
  std::optional<ProofInitiator> proof_;
  base::TimePoint wakeAt_{};
  base::Duration pause_{0};
  base::Duration patience_{0};  // of the next attempt to connect
  base::TimePoint refusedSince_{base::Duration::max()};
  base::TimePoint duplicateSince_{base::Duration::max()};
  bool wasLost_ = false;  // a connection was lost during its proof
  std::string trouble_;
};

}  // namespace omnes::core::bootstrap
