// Which sizes a run measures, and how much memory it may use for them. Thread safety: pure
// functions, except availableMemory, which reads the system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/options.h"

namespace omnes::perf {

// From -b to -e by -i or -f, both ends included; never endless, never beyond 64 bits.
std::vector<uint64_t> sweepSizes(const Options& options);

// What this process can still allocate without driving anyone out of memory: MemAvailable of the
// system, and what is left below the limits of the control groups it is in.
uint64_t availableMemory();

// The same from files below `root` ("" = the system's), for tests.
uint64_t availableMemoryUnder(const std::string& root);

// The largest size whose buffers (`buffersPerRank` of it on each of `localRanks` ranks) fit into
// nine tenths of `available` minus a reserve for everything else.
uint64_t largestSizeFor(uint64_t available, int localRanks, int buffersPerRank);

}  // namespace omnes::perf
