#include "base/thread.h"

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "base/floating_point.h"

namespace omnes::base {
namespace {

struct Start {
  std::string name;
  std::function<void()> body;
};

void* run(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  pthread_setname_np(pthread_self(), start->name.c_str());
  ScopedFloatingPointMode::setDefault();
  start->body();
  return nullptr;
}

// Blocks signals while a thread is made, which inherits the mask, and restores the caller's
// afterwards.
class ScopedSignalMask {
 public:
  ScopedSignalMask() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&blocked, fault);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &saved_);
  }
  ~ScopedSignalMask() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  ScopedSignalMask(const ScopedSignalMask&) = delete;
  ScopedSignalMask& operator=(const ScopedSignalMask&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace

Thread::Thread(Thread&& other) noexcept
    : thread_(other.thread_),
      owner_(other.owner_),
      isJoinable_(std::exchange(other.isJoinable_, false)) {}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    join();
    thread_ = other.thread_;
    owner_ = other.owner_;
    isJoinable_ = std::exchange(other.isJoinable_, false);
  }
  return *this;
}

Result<Thread> Thread::start(const std::string& name, std::function<void()> body) {
  auto start = std::make_unique<Start>(Start{name.substr(0, 15), std::move(body)});
  Thread thread;
  int error;
  {
    const ScopedSignalMask mask;
    error = pthread_create(&thread.thread_, nullptr, run, start.get());
  }
  if (error != 0) {
    return Status::fromErrno(
        error, "cannot start thread '" + name +
                   "'; the limit of processes (ulimit -u, pids.max) or memory may be reached");
  }
  static_cast<void>(start.release());  // now owned by run()
  thread.owner_ = getpid();
  thread.isJoinable_ = true;
  return thread;
}

void Thread::join() {
  if (std::exchange(isJoinable_, false) && owner_ == getpid()) pthread_join(thread_, nullptr);
}

}  // namespace omnes::base
