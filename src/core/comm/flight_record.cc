#include "core/comm/flight_record.h"

#include <algorithm>

namespace omnes::core {
namespace {

base::BoardEntry unpack(uint64_t sequence, uint64_t fingerprint, uint64_t count, uint64_t kind) {
  base::BoardEntry out;
  out.sequence = sequence;
  out.fingerprint = fingerprint;
  out.count = count;
  out.collective = static_cast<uint8_t>(kind >> 48);
  out.type = static_cast<uint8_t>(kind >> 40);
  out.op = static_cast<uint8_t>(kind >> 32);
  out.root = static_cast<int32_t>(static_cast<uint32_t>(kind));
  return out;
}

bool haveOneShape(const base::BoardEntry& a, const base::BoardEntry& b) {
  return a.count == b.count && a.collective == b.collective && a.type == b.type && a.op == b.op &&
         a.root == b.root;
}

}  // namespace

std::optional<base::BoardEntry> FlightRecord::find(uint64_t sequence) const {
  const Entry& entry = entries_[sequence % kLength];
  // R4: pairs with R3.
  if (sequence == 0 || entry.sequence.load(std::memory_order_acquire) != sequence)
    return std::nullopt;
  // R2: pair with R1; acquire keeps the second look at the number behind them.
  const uint64_t fingerprint = entry.fingerprint.load(std::memory_order_acquire);
  const uint64_t count = entry.count.load(std::memory_order_acquire);
  const uint64_t kind = entry.kind.load(std::memory_order_acquire);
  // Relaxed: ordered behind the acquires above.
  if (entry.sequence.load(std::memory_order_relaxed) != sequence) return std::nullopt;
  return unpack(sequence, fingerprint, count, kind);
}

base::BoardEntry FlightRecord::at(uint64_t sequence) const {
  const Entry& entry = entries_[sequence % kLength];
  // Relaxed: our own stores.
  return unpack(sequence, entry.fingerprint.load(std::memory_order_relaxed),
                entry.count.load(std::memory_order_relaxed),
                entry.kind.load(std::memory_order_relaxed));
}

std::string FlightRecord::text(size_t most) const {
  std::string out;
  const uint64_t oldest = last_ >= kLength ? last_ - kLength + 1 : 1;
  size_t lines = 0;
  for (uint64_t sequence = last_; sequence >= oldest && sequence > 0 && lines < most; ++lines) {
    const Entry& entry = entries_[sequence % kLength];
    const base::BoardEntry call = at(sequence);
    uint64_t first = sequence;
    while (first > oldest) {
      const bool isAlike = haveOneShape(at(first - 1), call) &&
                           entries_[(first - 1) % kLength].finished == entry.finished;
      if (!isAlike) break;
      --first;
    }
    out += "\n  " + describe(call);
    if (first != sequence) out += " and the same from #" + std::to_string(first) + " on";
    out += " by " + std::string(entry.algorithm) + (entry.finished ? ", finished" : ", under way");
    sequence = first - 1;
  }
  return out + messagesText(most);
}

std::string FlightRecord::messagesText(size_t most) const {
  std::string out;
  size_t lines = 0;
  const uint64_t oldest = messagesBegun_ > kMessagesLength ? messagesBegun_ - kMessagesLength : 0;
  for (uint64_t i = messagesBegun_; i > oldest && lines < most; ++lines) {
    const Messages& it = messages_[--i % kMessagesLength];
    uint64_t times = 1;
    for (; i > oldest; --i, ++times) {
      const Messages& before = messages_[(i - 1) % kMessagesLength];
      if (before.after != it.after || before.bytes != it.bytes || before.sends != it.sends ||
          before.receives != it.receives || before.finished != it.finished)
        break;
    }
    out += "\n  sends: " + std::to_string(it.sends) + ", receives: " + std::to_string(it.receives) +
           ", bytes: " + std::to_string(it.bytes) + ", after operation #" +
           std::to_string(it.after) + (times > 1 ? ", " + std::to_string(times) + " times" : "") +
           (it.finished ? ", finished" : ", under way");
  }
  return out;
}

}  // namespace omnes::core
