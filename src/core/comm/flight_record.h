// The last operations of a rank: for the message of a time-out (what was done, by which algorithm,
// how far it got), and to compare with what other ranks say they have entered.
//
// A ring of 256 records that the hot path overwrites in place, one line each; text is made only
// when somebody asks. Written and turned into text by the thread that runs the operations; find()
// is for any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/board.h"
#include "core/comm/call.h"

namespace omnes::core {

class FlightRecord {
 public:
  static constexpr size_t kLength = 256;
  static constexpr size_t kMessagesLength = 32;

  // algorithm: static storage.
  void begin(const Call& call, uint64_t fingerprint, std::string_view algorithm) {
    Entry& entry = entries_[call.sequence % kLength];
    // Relaxed is enough for "none": the release stores below cannot move before it.
    entry.sequence.store(0, std::memory_order_relaxed);
    // R1: each pairs with R2; who sees one of these fields no longer sees the old number.
    entry.fingerprint.store(fingerprint, std::memory_order_release);
    entry.count.store(call.shape.count, std::memory_order_release);
    entry.kind.store(kindOf(call), std::memory_order_release);
    // R3: pairs with R4: the fields are complete.
    entry.sequence.store(call.sequence, std::memory_order_release);
    entry.algorithm = algorithm;
    entry.finished = false;
    last_ = call.sequence;
  }
  void finish() { entries_[last_ % kLength].finished = true; }
  // Sends and receives, which have no number of their own.
  void beginMessages(uint32_t sends, uint32_t receives, uint64_t bytes) {
    messages_[messagesBegun_++ % kMessagesLength] = {last_, bytes, sends, receives, false};
  }
  void finishMessages() { messages_[(messagesBegun_ - 1) % kMessagesLength].finished = true; }

  // What this rank has entered under that number; empty when it has not yet, or too long ago.
  std::optional<base::BoardEntry> find(uint64_t sequence) const;
  // The newest first, one a line, at most `most`; consecutive equal shapes are folded into one
  // line. Then sends and receives likewise.
  std::string text(size_t most = kLength) const;

 private:
  struct alignas(64) Entry {
    std::atomic<uint64_t> sequence{0};
    std::atomic<uint64_t> fingerprint{0};
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> kind{0};
    // Of the thread that runs the operations alone.
    std::string_view algorithm;
    bool finished = false;
  };
  static_assert(sizeof(Entry) == 64);

  // Collective, type, operator and root in one word.
  static uint64_t kindOf(const Call& call) {
    return uint64_t{static_cast<uint8_t>(call.shape.collective)} << 48 |
           uint64_t{static_cast<uint8_t>(call.shape.type)} << 40 |
           uint64_t{static_cast<uint8_t>(call.shape.op)} << 32 |
           static_cast<uint32_t>(call.shape.root);
  }
  // For the thread that writes.
  base::BoardEntry at(uint64_t sequence) const;

  // Of the thread that runs the operations alone.
  struct Messages {
    uint64_t after = 0;  // the operation of all ranks before them
    uint64_t bytes = 0;
    uint32_t sends = 0;
    uint32_t receives = 0;
    bool finished = false;
  };
  std::string messagesText(size_t most) const;

  std::array<Entry, kLength> entries_;
  uint64_t last_ = 0;
  std::array<Messages, kMessagesLength> messages_;
  uint64_t messagesBegun_ = 0;
};

}  // namespace omnes::core
