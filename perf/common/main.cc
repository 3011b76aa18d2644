#include <cstdio>
#include <string>
#include <vector>

#include "common/collective.h"
#include "common/launch.h"
#include "common/options.h"
#include "common/report.h"
#include "common/runner.h"
#include "common/watchdog.h"

namespace omnes::perf {

int perfMain(int argc, const char* const* argv, const Collective& collective) {
  const ParsedOptions parsed = parseOptions(argc, argv, collective.program);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exitCode == kExitOk ? stdout : stderr);
    return parsed.exitCode;
  }
  const Options& options = *parsed.options;
  Report report(collective.program, std::vector<std::string>(argv, argv + argc), options);
  Watchdog watchdog(options.timeoutSeconds, collective.program);
  const RunContext context{collective, options, watchdog, report};
  const int code =
      launchRanks(options, collective.program, [&](Rank& self) { runRank(context, &self); });
  if (!report.writeOutput() && code == kExitOk) return kExitInternal;
  return code;
}

}  // namespace omnes::perf
