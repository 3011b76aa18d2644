// The hosts of this process: each runs the loop of one meeting (meeting_loop.h) in a thread, and a
// table lists them all, so that they are found by address and by communicator.
//
// It lives in the process of rank 0 or of the id's maker, starts with start() and ends by itself:
// when its ranks have all said goodbye or closed, a moment after the meeting has failed, at stop(),
// or with the process. It has no owner, blocks all signals, and never blocks on a peer. A forked
// child has no hosts and an empty table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "core/bootstrap/secret.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/wire.h"

namespace omnes::core::bootstrap {

class MeetingLoop;

struct MeetingHostOptions {
  std::string address;
  ListenOptions listen = {};
  // A socket that listens at `address` already; empty: one is made.
  base::UniqueFd listener = {};
  Secret secret;
  uint64_t commId = 0;
  // After the meeting: true answers later comers that the id is spent; false gives the address
  // back.
  bool keepsListening = true;
  // How long ranks that come after a failure are still told its cause.
  base::Duration linger = std::chrono::seconds(1);
  // For tests.
  base::Duration proofTime = std::chrono::seconds(5);
  unsigned maxUnproven = 64;
  uint32_t wireVersion = kWireVersion;
};

// A handle; letting go of it does not end the host. Thread-safe.
class MeetingHost {
 public:
  // Listens before it returns, so that ranks may connect at once. kSystemError names an address
  // that is in use. `clock` must outlive the process's last host; Clock::monotonic() does.
  static base::Result<std::shared_ptr<MeetingHost>> start(
      MeetingHostOptions options, const base::Clock& clock = base::Clock::monotonic());

  const std::string& address() const { return address_; }
  // Fails the meeting: its ranks, and those who come while it lingers, are told `cause`. Does not
  // wait. Has no effect once all have met.
  void giveUp(const base::Status& cause) const;
  // After a failure: waits, at most `limit`, until the ranks have been told why.
  void awaitTold(base::Duration limit) const;
  // Ends the host at once; its ranks see their connections close. Does not wait.
  void stop() const;
  // After a meeting hosted by this process at `address` has failed: waits, at most `limit`, until
  // its ranks have been told why, so that the process may end. Returns at once when there is no
  // such meeting here. With `andLate` it waits for those who have not come yet as well.
  static void awaitFailureTold(const std::string& address, base::Duration limit, bool andLate);
  // Waits until the host of this communicator, if it runs in this process, has passed on what had
  // been sent to it before, at most `limit`: then this process may end without taking that along.
  static void awaitSettled(uint64_t commId, base::Duration limit);
  // Hosts of this process that have not ended yet.
  static int running();

 private:
  MeetingHost() = default;
  std::string address_;
  std::shared_ptr<MeetingLoop> loop_;
};

}  // namespace omnes::core::bootstrap
