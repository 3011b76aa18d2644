// Owner of one file descriptor. All descriptors omnes makes are close-on-exec.
//
// What a UniqueFd owns is noted in a table of the process, and closed in a forked child at the
// fork: a copy there would keep the sockets of a dead parent alive. An object that a child has
// inherited is empty in it and closes nothing, since its number may be another file by then. Make
// descriptors with open(), which keeps a fork from coming between the system call and the note.
//
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <utility>

#include "base/fork.h"

namespace omnes::base {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) { own(fd); }  // owns fd; negative = none
  UniqueFd(UniqueFd&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), generation_(other.generation_) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      generation_ = other.generation_;
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  // Owns what `make` returns (-1 and errno on failure), e.g. [] { return ::eventfd(0, flags); }.
  template <typename Make>
  static UniqueFd open(Make&& make) {
    const ForkGuard guard;
    return UniqueFd(make());
  }

  // -1 when there is none, or when it was made before a fork.
  int get() const { return generation_ == forkGeneration() ? fd_ : -1; }
  bool isOpen() const { return get() >= 0; }
  // The caller's from here on, and no longer closed in a forked child.
  int release();
  void reset(int fd = -1);

 private:
  void own(int fd);

  int fd_ = -1;
  uint32_t generation_ = 0;
};

namespace internal {

// Closes what the table holds, and empties it. In the child of a fork, before anything else is made
// there. Async-signal-safe.
void closeInheritedDescriptors();

}  // namespace internal
}  // namespace omnes::base
