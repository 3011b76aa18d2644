// Communicators made out of others: split, shrink, grow. docs/adr/0009-shrink.md says how the ranks
// find together.
//
// Each function runs in the thread of the call or of the background join, blocks at most until
// settings.initTimeoutMs, and ends at once when aborted or when the communicator of this rank that
// it derives from ends. What is derived shares nothing with its origin but the derivation of its
// key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/roster.h"
#include "core/comm/settings.h"

namespace omnes::core {

// The place of a call in the order of derivations from one communicator; given back at the end.
class Turn {
 public:
  explicit Turn(std::shared_ptr<Roster> roster)
      : roster_(std::move(roster)), ticket_(roster_->takeTicket()) {}
  ~Turn() { end(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Roster& roster() const { return *roster_; }
  const std::shared_ptr<Roster>& owner() const { return roster_; }
  // Lets the next one go on. Used by one thread at a time.
  void end() {
    if (!std::exchange(isOver_, true)) roster_->endTurn(ticket_);
  }
  base::Status await(const bootstrap::WaitLimits& limits) const {
    return roster_->awaitTurn(ticket_, limits);
  }

 private:
  const std::shared_ptr<Roster> roster_;
  const uint64_t ticket_;
  bool isOver_ = false;
};

// What is derived from: taken while the call is made, used by the thread that derives.
struct Origin {
  std::shared_ptr<Turn> turn;
  CommSettings settings;  // of the new communicator
};

inline constexpr int32_t kNoColor = -1;

// The ranks of one colour, by key and then by rank; null for kNoColor. All ranks take part.
base::Result<std::unique_ptr<Communicator>> split(const Origin& origin, int32_t color, int32_t key,
                                                  const AbortSignal& abort);

struct ShrinkWish {
  std::vector<uint32_t> excluded;  // ascending, this rank not among them
  // Ranks agree on who is dead, and go on without them; else the list is all.
  bool withoutDead = false;
};
base::Result<std::unique_ptr<Communicator>> shrink(const Origin& origin, const ShrinkWish& wish,
                                                   const AbortSignal& abort);

// All ranks keep their numbers, new ones follow; those join by the same id. `id`: the 128 bytes of
// it, or empty: another rank of the origin has it.
base::Result<std::unique_ptr<Communicator>> grow(const Origin& origin, int32_t nranks,
                                                 const std::string& id, const AbortSignal& abort);

}  // namespace omnes::core
