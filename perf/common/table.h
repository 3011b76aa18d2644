// The text that the binaries print, in the shape of nccl-tests: every line that is not a result
// starts with '#'. Columns and formulas are described in perf/schema.md. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/options.h"

namespace omnes::perf {

// Times of single iterations, each the largest over the ranks, in microseconds.
struct IterationStats {
  double minUs = 0, maxUs = 0, averageUs = 0;
  double p50Us = 0, p95Us = 0, p99Us = 0;
  double stdevUs = 0, variationPercent = 0;
  std::vector<double> timesUs;
};

// One half of a row: out of place or in place.
struct Side {
  double timeUs = 0;
  double algbw = 0;  // GB/s, 1 GB = 1e9 bytes
  double busbw = 0;
  std::optional<uint64_t> wrong;  // elements over all ranks; nothing if unchecked
  std::optional<IterationStats> iterations;
};

struct Row {
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string type;
  std::string op;
  int root = -1;
  Side outOfPlace;
  std::optional<Side> inPlace;  // nothing when the collective has none
  std::string timestamp;
};

// Percentiles by the nearest-rank rule; `timesUs` is not empty.
IterationStats iterationStats(std::vector<double> timesUs);

// bytes / time in GB/s; 0 for no bytes or no time.
double algorithmBandwidth(uint64_t bytes, double timeUs);

std::string formatParameters(const Options& options);
std::string formatHeader(const Options& options);
std::string formatRow(const Row& row, const Options& options);
std::string formatTime(double us);

}  // namespace omnes::perf
