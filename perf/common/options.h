// The command line of every binary: the options of nccl-tests, and --fresh and --min_bw of our own.
//
// Parsing is done by CLI11, which gives back text; each value is then read by number.h and refused
// by name, so that no value is ever half understood. Thread safety: parse once, then the options
// are constant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/elements.h"

namespace omnes::perf {

struct Options {
  int threads = 1;
  uint64_t minBytes = 32u << 20;
  uint64_t maxBytes = 32u << 20;
  uint64_t stepBytes = 1u << 20;
  uint64_t stepFactor = 1;  // above 1: the sizes grow by this factor
  int iters = 20;
  int warmupIters = 1;
  int aggIters = 1;
  int runCycles = 1;  // 0 = endless
  bool parallelInit = false;
  int check = 1;
  std::vector<Op> ops = {Op::kSum};
  std::vector<TypeInfo> types;
  int root = 0;  // -1 = every root
  int blocking = 0;
  int timeoutSeconds = 0;
  bool reportCpuTime = false;
  bool reportTimestamps = false;
  std::string outputFile;
  int average = 1;
  bool memoryReport = false;
  int unalign = 0;
  bool perIterTiming = false;
  int perIterSkip = 0;
  bool fresh = false;
  double minBusbw = 0;
};

struct ParsedOptions {
  std::optional<Options> options;
  int exitCode = 0;  // if there are no options: what to leave with
  std::string text;  // and what to print first: usage (exit code 0) or the refusal
};

ParsedOptions parseOptions(int argc, const char* const* argv, const std::string& program);

}  // namespace omnes::perf
