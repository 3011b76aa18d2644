// The description of all-to-all with uneven blocks for the shared frame; see common/collective.h.
#pragma once

#include "common/collective.h"

namespace omnes::perf {

// What `from` sends to `to`, in units: 1 to n, each of them once for every rank, so that all ranks
// send and receive the same.
inline uint64_t alltoallvShare(int from, int to, int nranks) {
  return static_cast<uint64_t>((from + to) % nranks) + 1;
}

// One side's blocks of a rank, by peer.
struct AlltoallvBlocks {
  std::vector<size_t> counts, displacements;
  uint64_t total = 0;

  AlltoallvBlocks(uint64_t unit, int nranks, int rank) {
    for (int peer = 0; peer < nranks; ++peer) {
      counts.push_back(unit * alltoallvShare(rank, peer, nranks));
      displacements.push_back(total);
      total += counts.back();
    }
  }
};

inline Layout alltoallvLayout(uint64_t elements, int nranks, int rank, int) {
  const auto n = static_cast<uint64_t>(nranks);
  const uint64_t unit = elements / (n * (n + 1) / 2);
  // Shares are alike in both directions.
  const AlltoallvBlocks mine(unit, nranks, rank);
  Layout layout{unit, mine.total, mine.total, mine.total, 0, 0, {}};
  for (int source = 0; source < nranks; ++source) {
    const AlltoallvBlocks theirs(unit, nranks, source);
    const auto from = static_cast<size_t>(source);
    layout.expected.push_back({mine.displacements[from], mine.counts[from], source,
                               theirs.displacements[static_cast<size_t>(rank)]});
  }
  return layout;
}

inline double alltoallvBusFactor(int nranks) { return static_cast<double>(nranks - 1) / nranks; }

inline omnesResult_t runAlltoallv(const Call& call) {
  const AlltoallvBlocks blocks(call.count, call.nranks, call.rank);
  return omnesAlltoAllV(call.send, blocks.counts.data(), blocks.displacements.data(), call.recv,
                        blocks.counts.data(), blocks.displacements.data(), call.type, call.comm,
                        nullptr);
}

inline constexpr Collective kAlltoallv = {
    .program = "alltoallv_perf",
    .call = "omnesAlltoAllV",
    .reduces = false,
    .rooted = false,
    .layout = alltoallvLayout,
    .busFactor = alltoallvBusFactor,
    .run = runAlltoallv,
    .hasInPlace = false,
};

}  // namespace omnes::perf
