#include "base/event.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/pidfd.h"
#include "base/thread.h"

namespace omnes::base {
namespace {

const Clock& clock() { return Clock::monotonic(); }

size_t waitOnce(const Epoll& epoll, int64_t milliseconds, epoll_event* event) {
  const auto count = epoll.wait(Deadline::afterMs(clock(), milliseconds), clock(), {event, 1});
  EXPECT_TRUE(count.isOk()) << count.status().message();
  return count.isOk() ? count.value() : 0;
}

TEST(EventFd, SignalsMergeUntilDrained) {
  const auto event = EventFd::open();
  ASSERT_TRUE(event.isOk());
  EXPECT_FALSE(event.value().drain());
  event.value().signal();
  event.value().signal();
  EXPECT_TRUE(event.value().drain());
  EXPECT_FALSE(event.value().drain());
  EXPECT_NE(fcntl(event.value().fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Epoll, TellsWhichDescriptorIsReady) {
  const auto epoll = Epoll::open();
  const auto one = EventFd::open(), two = EventFd::open();
  ASSERT_TRUE(epoll.isOk() && one.isOk() && two.isOk());
  ASSERT_TRUE(epoll.value().add(one.value().fd(), EPOLLIN, 11).isOk());
  ASSERT_TRUE(epoll.value().add(two.value().fd(), EPOLLIN, 22).isOk());
  two.value().signal();
  epoll_event event{};
  ASSERT_EQ(waitOnce(epoll.value(), 10000, &event), 1u);
  EXPECT_EQ(event.data.u64, 22u);
  ASSERT_TRUE(epoll.value().remove(two.value().fd()).isOk());
  EXPECT_EQ(waitOnce(epoll.value(), 1, &event), 0u);
  one.value().signal();
  ASSERT_EQ(waitOnce(epoll.value(), 10000, &event), 1u);
  EXPECT_EQ(event.data.u64, 11u);
  ASSERT_TRUE(epoll.value().modify(one.value().fd(), 0, 11).isOk());
  EXPECT_EQ(waitOnce(epoll.value(), 1, &event), 0u);
}

TEST(Epoll, ErrorsNameTheDescriptor) {
  const auto epoll = Epoll::open();
  ASSERT_TRUE(epoll.isOk());
  const Status status = epoll.value().remove(epoll.value().fd() + 1000);
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_NE(status.message().find(std::to_string(epoll.value().fd() + 1000)), std::string::npos);
}

TEST(Epoll, SignalsNeitherEndNorStretchAWait) {
  const auto epoll = Epoll::open();
  ASSERT_TRUE(epoll.isOk());
  struct sigaction action {
  }, saved;
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGALRM, &action, &saved), 0);
  const itimerval storm{{0, 1000}, {0, 1000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &storm, nullptr), 0);
  const TimePoint start = clock().now();
  epoll_event event{};
  EXPECT_EQ(waitOnce(epoll.value(), 50, &event), 0u);
  const Duration took = clock().now() - start;
  const itimerval calm{};
  ASSERT_EQ(setitimer(ITIMER_REAL, &calm, nullptr), 0);
  ASSERT_EQ(sigaction(SIGALRM, &saved, nullptr), 0);
  EXPECT_GE(took, std::chrono::milliseconds(50));
  EXPECT_LT(took, std::chrono::seconds(20));
}

TEST(Epoll, AnotherThreadWakesASleeper) {
  const auto epoll = Epoll::open();
  const auto event = EventFd::open();
  ASSERT_TRUE(epoll.isOk() && event.isOk());
  ASSERT_TRUE(epoll.value().add(event.value().fd(), EPOLLIN, 1).isOk());
  auto thread = Thread::start("waker", [&] { event.value().signal(); });
  ASSERT_TRUE(thread.isOk());
  epoll_event ready{};
  const auto count = epoll.value().wait(Deadline::never(), clock(), {&ready, 1});
  ASSERT_TRUE(count.isOk());
  EXPECT_EQ(count.value(), 1u);
}

TEST(Pidfd, BecomesReadableWhenTheProcessEnds) {
  int gate[2];
  ASSERT_EQ(pipe2(gate, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(gate[1]);
    char byte;
    _exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(gate[0]);
  auto fd = openPidfd(child);
  const auto epoll = Epoll::open();
  ASSERT_TRUE(epoll.isOk());
  if (!fd.isOk() && fd.status().code() == Code::kNotSupported) {
    close(gate[1]);
    waitpid(child, nullptr, 0);
    GTEST_SKIP() << fd.status().message();
  }
  ASSERT_TRUE(fd.isOk()) << fd.status().message();
  ASSERT_TRUE(epoll.value().add(fd.value().get(), EPOLLIN, 1).isOk());
  epoll_event event{};
  EXPECT_EQ(waitOnce(epoll.value(), 1, &event), 0u);
  close(gate[1]);
  EXPECT_EQ(waitOnce(epoll.value(), 10000, &event), 1u);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(openPidfd(child).status().code(), Code::kRemoteError);
}

}  // namespace
}  // namespace omnes::base
