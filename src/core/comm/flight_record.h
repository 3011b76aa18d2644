// The last operations of a rank, for the message of a time-out: what was done, by which algorithm,
// how far it got.
//
// A ring of 256 records that the hot path overwrites in place; text is made only when somebody
// asks. Used by the thread that runs the operations.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/comm/call.h"

namespace omnes::core {

class FlightRecord {
 public:
  static constexpr size_t kLength = 256;

  void begin(const Call& call, const Prepared& prepared) {
    Entry& entry = entries_[call.sequence % kLength];
    entry.call = call;
    entry.algorithm = prepared.algorithm;
    entry.finished = false;
    last_ = call.sequence;
  }
  void finish() { entries_[last_ % kLength].finished = true; }

  // The newest first, one a line, at most `most`; consecutive equal shapes are folded into one
  // line.
  std::string text(size_t most = kLength) const;

 private:
  struct Entry {
    Call call;
    std::string_view algorithm;
    bool finished = false;
  };
  std::array<Entry, kLength> entries_;
  uint64_t last_ = 0;
};

}  // namespace omnes::core
