// What a forked child inherits of ours: nothing that is open, nothing that is locked.
#include "base/fork.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/event.h"
#include "base/fd.h"

namespace omnes::base {
namespace {

constexpr int kTooLongSeconds = 20;

// Runs `body` in a child and returns its exit code; -1 when it died by a signal (a hang by
// SIGALRM).
int inChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kTooLongSeconds);
    _exit(body());
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool isOpenNumber(int fd) { return fcntl(fd, F_GETFD) >= 0; }

UniqueFd openNull() {
  return UniqueFd::open([] { return ::open("/dev/null", O_RDWR | O_CLOEXEC); });
}

struct Pipe {
  UniqueFd in, out;
};

Pipe makePipe() {
  Pipe made;
  const ForkGuard guard;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return made;
  made.in.reset(ends[0]), made.out.reset(ends[1]);
  return made;
}

TEST(Fork, GenerationGrowsInTheChildOnly) {
  const uint32_t before = forkGeneration();
  EXPECT_EQ(inChild([&] {
              if (forkGeneration() != before + 1) return 1;
              return inChild([&] { return forkGeneration() == before + 2 ? 0 : 2; });
            }),
            0);
  EXPECT_EQ(forkGeneration(), before);
}

TEST(Fork, AChildThatLivesKeepsNoConnectionAlive) {
  Pipe pipe = makePipe(), hold = makePipe();
  ASSERT_TRUE(pipe.in.isOpen() && hold.in.isOpen());
  // A bare copy of the reading end, which the child may keep and wait on.
  const int copy = fcntl(hold.in.get(), F_DUPFD_CLOEXEC, 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kTooLongSeconds);
    char byte;
    _exit(read(copy, &byte, 1) == 1 ? 0 : 1);
  }
  pipe.out.reset();
  pollfd ready{pipe.in.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, kTooLongSeconds * 1000), 1);
  EXPECT_TRUE(ready.revents & POLLHUP);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, WNOHANG), 0) << "the child has ended: nothing is shown";
  EXPECT_EQ(write(hold.out.get(), "x", 1), 1);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(copy);
}

TEST(Fork, InheritedObjectsAreEmptyAndLeaveReusedNumbersAlone) {
  UniqueFd first = openNull(), second = openNull(), third = openNull();
  const int number = first.get();
  EXPECT_EQ(inChild([&] {
              if (isOpenNumber(number) || first.isOpen() || first.get() != -1) return 1;
              // The child's own file gets the number, as a bare one and as an owner's.
              const int reused = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
              if (reused != number) return 2;
              first.reset();
              if (!isOpenNumber(number)) return 3;
              UniqueFd own(reused);
              UniqueFd moved = std::move(second);
              second = std::move(third);
              moved.reset(), second.reset();
              if (!isOpenNumber(number) || own.get() != number) return 4;
              if (first.release() != -1) return 5;
              own.reset();
              return isOpenNumber(number) ? 6 : 0;
            }),
            0);
  EXPECT_TRUE(isOpenNumber(number));
}

TEST(Fork, GrandchildrenInheritNothingFromTheChild) {
  UniqueFd parents = openNull();
  EXPECT_EQ(inChild([&] {
              const UniqueFd own = openNull();
              if (!own.isOpen() || parents.isOpen()) return 1;
              const int number = own.get();
              return inChild([&] { return isOpenNumber(number) || own.isOpen() ? 2 : 0; });
            }),
            0);
}

TEST(Fork, WhatWasReleasedIsInherited) {
  UniqueFd owner = openNull();
  const int number = owner.release();
  EXPECT_EQ(inChild([&] { return isOpenNumber(number) ? 0 : 1; }), 0);
  owner.reset(number);
  EXPECT_EQ(inChild([&] { return isOpenNumber(number) ? 1 : 0; }), 0);
}

TEST(Fork, ADescriptorOnItsWayThroughASocketArrives) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd from(ends[0]), to(ends[1]);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 'x';
  iovec io{&byte, 1};
  msghdr message{};
  message.msg_iov = &io, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  {
    const UniqueFd sent = openNull();
    const int number = sent.get();
    std::memcpy(CMSG_DATA(header), &number, sizeof number);
    ASSERT_EQ(sendmsg(from.get(), &message, 0), 1);
  }
  EXPECT_EQ(inChild([&] { return from.isOpen() || to.isOpen() ? 1 : 0; }), 0);
  ASSERT_EQ(recvmsg(to.get(), &message, MSG_CMSG_CLOEXEC), 1);
  int number = -1;
  std::memcpy(&number, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof number);
  const UniqueFd received(number);
  EXPECT_TRUE(isOpenNumber(number));
  EXPECT_EQ(inChild([&] { return isOpenNumber(number) ? 1 : 0; }), 0);
}

