// The description of an all-gather along the edges of a hypercube for the shared frame; see
// common/collective.h.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "common/collective.h"

namespace omnes::perf {

inline Layout hypercubeLayout(uint64_t elements, int nranks, int rank, int) {
  const auto n = static_cast<uint64_t>(nranks);
  const uint64_t block = elements / n;
  Layout layout{block,
                block,
                n * block,
                block * std::max<uint64_t>(n - 1, 1),
                static_cast<uint64_t>(rank) * block,
                0,
                {}};
  for (int source = 0; source < nranks; ++source)
    layout.expected.push_back({static_cast<uint64_t>(source) * block, block, source, 0});
  return layout;
}

// The size is what a rank receives.
inline double hypercubeBusFactor(int) { return 1; }

inline std::string hypercubeRefuses(int nranks) {
  if ((nranks & (nranks - 1)) == 0) return {};
  return "a hypercube needs a power of two ranks, there are " + std::to_string(nranks) +
         "; use all_gather_perf";
}

// In step k the rank exchanges all that it has with the one whose number differs in bit k.
inline omnesResult_t runHypercube(const Call& call) {
  auto* all = static_cast<unsigned char*>(call.recv);
  const uint64_t bytes = call.count * call.width;
  unsigned char* own = all + static_cast<uint64_t>(call.rank) * bytes;
  if (call.send != own && bytes > 0) std::memcpy(own, call.send, bytes);
  for (int bit = 1; bit < call.nranks; bit *= 2) {
    const int peer = call.rank ^ bit;
    const int mine = call.rank & ~(bit - 1), theirs = peer & ~(bit - 1);
    const uint64_t count = call.count * static_cast<uint64_t>(bit);
    omnesResult_t result = omnesGroupStart();
    if (result != omnesSuccess) return result;
    result = omnesSend(all + static_cast<uint64_t>(mine) * bytes, count, call.type, peer, call.comm,
                       nullptr);
    if (result == omnesSuccess)
      result = omnesRecv(all + static_cast<uint64_t>(theirs) * bytes, count, call.type, peer,
                         call.comm, nullptr);
    const omnesResult_t ended = omnesGroupEnd();
    if (result != omnesSuccess) return result;
    if (ended != omnesSuccess) return ended;
  }
  return omnesSuccess;
}

inline constexpr Collective kHypercube = {
    .program = "hypercube_perf",
    .call = "omnesSend and omnesRecv",
    .reduces = false,
    .rooted = false,
    .layout = hypercubeLayout,
    .busFactor = hypercubeBusFactor,
    .run = runHypercube,
    .refuses = hypercubeRefuses,
};

}  // namespace omnes::perf
