#include "base/fork.h"

#include <pthread.h>

#include <atomic>

namespace omnes::base {
namespace {

std::atomic<uint32_t> generation{0};

// Relaxed: the child has one thread.
void countFork() { generation.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint32_t forkGeneration() {
  // Its only failure is lack of memory; forks then go unnoticed.
  static const bool isRegistered = pthread_atfork(nullptr, nullptr, countFork) == 0;
  static_cast<void>(isRegistered);
  // Relaxed: changes only while there is one thread.
  return generation.load(std::memory_order_relaxed);
}

}  // namespace omnes::base
