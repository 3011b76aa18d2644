// The run of one rank: agrees on sizes with the others, measures and checks every row, and, on rank
// 0, reports.
//
// Thread safety: one call a rank, each in its rank's thread; report is used by rank 0 only.
#pragma once

#include "common/collective.h"
#include "common/options.h"
#include "common/rank.h"
#include "common/report.h"
#include "common/watchdog.h"

namespace omnes::perf {

// What the ranks of one process share. All outlive the run.
struct RunContext {
  const Collective& collective;
  const Options& options;
  Watchdog& watchdog;
  Report& report;
};

// Returns the exit code of this rank; its failures are in `self`.
int runRank(const RunContext& context, Rank* self);

}  // namespace omnes::perf
