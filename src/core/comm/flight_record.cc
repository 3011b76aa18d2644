#include "core/comm/flight_record.h"

#include <algorithm>

namespace omnes::core {

std::string FlightRecord::text(size_t most) const {
  std::string out;
  const uint64_t oldest = last_ >= kLength ? last_ - kLength + 1 : 1;
  size_t lines = 0;
  for (uint64_t sequence = last_; sequence >= oldest && sequence > 0 && lines < most; ++lines) {
    const Entry& entry = entries_[sequence % kLength];
    uint64_t first = sequence;
    while (first > oldest) {
      const Entry& before = entries_[(first - 1) % kLength];
      if (!(before.call.shape == entry.call.shape) || before.finished != entry.finished) break;
      --first;
    }
    out += "\n  " + describe(entry.call);
    if (first != sequence) out += " and the same from #" + std::to_string(first) + " on";
    out += " by " + std::string(entry.algorithm) + (entry.finished ? ", finished" : ", under way");
    sequence = first - 1;
  }
  return out;
}

}  // namespace omnes::core
