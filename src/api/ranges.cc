#include "api/ranges.h"

#include <algorithm>
#include <string>

#include "api/arguments.h"
#include "core/exec/message.h"

namespace omnes::api {

using base::Status;

uint8_t* Blocks::at(int rank) const {
  uint64_t elements = 0;
  if (displacements != nullptr)
    elements = displacements[rank];
  else
    for (int before = 0; before < rank; ++before) elements += counts[before];
  return static_cast<uint8_t*>(const_cast<void*>(data)) + elements * width;
}

Status check(const Blocks& blocks) {
  if (blocks.counts == nullptr) return bad(std::string(blocks.countsName) + " is NULL");
  const uint64_t most = std::min<uint64_t>(INT64_MAX / blocks.width, core::kMostMessageElements);
  uint64_t behind = 0;
  for (int rank = 0; rank < blocks.nranks; ++rank) {
    const uint64_t count = blocks.counts[rank];
    const uint64_t start = blocks.displacements == nullptr ? behind : blocks.displacements[rank];
    if (count > most || (count > 0 && start > INT64_MAX / blocks.width - count))
      return bad(std::string(blocks.countsName) + "[" + std::to_string(rank) + "] is " +
                 std::to_string(count) + ", at element " + std::to_string(start) +
                 ": a block has at most " + std::to_string(most) +
                 " elements and ends before 2^63 bytes");
    behind = start + count;
    if (count > 0 && blocks.data == nullptr) return bad(std::string(blocks.buffer) + " is NULL");
  }
  return Status::ok();
}

Status Ranges::take(const Blocks& blocks) {
  ranges_.clear();
  bool isSorted = true;
  uint64_t packed = 0;
  for (int rank = 0; rank < blocks.nranks; ++rank) {
    const uint64_t start = blocks.displacements == nullptr ? packed : blocks.displacements[rank];
    packed += blocks.counts[rank];
    if (blocks.counts[rank] == 0) continue;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(blocks.data) + start * blocks.width;
    if (!ranges_.empty() && begin < ranges_.back().begin) isSorted = false;
    ranges_.push_back({begin, begin + blocks.counts[rank] * blocks.width, rank});
  }
  if (!isSorted)
    std::sort(ranges_.begin(), ranges_.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges_.size(); ++i)
    if (ranges_[i].begin < ranges_[i - 1].end)
      return bad("the blocks of ranks " + std::to_string(ranges_[i - 1].rank) + " and " +
                 std::to_string(ranges_[i].rank) + " overlap in " + blocks.buffer + ": see " +
                 blocks.countsName + " and " + blocks.displacementsName);
  return Status::ok();
}

bool Ranges::overlap(const void* data, uint64_t bytes) const {
  if (bytes == 0) return false;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  // The first that ends behind the beginning.
  const auto at = std::upper_bound(ranges_.begin(), ranges_.end(), begin,
                                   [](uintptr_t b, const Range& r) { return b < r.end; });
  return at != ranges_.end() && at->begin < begin + bytes;
}

}  // namespace omnes::api
