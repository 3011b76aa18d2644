// What the binaries leave with; the numbers are nccl-tests'.
#pragma once

namespace omnes::perf {

enum ExitCode : int {
  kExitOk = 0,
  kExitInternal = 1,      // this program or the system failed
  kExitLibrary = 3,       // an omnes call failed
  kExitTimeout = 4,       // the watchdog of -T
  kExitNotSupported = 5,  // not in this version
  kExitInvalid = 6,       // wrong arguments or a wrong launch
  kExitWrong = 7,         // wrong data, or slower than --min_bw
};

}  // namespace omnes::perf
