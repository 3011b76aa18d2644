// The rounds of the circulant algorithms (circulant.cc), for all that are built on them. Private to
// this folder; pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace omnes::algorithms {

struct CirculantRound {
  int32_t wide;  // s'
  int32_t half;  // s = ceil(s' / 2), also the distance to the peers
  int32_t moved() const { return wide - half; }
};

// In the order of the reduce-scatter; the all-gather takes them backwards. ceil(log2 n) of them.
inline std::vector<CirculantRound> circulantRounds(int32_t nranks) {
  std::vector<CirculantRound> rounds;
  for (int32_t s = nranks; s > 1; s = (s + 1) / 2) rounds.push_back({s, (s + 1) / 2});
  return rounds;
}

// Whether round 2 of the reduce-scatter sends one untouched block together with sums.
constexpr bool hasStraggler(int32_t nranks) { return nranks % 2 == 1 && nranks > 3; }

// Blocks that a rank sends untouched in the reduce-scatter, of nranks - 1 in all.
constexpr int64_t untouchedBlocks(int64_t nranks) {
  return nranks == 1 ? 0 : nranks == 3 ? 2 : nranks / 2;
}

constexpr int64_t ceilLog2(int64_t n) {
  int64_t log = 0;
  while ((int64_t{1} << log) < n) ++log;
  return log;
}

}  // namespace omnes::algorithms
