// What the other ranks are doing, wherever they are: the boards of those whose memory can be read
// from here, and replicas for the others, which say it through the control connection when they or
// we are stuck.
//
// A stuck rank asks: it says what it has entered itself. Who is asked keeps that, answers once with
// the same about itself, and compares: if it has entered another call under that number, at
// whatever time, it knows of a mismatch that the asking rank cannot see.
//
// of(), ask() and mismatch() are for the thread that drives the operations, take() for the service
// thread; both at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/board.h"
#include "base/status.h"
#include "core/bootstrap/rendezvous.h"
#include "core/comm/flight_record.h"
#include "core/comm/peer_info.h"
#include "core/exec/link_set.h"

namespace omnes::core {

class PeerBoards {
 public:
  // All must outlive it.
  struct Parts {
    int32_t rank = 0;
    const LinkSet* links = nullptr;
    bootstrap::Rendezvous* rendezvous = nullptr;
    const base::Board* own = nullptr;
    const FlightRecord* record = nullptr;
    const std::vector<PeerInfo>* peers = nullptr;
  };
  explicit PeerBoards(const Parts& parts);

  // Never null. What a replica says may be old.
  const base::Board* of(int32_t rank) const { return boards_[rank]; }
  // Whether its board is the very one that the rank writes.
  bool isShared(int32_t rank) const { return isShared_[rank]; }
  // Whether anything is known of it.
  bool isHeard(int32_t rank) const {
    // H2: pairs with H1.
    return isShared_[rank] || heard_[rank].load(std::memory_order_acquire);
  }
  bool haveReplicas() const { return replicas_ != nullptr; }

  // Asks a rank, or with -1 all others. Never waits; a question may get lost.
  void ask(int32_t rank) const { send(rank, false); }
  // What a rank has sent. An error: the mismatch that it shows.
  base::Status take(int32_t rank, std::string_view payload);
  // "rank 0 (...) called `mine` but rank 1 (...) called `theirs`", and what to do.
  base::Status mismatch(int32_t peer, const std::string& mine, const std::string& theirs) const;

 private:
  void send(int32_t rank, bool isAnswer) const;
  std::string nameOf(int32_t rank) const { return (*in_.peers)[rank].nameAs(rank); }

  const Parts in_;
  std::unique_ptr<base::Board[]> replicas_;  // by rank; null when all boards can be read
  std::vector<const base::Board*> boards_;
  std::vector<bool> isShared_;
  std::vector<std::atomic<bool>> heard_;  // by rank: its replica has been written
};

}  // namespace omnes::core
