// What a rank knows of the ranks of its communicator that outlives a failure: who they are, how
// each is reached, which of them are gone, and the key that they share. Everything from which
// another communicator can be made, so derivations keep it even when the communicator itself ends.
//
// Thread-safe; only one derivation at a time uses the listener, in the order of their calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/event.h"
#include "base/fd.h"
#include "base/status.h"
#include "core/bootstrap/secret.h"
#include "core/bootstrap/socket_io.h"
#include "core/comm/peer_info.h"

namespace omnes::core {

class Roster {
 public:
  struct Parts {
    bootstrap::Secret secret = {};
    uint64_t commId = 0;
    int32_t rank = 0;
    std::vector<PeerInfo> peers;         // by rank
    std::vector<std::string> addresses;  // of their listeners
    base::UniqueFd listener = {};        // the own one
  };
  static base::Result<std::shared_ptr<Roster>> make(Parts parts);

  const bootstrap::Secret& secret() const { return parts_.secret; }
  uint64_t commId() const { return parts_.commId; }
  int32_t rank() const { return parts_.rank; }
  int32_t nranks() const { return static_cast<int32_t>(parts_.addresses.size()); }
  const std::vector<std::string>& addresses() const { return parts_.addresses; }
  std::string nameOf(int32_t rank) const { return parts_.peers[rank].nameAs(rank); }

  void noteDead(int32_t rank) {
    // D1: pairs with D2.
    dead_[rank].store(true, std::memory_order_release);
  }
  void noteLeft(int32_t rank) {
    // L1: pairs with L2.
    left_[rank].store(true, std::memory_order_release);
  }
  bool isDead(int32_t rank) const {
    // D2: pairs with D1.
    return dead_[rank].load(std::memory_order_acquire);
  }
  // Whether it has said goodbye.
  bool hasLeft(int32_t rank) const {
    // L2: pairs with L1.
    return left_[rank].load(std::memory_order_acquire);
  }

  // The communicator of this rank ends: nothing is to be derived from it any more.
  void end() const { ended_.signal(); }
  // Readable from then on.
  int endedFd() const { return ended_.fd(); }

  // The place in the order of derivations of a call that is just being made.
  uint64_t takeTicket() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return nextTicket_++;
  }
  // Waits until those before have ended. kTimeout, kInvalidUsage (aborted).
  base::Status awaitTurn(uint64_t ticket, const bootstrap::WaitLimits& limits);
  // Also without having had its turn.
  void endTurn(uint64_t ticket);
  // Of whose turn it is.
  base::UniqueFd* listener() { return &parts_.listener; }

 private:
  Roster(Parts parts, base::EventFd ended);

  Parts parts_;
  std::vector<std::atomic<bool>> dead_;
  std::vector<std::atomic<bool>> left_;
  const base::EventFd ended_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable turned_;
  uint64_t nextTicket_ = 0;
  uint64_t turn_ = 0;
  std::vector<uint64_t> givenUp_;  // tickets after turn_ that have ended
};

}  // namespace omnes::core
