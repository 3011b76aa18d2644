#include "base/pidfd.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace omnes::base {

Result<UniqueFd> openPidfd(pid_t pid) {
  // By number: glibc has had the wrapper since 2.36 only.
  UniqueFd fd = UniqueFd::open([pid] { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); });
  if (fd.isOpen()) return fd;
  const int error = errno;
  if (error == ESRCH) {
    return Status(Code::kRemoteError, "process " + std::to_string(pid) + " has ended");
  }
  if (error == ENOSYS || error == EPERM) {
    return Status(Code::kNotSupported, "this system does not allow pidfd_open()");
  }
  return Status::fromErrno(error, "cannot watch process " + std::to_string(pid));
}

}  // namespace omnes::base
