// Prepared operations of collectives whose blocks have lengths of their own, by shape and lengths:
// a loop with the same lengths plans nothing and allocates nothing.
//
// As OperationCache, but smaller: what a program calls with ever new lengths is not worth keeping.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "core/comm/operation_cache.h"

namespace omnes::core {

// Of the lengths that all ranks agree on; they are part of what ranks compare. Never 0.
inline uint64_t hashOf(std::span<const uint64_t> counts) {
  uint64_t h = counts.size() + 1;
  for (const uint64_t count : counts) h = base::mix64(h ^ base::mix64(count + 1));
  return h | 1;
}

class VectorCache {
 public:
  using Pointer = OperationCache::Pointer;

  // Null when it is not there.
  const Pointer* find(const Shape& shape, const VectorLayout& layout) const {
    const Entry& entry = entries_[indexOf(shape, layout)];
    const bool isIt = entry.prepared && entry.prepared->shape == shape &&
                      std::equal(layout.counts.begin(), layout.counts.end(), entry.counts.begin(),
                                 entry.counts.end()) &&
                      std::equal(layout.displacements.begin(), layout.displacements.end(),
                                 entry.displacements.begin(), entry.displacements.end());
    return isIt ? &entry.prepared : nullptr;
  }
  // What it returns is valid until the next insert().
  const Pointer* insert(Prepared prepared, const VectorLayout& layout) {
    Entry& entry = entries_[indexOf(prepared.shape, layout)];
    entry.prepared = std::make_shared<const Prepared>(std::move(prepared));
    entry.counts.assign(layout.counts.begin(), layout.counts.end());
    entry.displacements.assign(layout.displacements.begin(), layout.displacements.end());
    return &entry.prepared;
  }

 private:
  static constexpr size_t kEntries = 32;
  struct Entry {
    Pointer prepared;
    std::vector<uint64_t> counts;
    std::vector<uint64_t> displacements;
  };

  static size_t indexOf(const Shape& shape, const VectorLayout& layout) {
    const uint64_t kind = uint64_t{static_cast<uint8_t>(shape.collective)} << 16 |
                          uint64_t{static_cast<uint8_t>(shape.type)} << 8 |
                          static_cast<uint8_t>(shape.op);
    return base::mix64(hashOf(layout.counts) ^ hashOf(layout.displacements) << 1 ^ kind << 40) %
           kEntries;
  }

  std::array<Entry, kEntries> entries_;
};

}  // namespace omnes::core
