// Forked children: telling one from its parent without a system call, and leaving it nothing of
// ours that could do harm.
//
// A child has copies of our memory and descriptors, but not our threads: what was made before the
// fork must not be used in it. Whoever makes such a thing notes the generation, and compares before
// use. Descriptors need no such care: UniqueFd (fd.h) closes the child's copies at the fork and is
// empty in it. Mappings stay: they keep nobody's connection alive, a child that reads memory of
// ours that the application has given out must not crash (as it would with MADV_DONTFORK), and
// they go with its exit or exec.
//
// All of it hangs on pthread_atfork(), so on fork() of the C library. vfork(), posix_spawn() and a
// bare clone() run no handlers: a child of theirs must exec, which close-on-exec covers. Handlers
// are async-signal-safe, as the child of a process with threads demands. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace omnes::base {
namespace internal {

extern std::atomic<uint32_t> forkCount;
extern std::atomic<bool> areForkHandlersRegistered;
void registerForkHandlers();

// One object of PerProcess. Cells are static, and linked so that the child's handler finds them.
struct PerProcessCell {
  std::atomic<void*> object{nullptr};
  enum class State : uint8_t { kNew, kBusy, kListed };
  std::atomic<State> state{State::kNew};
  PerProcessCell* next = nullptr;
  void* inherited = nullptr;  // the parent's object, in a child: still reachable, never used
};
void list(PerProcessCell* cell);

}  // namespace internal

// Grows by one in the child at each fork since the first call in this process.
inline uint32_t forkGeneration() {
  // Relaxed (both): they change at the first call and while there is one thread; who sees the flag
  // late registers nothing twice.
  if (!internal::areForkHandlersRegistered.load(std::memory_order_relaxed)) [[unlikely]]
    internal::registerForkHandlers();
  return internal::forkCount.load(std::memory_order_relaxed);
}

// The state of a process: one T, made at the first get(), never destroyed (threads of the library
// may outlive static objects). A forked child makes one of its own, since the parent's may be
// locked or half changed by a thread that the child does not have. Must be static.
template <typename T>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  T& get() {
    // O1: pairs with O2.
    if (void* object = cell_.object.load(std::memory_order_acquire)) [[likely]]
      return *static_cast<T*>(object);
    internal::list(&cell_);
    auto made = std::make_unique<T>();
    void* object = nullptr;
    // O2: pairs with O1 and with itself: who finds another thread's object finds it made.
    if (cell_.object.compare_exchange_strong(object, made.get(), std::memory_order_acq_rel,
                                             std::memory_order_acquire))
      return *made.release();
    return *static_cast<T*>(object);
  }

 private:
  internal::PerProcessCell cell_;
};

// Around the making of a descriptor until a UniqueFd owns it, and around its end: a fork waits for
// it, so that no child gets a copy that nobody knows of. Wait for nothing inside; a fork that has
// waited for some milliseconds goes on. Nests.
class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 private:
  const uint32_t generation_;
};

}  // namespace omnes::base
