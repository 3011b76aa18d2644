// Where the ranks of omnesCommInitEnv meet, with the help of whatever the launcher offers.
//
// In this order: OMNES_COMM_ID; PMIx, over which rank 0 tells the others an id with a fresh secret;
// a socket named by the launcher's job, when all ranks are on this host; else an error that names
// OMNES_COMM_ID.
//
// All ranks must take the same way, or they wait for each other at different places. So each step
// is taken by what is alike on all of them: the launcher's variables, whether libpmix is there (or
// fails for want of a server), what the server can do. Anything else that goes wrong with PMIx is
// an error on that rank and no reason to try the next way.
//
// Thread-safe. The n-th meeting over PMIx of one process is the n-th of the others, so threads that
// call at once must agree on their order.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/config.h"
#include "base/status.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/meeting_point.h"
#include "core/bootstrap/socket_io.h"

namespace omnes::core::bootstrap {

// Waits, at most until the limits, for rank 0 to say where. Errors as readMeetingPoint(); kTimeout:
// rank 0 has not said it; kRemoteError: rank 0 has failed, in its own words; kSystemError: PMIx.
base::Result<MeetingPoint> findMeetingPoint(const base::Config& config,
                                            const base::LauncherVariables& launcher,
                                            const LaunchInfo& info, const WaitLimits& limits);

// --- For tests. ---

// The board over which the meeting is arranged: PmixSession, or a stand-in.
struct NoticeBoard {
  std::function<base::Status(const std::string& name, const std::string& bytes)> publish;
  std::function<base::Result<std::optional<std::string>>(const std::string& name)> lookup;
};

// Rank 0 makes an id and publishes it under the name, the others wait for it. Nothing: the board
// cannot publish (kNotSupported), on whichever rank.
base::Result<std::optional<MeetingPoint>> meetByBoard(const NoticeBoard& board,
                                                      const std::string& name, bool isRankZero,
                                                      const IdOptions& idOptions,
                                                      const WaitLimits& limits);

}  // namespace omnes::core::bootstrap
