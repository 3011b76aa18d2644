// A descriptor that becomes readable when a process ends, without the races of process ids.
#pragma once

#include <sys/types.h>

#include "base/fd.h"
#include "base/status.h"

namespace omnes::base {

// Close-on-exec. kRemoteError when there is no such process (any more), kNotSupported where the
// kernel (before 5.3) or a sandbox has no pidfd_open(); liveness then rests on the hang-up of a
// socket.
Result<UniqueFd> openPidfd(pid_t pid);

}  // namespace omnes::base
