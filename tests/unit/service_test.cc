// The service thread: watches, timers, removal, and an end that never gets lost.
#include "core/service/service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace omnes::core {
namespace {

std::shared_ptr<Service> service() {
  auto made = Service::get();
  EXPECT_TRUE(made.isOk());
  return std::move(made).value();
}

// Waits until the flag is set; false after ten seconds.
bool await(const std::atomic<int>& value, int wanted) {
  for (int look = 0; look < 10000; ++look) {
    // A1: pairs with the release increments of the handlers.
    if (value.load(std::memory_order_acquire) >= wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(Service, IsOneForTheProcessAndEndsWithItsLastUser) {
  std::weak_ptr<Service> seen;
  {
    const auto one = service();
    const auto two = service();
    EXPECT_EQ(one, two);
    seen = one;
  }
  EXPECT_TRUE(seen.expired());
}

TEST(Service, RunsHandlersOfReadableDescriptors) {
  const auto running = service();
  auto event = base::EventFd::open();
  ASSERT_TRUE(event.isOk());
  std::atomic<int> calls{0};
  auto id = running->watch(event->fd(), [&] {
    event->drain();
    calls.fetch_add(1, std::memory_order_release);
  });
  ASSERT_TRUE(id.isOk());
  event->signal();
  EXPECT_TRUE(await(calls, 1));
  running->remove(id.value());
  event->signal();
  EXPECT_EQ(calls.load(std::memory_order_acquire), 1);
}

TEST(Service, TimersRunOnceAndCanBeRemoved) {
  const auto running = service();
  std::atomic<int> calls{0};
  running->callAfter(std::chrono::milliseconds(1),
                     [&] { calls.fetch_add(1, std::memory_order_release); });
  const uint64_t never = running->callAfter(
      std::chrono::hours(1), [&] { calls.fetch_add(100, std::memory_order_release); });
  EXPECT_TRUE(await(calls, 1));
  running->remove(never);
  running->remove(never);
  running->remove(0);
  EXPECT_EQ(calls.load(std::memory_order_acquire), 1);
}

TEST(Service, HandlersMayRemoveThemselves) {
  const auto running = service();
  auto event = base::EventFd::open();
  ASSERT_TRUE(event.isOk());
  std::atomic<int> calls{0};
  std::atomic<uint64_t> own{0};
  auto id = running->watch(event->fd(), [&] {
    calls.fetch_add(1, std::memory_order_release);
    running->remove(own.load(std::memory_order_acquire));
  });
  ASSERT_TRUE(id.isOk());
  own.store(id.value(), std::memory_order_release);
  event->signal();
  EXPECT_TRUE(await(calls, 1));
  // Waits for a handler that is still running: it may be about to remove itself.
  running->remove(id.value());
}

// A stop whose signal was drained together with an earlier one was once lost, and the destructor
// waited for ever.
TEST(Service, StopIsNeverLost) {
  auto running = service();
  auto first = base::EventFd::open();
  auto second = base::EventFd::open();
  ASSERT_TRUE(first.isOk() && second.isOk());
  std::atomic<int> inFirst{0}, inSecond{0}, release{0};
  ASSERT_TRUE(running
                  ->watch(first->fd(),
                          [&] {
                            first->drain();
                            inFirst.store(1, std::memory_order_release);
                            await(release, 1);
                          })
                  .isOk());
  ASSERT_TRUE(running
                  ->watch(second->fd(),
                          [&] {
                            second->drain();
                            inSecond.store(1, std::memory_order_release);
                            // Time for the destructor to signal; the outcome does not depend on it.
                            std::this_thread::sleep_for(std::chrono::milliseconds(50));
                          })
                  .isOk());
  first->signal();
  ASSERT_TRUE(await(inFirst, 1));
  // While the thread is busy: a readable descriptor, and a signal to itself, to be taken in one
  // turn.
  second->signal();
  running->callAfter(std::chrono::hours(1), [] {});
  release.store(1, std::memory_order_release);
  ASSERT_TRUE(await(inSecond, 1));
  running.reset();
}

}  // namespace
}  // namespace omnes::core
