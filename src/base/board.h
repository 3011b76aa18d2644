// What a rank says about itself where its peers can read it: the operation it entered last, and the
// one it finished.
//
// Written by its owner at every call, after the first chunk is out; read by peers only in the slow
// part of a wait, to turn calls that would never meet into an error and to name who is late. A
// sequence lock of atomics: the owner never waits, a reader that meets a change under way reads
// again. Lies in shared memory, zeroed at start.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace omnes::base {

struct BoardEntry {
  uint64_t sequence = 0;     // number of the operation, from 1; 0 = none entered yet
  uint64_t fingerprint = 0;  // of the call; equal on all ranks that agree
  uint64_t count = 0;
  uint32_t collective = 0;
  uint32_t type = 0;
  uint32_t op = 0;
  int32_t root = -1;
};

class alignas(128) Board {
 public:
  void enter(const BoardEntry& entry) {
    // Relaxed: only the owner writes the version.
    const uint64_t version = version_.load(std::memory_order_relaxed);
    // Relaxed is enough for the odd mark: the release stores below cannot move before it.
    version_.store(version + 1, std::memory_order_relaxed);
    // B1: each pairs with B2; a reader that sees one of these fields also sees the odd version.
    sequence_.store(entry.sequence, std::memory_order_release);
    fingerprint_.store(entry.fingerprint, std::memory_order_release);
    count_.store(entry.count, std::memory_order_release);
    kind_.store(uint64_t{entry.collective} << 32 | entry.type, std::memory_order_release);
    op_.store(uint64_t{entry.op} << 32 | static_cast<uint32_t>(entry.root),
              std::memory_order_release);
    // V1: pairs with V2: the fields are complete.
    version_.store(version + 2, std::memory_order_release);
  }
  void finish(uint64_t sequence) {
    // Relaxed: a number for messages; it orders nothing.
    finished_.store(sequence, std::memory_order_relaxed);
  }

  // Empty when the owner is writing just now.
  std::optional<BoardEntry> read() const {
    // V2: pairs with V1.
    const uint64_t before = version_.load(std::memory_order_acquire);
    if (before & 1) return std::nullopt;
    BoardEntry entry;
    // B2: pair with B1; acquire keeps the second look at the version behind them.
    entry.sequence = sequence_.load(std::memory_order_acquire);
    entry.fingerprint = fingerprint_.load(std::memory_order_acquire);
    entry.count = count_.load(std::memory_order_acquire);
    const uint64_t kind = kind_.load(std::memory_order_acquire);
    const uint64_t op = op_.load(std::memory_order_acquire);
    // Relaxed: ordered behind the acquires above.
    if (version_.load(std::memory_order_relaxed) != before) return std::nullopt;
    entry.collective = static_cast<uint32_t>(kind >> 32);
    entry.type = static_cast<uint32_t>(kind);
    entry.op = static_cast<uint32_t>(op >> 32);
    entry.root = static_cast<int32_t>(static_cast<uint32_t>(op));
    return entry;
  }
  // Says that this rank has failed: for peers whom the message about it does not reach.
  void fail(uint32_t code) {
    // Relaxed: a number; what happened comes by message.
    failure_.store(code, std::memory_order_relaxed);
  }
  // Relaxed: as fail().
  uint32_t failure() const { return failure_.load(std::memory_order_relaxed); }
  // Relaxed: as finish().
  uint64_t finished() const { return finished_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> version_;
  std::atomic<uint64_t> sequence_;
  std::atomic<uint64_t> fingerprint_;
  std::atomic<uint64_t> count_;
  std::atomic<uint64_t> kind_;
  std::atomic<uint64_t> op_;
  std::atomic<uint64_t> finished_;
  std::atomic<uint32_t> failure_;
};
static_assert(sizeof(Board) == 128);

}  // namespace omnes::base
