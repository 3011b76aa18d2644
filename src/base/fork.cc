#include "base/fork.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/fd.h"

namespace omnes::base {
namespace internal {

std::atomic<uint32_t> forkCount{0};
std::atomic<bool> areForkHandlersRegistered{false};

}  // namespace internal

namespace {

using internal::PerProcessCell;

std::atomic<PerProcessCell*> cells{nullptr};

// Guards under way in the low half, forks under way in the high half: in one word, so that of a
// guard and a fork one always sees the other.
std::atomic<uint64_t> gate{0};
constexpr uint64_t kOneFork = uint64_t{1} << 32;
constexpr uint64_t kGuards = kOneFork - 1;
// The guards of this thread: those inside the first do not wait, since a fork may wait for it.
thread_local uint32_t guardsOfThread = 0;

// Neither side waits for ever: a signal handler may fork on a thread that is inside a guard, and
// another library's handler may hold at the fork what a thread before its guard holds. A descriptor
// that slips through stays open in the child until it exits or execs, and nothing worse. Longer
// than a busy machine keeps a thread from running.
constexpr int64_t kLongestWaitNs = 500'000'000;

int64_t nowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);  // async-signal-safe, unlike most of <chrono>'s promises
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

template <typename Condition>
void waitUntil(Condition condition) {
  if (condition()) return;
  const int64_t end = nowNs() + kLongestWaitNs;
  while (!condition() && nowNs() < end) sched_yield();
}

void beforeFork() {
  // R1: pairs with R3 of guards that have ended: what they did to the table is seen by the fork.
  gate.fetch_add(kOneFork, std::memory_order_acq_rel);
  const uint64_t own = guardsOfThread != 0 ? 1 : 0;
  // R2: pairs with R3.
  waitUntil([own] { return (gate.load(std::memory_order_acquire) & kGuards) <= own; });
}

// Relaxed: it hands nothing over; guards only wait for it.
void afterForkInParent() { gate.fetch_sub(kOneFork, std::memory_order_relaxed); }

// The child has one thread: all is relaxed.
void afterForkInChild() {
  gate.store(0, std::memory_order_relaxed);
  guardsOfThread = 0;
  internal::closeInheritedDescriptors();
  for (PerProcessCell* cell = cells.load(std::memory_order_relaxed); cell != nullptr;
       cell = cell->next) {
    void* object = cell->object.exchange(nullptr, std::memory_order_relaxed);
    if (object != nullptr) cell->inherited = object;
  }
  internal::forkCount.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

namespace internal {

void registerForkHandlers() {
  // Its only failure is lack of memory; forks then go unnoticed.
  static const bool isRegistered =
      pthread_atfork(beforeFork, afterForkInParent, afterForkInChild) == 0;
  static_cast<void>(isRegistered);
  // Relaxed: see forkGeneration().
  areForkHandlersRegistered.store(true, std::memory_order_relaxed);
}

void list(PerProcessCell* cell) {
  const ForkGuard guard;  // a child must not find a cell half listed
  using State = PerProcessCell::State;
  State state = State::kNew;
  if (!cell->state.compare_exchange_strong(state, State::kBusy, std::memory_order_relaxed)) {
    // Relaxed: the object may be made only once a fork finds its cell, and the guard of whoever
    // lists it says when; nothing is read through this flag.
    waitUntil([cell] { return cell->state.load(std::memory_order_relaxed) == State::kListed; });
    return;
  }
  PerProcessCell* head = cells.load(std::memory_order_relaxed);  // relaxed: only compared
  do {
    cell->next = head;
    // O3: pairs with the end of the guard: the handler of a child finds `next` behind the head.
  } while (!cells.compare_exchange_weak(head, cell, std::memory_order_release,
                                        std::memory_order_relaxed));
  cell->state.store(State::kListed, std::memory_order_relaxed);  // relaxed: as above
}

}  // namespace internal

ForkGuard::ForkGuard() : generation_(forkGeneration()) {
  if (guardsOfThread++ != 0) return;
  int64_t end = 0;                                      // of the wait, once there is one
  uint64_t now = gate.load(std::memory_order_relaxed);  // relaxed: the exchange below orders
  for (;;) {
    if (now >= kOneFork && (end == 0 || nowNs() < end)) {
      if (end == 0) end = nowNs() + kLongestWaitNs;
      sched_yield();
      now = gate.load(std::memory_order_relaxed);
      continue;
    }
    // R4: pairs with R1: a fork that counts later than this waits for R3.
    if (gate.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel,
                                   std::memory_order_relaxed))
      return;
  }
}

ForkGuard::~ForkGuard() {
  // Forked inside it: the child has counted anew.
  if (generation_ != forkGeneration()) return;
  // R3: pairs with R1 and R2.
  if (--guardsOfThread == 0) gate.fetch_sub(1, std::memory_order_release);
}

}  // namespace omnes::base