TEST(Fork, NumbersBeyondTheTableAreOwnedAllTheSame) {
  UniqueFd far((1 << 20) + 5), farthest(INT32_MAX);
  EXPECT_EQ(far.get(), (1 << 20) + 5);
  EXPECT_EQ(inChild([&] { return far.get() == -1 ? 0 : 1; }), 0);
  EXPECT_EQ(far.release(), (1 << 20) + 5);
  EXPECT_EQ(farthest.release(), INT32_MAX);
}

// The copies in a child of anything that is not a standard descriptor, a directory being read, or
// in `allowed`.
int countStrangers(const std::vector<int>& allowed) {
  int strangers = 0;
  for (int fd = 3; fd < 256; ++fd)
    strangers += isOpenNumber(fd) && std::find(allowed.begin(), allowed.end(), fd) == allowed.end();
  return strangers;
}

std::vector<int> openNumbers() {
  std::vector<int> numbers;
  for (int fd = 0; fd < 256; ++fd)
    if (isOpenNumber(fd)) numbers.push_back(fd);
  return numbers;
}

TEST(Fork, ForksBesideThreadsThatMakeAndCloseDescriptorsLeaveNothing) {
  constexpr int kThreads = 3, kForks = 200;
  const std::vector<int> before = openNumbers();
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      // Relaxed: nothing is handed over.
      while (!ends.load(std::memory_order_relaxed)) {
        auto event = EventFd::open();
        UniqueFd null = openNull();
        auto epoll = Epoll::open();
        null = openNull();
      }
    });
  int bad = 0;
  for (int i = 0; i < kForks; ++i)
    bad += inChild([&] { return countStrangers(before) == 0 ? 0 : 1; }) != 0;
  ends.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad, 0) << "of " << kForks << " children had copies";
  EXPECT_EQ(openNumbers(), before);
}

TEST(Fork, AGuardThatNeverEndsDelaysAForkAndDoesNotStopIt) {
  std::atomic<bool> isHeld{false}, ends{false};
  std::thread holder([&] {
    const ForkGuard guard;
    isHeld.store(true, std::memory_order_release);  // pairs with the acquire below
    isHeld.notify_one();
    ends.wait(false, std::memory_order_acquire);  // pairs with the release below
  });
  isHeld.wait(false, std::memory_order_acquire);
  EXPECT_EQ(inChild([] { return openNull().isOpen() ? 0 : 1; }), 0);
  ends.store(true, std::memory_order_release);
  ends.notify_one();
  holder.join();
}

// As a signal handler may that interrupts the library.
TEST(Fork, AForkInsideAGuardOfItsOwnThread) {
  int inner = -1;
  {
    const ForkGuard guard;
    const pid_t child = fork();
    if (child == 0) {
      alarm(kTooLongSeconds);
      { const ForkGuard again; }
      inner = 0;
    } else {
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
  }
  // The child has left the scope too: its count must be right.
  if (inner == 0) _exit(openNull().isOpen() && inChild([] { return 0; }) == 0 ? 0 : 1);
  EXPECT_EQ(inChild([] { return openNull().isOpen() ? 0 : 1; }), 0);
}

struct Shared {
  std::mutex mutex;
  int value = 0;
};

TEST(Fork, StateOfTheProcessIsMadeAnewInAChild) {
  static PerProcess<Shared> shared;
  const std::lock_guard<std::mutex> lock(shared.get().mutex);
  shared.get().value = 7;
  EXPECT_EQ(&shared.get(), &shared.get());
  // Locked here, and free in the child.
  EXPECT_EQ(inChild([] {
              const std::lock_guard<std::mutex> own(shared.get().mutex);
              return shared.get().value;
            }),
            0);
  EXPECT_EQ(shared.get().value, 7);
}

TEST(Fork, ThreadsAgreeOnOneStateOfTheProcess) {
  static PerProcess<Shared> shared;
  std::vector<std::thread> threads;
  std::atomic<bool> go{false};
  std::vector<Shared*> seen(4);
  for (Shared*& one : seen)
    threads.emplace_back([&] {
      go.wait(false, std::memory_order_relaxed);  // relaxed: only a start together
      one = &shared.get();
    });
  go.store(true, std::memory_order_relaxed);
  go.notify_all();
  for (std::thread& thread : threads) thread.join();
  for (const Shared* one : seen) EXPECT_EQ(one, seen[0]);
}

}  // namespace
}  // namespace omnes::base
