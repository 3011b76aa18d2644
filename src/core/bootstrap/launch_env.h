// Who this process is and where it meets the others, from what its launcher left behind:
// omnesCommInitEnv.
//
// Pure over Config and LauncherVariables; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/config.h"
#include "base/status.h"
#include "core/bootstrap/meeting_point.h"

namespace omnes::core::bootstrap {

struct LaunchInfo {
  uint32_t rank = 0;
  uint32_t nranks = 0;
  std::string source;  // "OMNES_RANK and OMNES_NRANKS", "Open MPI", ...: for messages
};

// OMNES_RANK and OMNES_NRANKS if set, else the launcher's rank and size. kInvalidUsage says what
// was seen and which variable to set.
base::Result<LaunchInfo> readLaunchInfo(const base::Config& config,
                                        const base::LauncherVariables& launcher);

// OMNES_COMM_ID if set; else, when the launcher says that all ranks are on this host, a socket
// named by its job; else kInvalidUsage naming OMNES_COMM_ID. One rank needs no company and gets a
// private address.
base::Result<MeetingPoint> readMeetingPoint(const base::Config& config,
                                            const base::LauncherVariables& launcher,
                                            const LaunchInfo& info);

}  // namespace omnes::core::bootstrap
