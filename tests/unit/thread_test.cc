#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cfloat>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/floating_point.h"

namespace omnes::base {
namespace {

// Half the least normal number: 0 in a mode that flushes to zero. The empty statements keep the
// compiler from computing it in advance, or once for two calls.
bool flushesToZero() {
  float least = FLT_MIN;
  asm volatile("" : "+m"(least));
  float half = least * 0.5f;
  asm volatile("" : "+m"(half));
  uint32_t bits;
  std::memcpy(&bits, &half, sizeof bits);
  return bits == 0;
}

void setFlushToZero() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{1} << 24));
#endif
}

TEST(Thread, RunsJoinsAndHasAName) {
  char name[16] = "";
  std::atomic<int> ran{0};
  {
    auto thread = Thread::start("omnes-a-rather-long-name", [&] {
      pthread_getname_np(pthread_self(), name, sizeof name);
      // Relaxed: the join orders it before the read below.
      ran.store(1, std::memory_order_relaxed);
    });
    ASSERT_TRUE(thread.isOk());
    EXPECT_TRUE(thread.value().isRunning());
  }
  EXPECT_EQ(ran.load(std::memory_order_relaxed), 1);  // relaxed: after the join
  EXPECT_STREQ(name, "omnes-a-rather-");
}

TEST(Thread, BlocksSignalsButNotFaults) {
  sigset_t inside, before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    auto thread = Thread::start("mask", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
    ASSERT_TRUE(thread.isOk());
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int blocked : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE, SIGPROF}) {
    EXPECT_EQ(sigismember(&inside, blocked), 1) << blocked;
  }
  for (const int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    EXPECT_EQ(sigismember(&inside, open), 0) << open;
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
}

TEST(Thread, MovesAndJoinsTwice) {
  auto made = Thread::start("move", [] {});
  ASSERT_TRUE(made.isOk());
  Thread one = std::move(made).value();
  Thread two;
  two = std::move(one);
  EXPECT_FALSE(one.isRunning());  // NOLINT: looking at what was moved from is the point
  two.join();
  two.join();
  EXPECT_FALSE(two.isRunning());
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(FloatingPoint, ScopeSetsTheDefaultAndRestores) {
  ASSERT_FALSE(flushesToZero());
  EXPECT_TRUE(ScopedFloatingPointMode::isDefault());
  {
    const ScopedFloatingPointMode outer;  // changes nothing, and restores nothing
    setFlushToZero();
    ASSERT_TRUE(flushesToZero());
    {
      const ScopedFloatingPointMode inner;
      EXPECT_FALSE(flushesToZero());
    }
    EXPECT_TRUE(flushesToZero());
  }
  EXPECT_TRUE(flushesToZero());
  ScopedFloatingPointMode::setDefault();
  EXPECT_FALSE(flushesToZero());
}

TEST(FloatingPoint, ThreadsStartWithTheDefault) {
  setFlushToZero();
  bool inside = true;
  {
    auto thread = Thread::start("fp", [&] { inside = flushesToZero(); });
  }
  ScopedFloatingPointMode::setDefault();
  EXPECT_FALSE(inside);
}
#endif

}  // namespace
}  // namespace omnes::base
