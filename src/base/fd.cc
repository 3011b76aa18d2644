#include "base/fd.h"

#include <unistd.h>

namespace omnes::base {

void UniqueFd::reset(int fd) {
  // close() is not retried on EINTR: Linux has released the descriptor by then.
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace omnes::base
