#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "common/collective.h"
#include "common/launch.h"
#include "common/options.h"
#include "common/report.h"
#include "common/runner.h"
#include "common/watchdog.h"

namespace omnes::perf {
namespace {

// A table that did not come out is no success.
bool flushStdout(const std::string& program) {
  const bool failedBefore = std::ferror(stdout) != 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !failedBefore) return true;
  // The errno of an earlier failure is gone.
  std::fprintf(stderr, "%s: cannot write all of the output to stdout: %s\n", program.c_str(),
               flushed ? "an earlier write failed (no space left?)" : std::strerror(errno));
  return false;
}

}  // namespace

int perfMain(int argc, const char* const* argv, const Collective& collective) {
  const ParsedOptions parsed = parseOptions(argc, argv, collective.program);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exitCode == kExitOk ? stdout : stderr);
    if (!flushStdout(collective.program) && parsed.exitCode == kExitOk) return kExitInternal;
    return parsed.exitCode;
  }
  const Options& options = *parsed.options;
  Report report(collective.program, std::vector<std::string>(argv, argv + argc), options);
  Watchdog watchdog(options.timeoutSeconds, collective.program);
  const RunContext context{collective, options, watchdog, report};
  const int code =
      launchRanks(options, collective.program, [&](Rank& self) { runRank(context, &self); });
  const bool reported = report.writeOutput();
  const bool printed = flushStdout(collective.program);
  return code == kExitOk && !(reported && printed) ? kExitInternal : code;
}

}  // namespace omnes::perf
