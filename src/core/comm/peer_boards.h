// What the other ranks are doing, wherever they are: the boards of those whose memory can be read
// from here, and replicas for the others, which say it through the control connection when they or
// we are stuck.
//
// A stuck rank asks: it says what it has entered itself. Who is asked keeps that, answers once with
// the same about itself, and compares: if it has entered another call under that number, at
// whatever time, it knows of a mismatch that the asking rank cannot see. If the calls agree but
// their fingerprints do not, ranks disagreed about an operation before that one; then the answer is
// all that is remembered, and the asking rank finds out which it was.
//
// A rank that had only to give (the root of a broadcast) is never stuck, so after such a call the
// service thread compares: every rank with rank 0, and rank 0 with all.
//
// take() and compare() are for the service thread, the others for the thread that drives the
// operations, too; both at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
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
  // Looks at what all say they have entered, and asks where that is not enough. An error: a
  // mismatch.
  base::Status compare() const;

  // What a rank says it has entered, beside what this rank entered under that number.
  enum class Agreement : uint8_t {
    kUnknown,  // not entered yet, or too long ago
    kAgree,
    kDiffer,
    kDifferedBefore,  // the calls agree, one before them did not
  };
  Agreement compareWith(const base::BoardEntry& theirs) const;
  // After kDiffer: mismatch() with both sides.
  base::Status mismatch(int32_t peer, const base::BoardEntry& theirs) const;
  // After kDifferedBefore, when nobody remembers which.
  base::Status mismatchBefore(int32_t peer, const std::string& call) const;
  // "rank 0 (...) called `mine` but rank 1 (...) called `theirs`", and what to do.
  base::Status mismatch(int32_t peer, const std::string& mine, const std::string& theirs) const;

 private:
  void send(int32_t rank, bool isAnswer) const;
  void sendEntry(int32_t rank, const base::BoardEntry& entry, bool isAnswer) const;
  // What this rank has entered of late, oldest first.
  void sendHistory(int32_t rank) const;
  std::string nameOf(int32_t rank) const { return (*in_.peers)[rank].nameAs(rank); }

  const Parts in_;
  std::unique_ptr<base::Board[]> replicas_;  // by rank; null when all boards can be read
  std::vector<const base::Board*> boards_;
  std::vector<bool> isShared_;
  std::vector<std::atomic<bool>> heard_;  // by rank: its replica has been written
};

}  // namespace omnes::core
