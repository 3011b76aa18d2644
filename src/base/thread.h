// Threads of the library: all signals blocked, so that an application's handlers never run on them;
// a name that tools show; the IEEE default floating-point mode; joined by the destructor.
//
// The signals that report a fault of the running instruction stay open: blocking them would not
// stop them, only keep the application's crash reporter from running.
#pragma once

#include <pthread.h>

#include <functional>
#include <string>

#include "base/status.h"

namespace omnes::base {

// Owns a running thread. Movable; used by one thread at a time.
class Thread {
 public:
  Thread() = default;
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) noexcept;
  // Joins, so the body must have been told to end.
  ~Thread() { join(); }

  // `name` is cut to 15 characters, the most that Linux keeps. What `body` captures must outlive
  // the thread.
  static Result<Thread> start(const std::string& name, std::function<void()> body);

  bool isRunning() const { return isJoinable_; }
  // Waits for the end of the body. Does nothing when there is no thread, or when called in a forked
  // child, where the thread does not exist.
  void join();

 private:
  pthread_t thread_{};
  pid_t owner_ = 0;
  bool isJoinable_ = false;
};

}  // namespace omnes::base
