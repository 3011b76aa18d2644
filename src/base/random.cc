#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

namespace omnes::base {

Status randomBytes(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Status::fromErrno(errno, "cannot get random bytes from the kernel");
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return Status::ok();
}

}  // namespace omnes::base
