#include "core/service/service.h"

#include <sys/epoll.h>

#include <array>
#include <vector>

#include "base/fork.h"

namespace omnes::core {

using base::Deadline;
using base::Result;
using base::Status;

Result<std::shared_ptr<Service>> Service::get() {
  struct Current {
    std::mutex mutex;
    std::weak_ptr<Service> service;  // guarded by mutex
  };
  // A forked child begins without: it has its parent's object, but not its thread.
  static constinit base::PerProcess<Current> currents;
  Current& current = currents.get();
  const std::lock_guard<std::mutex> lock(current.mutex);
  if (std::shared_ptr<Service> service = current.service.lock()) return service;
  OMNES_ASSIGN_OR_RETURN(base::Epoll epoll, base::Epoll::open());
  OMNES_ASSIGN_OR_RETURN(base::EventFd wake, base::EventFd::open());
  std::shared_ptr<Service> service(
      new Service(std::move(epoll), std::move(wake)));  // private constructor
  OMNES_RETURN_IF_ERROR(service->epoll_.add(service->wake_.fd(), EPOLLIN, 0));
  OMNES_ASSIGN_OR_RETURN(
      service->thread_,
      base::Thread::start("omnes-service", [raw = service.get()] { raw->loop(); }));
  current.service = service;
  return service;
}

Service::~Service() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.signal();
  thread_.join();
}

Result<uint64_t> Service::watch(int fd, Handler handler) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t id = nextId_++;
  OMNES_RETURN_IF_ERROR(epoll_.add(fd, EPOLLIN, id));
  entries_[id] = {fd, {}, std::make_shared<Handler>(std::move(handler))};
  return id;
}

uint64_t Service::callAfter(base::Duration delay, Handler handler) {
  uint64_t id;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    id = nextId_++;
    entries_[id] = {-1, base::Clock::monotonic().now() + delay,
                    std::make_shared<Handler>(std::move(handler))};
  }
  wake_.signal();
  return id;
}

void Service::remove(uint64_t id) {
  const std::lock_guard<std::recursive_mutex> notRunning(running_);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  // Fails only when the descriptor is closed already, which has removed it.
  if (it->second.fd >= 0) static_cast<void>(epoll_.remove(it->second.fd).isOk());
  entries_.erase(it);
}

Deadline Service::nextTimer() {
  const std::lock_guard<std::mutex> lock(mutex_);
  base::Duration least = base::Duration::max();
  const base::TimePoint now = base::Clock::monotonic().now();
  for (const auto& [id, entry] : entries_)
    if (entry.fd < 0) least = std::min(least, entry.due - now);
  if (least == base::Duration::max()) return Deadline::never();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(least).count();
  return Deadline::afterMs(base::Clock::monotonic(), std::max<int64_t>(1, ms));
}

void Service::runDueTimers() {
  std::vector<uint64_t> due;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const base::TimePoint now = base::Clock::monotonic().now();
    for (const auto& [id, entry] : entries_)
      if (entry.fd < 0 && entry.due <= now) due.push_back(id);
  }
  for (const uint64_t id : due) {
    runHandler(id);
    remove(id);
  }
}

void Service::runHandler(uint64_t id) {
  const std::lock_guard<std::recursive_mutex> nowRunning(running_);
  std::shared_ptr<Handler> handler;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end()) return;
    handler = it->second.handler;  // keeps it alive if it removes itself
  }
  try {
    (*handler)();
  } catch (...) {
    // Only lack of memory gets here, and this thread must outlive it: the news are lost, the
    // deadline of whoever waits for them is not.
  }
}

bool Service::isStopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

void Service::loop() {
  std::array<epoll_event, 16> ready;
  // Looked at after every drain and before every wait: a stop that comes later finds its signal
  // still there.
  while (!isStopping()) {
    auto count = epoll_.wait(nextTimer(), base::Clock::monotonic(), ready);
    if (!count.isOk()) return;
    for (size_t i = 0; i < count.value(); ++i) {
      if (ready[i].data.u64 == 0) {
        wake_.drain();
      } else {
        runHandler(ready[i].data.u64);
      }
    }
    runDueTimers();
  }
}

}  // namespace omnes::core
