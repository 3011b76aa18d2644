// The service thread: one per process, asleep in epoll, for what must be seen while nobody is
// inside a call.
//
// It watches descriptors (control connections, processes) and a few timers, and runs the handlers
// that their owners gave it, one at a time. It starts with the first communicator of a process and
// ends with the last. Handlers are short, never block, and may add and remove watches. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/event.h"
#include "base/status.h"
#include "base/thread.h"

namespace omnes::core {

class Service {
 public:
  using Handler = std::function<void()>;

  // The process's service, started if need be. Keep it for as long as something is watched.
  static base::Result<std::shared_ptr<Service>> get();
  ~Service();

  // Runs `handler` on the service thread whenever fd is readable, until remove(). Borrows fd until
  // then.
  base::Result<uint64_t> watch(int fd, Handler handler);
  // Runs `handler` once, `delay` from now, unless removed before.
  uint64_t callAfter(base::Duration delay, Handler handler);
  // When it returns the handler does not run and will not run again (unless called from that
  // handler itself). 0 and unknown numbers are ignored.
  void remove(uint64_t id);

 private:
  struct Entry {
    int fd = -1;  // -1: a timer
    base::TimePoint due;
    std::shared_ptr<Handler> handler;
  };

  Service(base::Epoll epoll, base::EventFd wake)
      : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
  void loop();
  bool isStopping();
  base::Deadline nextTimer();
  void runDueTimers();
  void runHandler(uint64_t id);

  base::Epoll epoll_;
  base::EventFd wake_;
  // Held while a handler runs, so that remove() can wait for it; recursive because handlers call
  // back.
  std::recursive_mutex running_;
  std::mutex mutex_;  // guards the fields below; taken after running_
  std::map<uint64_t, Entry> entries_;
  uint64_t nextId_ = 1;  // 0 is the tag of wake_
  bool stopping_ = false;
  base::Thread thread_;
};

}  // namespace omnes::core
