#include "base/fd.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace omnes::base {
namespace {

// One bit a number, in zeroed pages that cost memory only where they are used. 2^20 is where Linux
// ends by default (fs.nr_open); beyond it a descriptor is merely not closed in a forked child.
constexpr size_t kNumbers = size_t{1} << 20;
constexpr size_t kBits = 64;
std::atomic<uint64_t> owned[kNumbers / kBits];
// Words up to here may be in use: a fork need not look at all of them.
std::atomic<size_t> wordsUsed{0};

uint64_t bitOf(int fd) { return uint64_t{1} << (static_cast<size_t>(fd) % kBits); }

// Relaxed (all): the guard around each change is what a fork waits for.
void note(int fd) {
  const size_t word = static_cast<size_t>(fd) / kBits;
  if (word >= std::size(owned)) return;
  owned[word].fetch_or(bitOf(fd), std::memory_order_relaxed);
  size_t used = wordsUsed.load(std::memory_order_relaxed);
  while (used <= word &&
         !wordsUsed.compare_exchange_weak(used, word + 1, std::memory_order_relaxed)) {
  }
}

void forget(int fd) {
  const size_t word = static_cast<size_t>(fd) / kBits;
  if (word < std::size(owned)) owned[word].fetch_and(~bitOf(fd), std::memory_order_relaxed);
}

}  // namespace

namespace internal {

void closeInheritedDescriptors() {
  const int savedErrno = errno;
  const size_t used = wordsUsed.load(std::memory_order_relaxed);  // relaxed: one thread
  for (size_t word = 0; word < used; ++word) {
    uint64_t bits = owned[word].exchange(0, std::memory_order_relaxed);  // relaxed: one thread
    for (; bits != 0; bits &= bits - 1)
      ::close(static_cast<int>(word * kBits) + __builtin_ctzll(bits));
  }
  errno = savedErrno;
}

}  // namespace internal

void UniqueFd::own(int fd) {
  fd_ = fd;
  if (fd < 0) return;
  const ForkGuard guard;
  generation_ = forkGeneration();
  note(fd);
}

int UniqueFd::release() {
  const int fd = get();
  if (fd >= 0) forget(fd);
  fd_ = -1;
  return fd;
}

void UniqueFd::reset(int fd) {
  if (const int old = get(); old >= 0) {
    const ForkGuard guard;
    // First, since the number may be another's as soon as it is closed.
    forget(old);
    // close() is not retried on EINTR: Linux has released the descriptor by then.
    ::close(old);
  }
  own(fd);
}

}  // namespace omnes::base
