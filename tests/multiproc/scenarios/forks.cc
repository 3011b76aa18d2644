// Forked children: they live, exit, exec and call, and the parent does not notice.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "multiproc/scenarios/scenario.h"

extern char** environ;

static bool isForkedChild = false;
#if defined(__SANITIZE_ADDRESS__)
// A child has copies of the parent's thread stacks, but no such threads, so that the leak check
// would report what only they point to. It asks this function whether to look at all, if it can see
// it.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
int __lsan_is_turned_off() { return isForkedChild; }
#endif

namespace omnes::tests::scenarios {
namespace {

constexpr unsigned kTooLongSeconds = 20;

// A child that outlives its parent.
int forkedChild(const Rank& rank) {
  const Buffer in(1000), out(1000);
  const omnesResult_t result = allReduce(rank, in.data(), out.data(), 1000);
  if (result != omnesSuccess) return report(rank, result);
  if (rank.isLast() && fork() == 0) {
    alarm(kTooLongSeconds);
    pause();
    _exit(0);
  }
  return loop(rank, kBigCount);
}

// How many of the calls on a communicator were not refused.
int unrefusedCalls(const Rank& rank) {
  float in = 1, out = 1;
  int count = 0;
  omnesResult_t async = omnesSuccess;
  omnesRedOp_t op;
  for (const omnesResult_t result :
       {omnesAllReduce(&in, &out, 1, omnesFloat32, omnesSum, rank.comm, nullptr),
        omnesReduceScatter(&in, &out, 1, omnesFloat32, omnesSum, rank.comm, nullptr),
        omnesAllGather(&in, &out, 1, omnesFloat32, rank.comm, nullptr),
        omnesBarrier(rank.comm, nullptr), omnesCommCount(rank.comm, &count),
        omnesCommGetAsyncError(rank.comm, &async),
        omnesRedOpCreatePreMulSum(&op, &in, omnesFloat32, omnesScalarHostImmediate, rank.comm),
        omnesCommFinalize(rank.comm), omnesCommDestroy(rank.comm), omnesCommAbort(rank.comm)})
    count += result != omnesInvalidUsage;
  return count;
}

enum Child { kExits, kExitsInOrder, kExecs, kCalls, kSpawned, kKinds };

// The exit code that the child must have.
constexpr int kExpected[kKinds] = {11, 12, 13, 0, 14};

pid_t start(Child kind, const Rank& rank) {
  char shell[] = "/bin/sh", option[] = "-c", exec[] = "exit 13", spawned[] = "exit 14";
  if (kind == kSpawned) {
    char* argv[] = {shell, option, spawned, nullptr};
    pid_t pid = -1;
    return posix_spawn(&pid, shell, nullptr, nullptr, argv, environ) == 0 ? pid : -1;
  }
  const pid_t pid = fork();
  if (pid != 0) return pid;
  isForkedChild = true;
  alarm(kTooLongSeconds);
  char* argv[] = {shell, option, exec, nullptr};
  switch (kind) {
    case kExits: _exit(11);
    // Runs the destructors of static objects, ours among them.
    case kExitsInOrder: std::exit(12);
    case kExecs: execv(shell, argv); _exit(1);
    default: _exit(unrefusedCalls(rank));
  }
}

// C59: fifty children of the last rank while all ranks call.
int children(const Rank& rank) {
  if (!rank.isLast()) {
    const Buffer in(kBigCount / 64), out(kBigCount / 64);
    int ends = 0;
    omnesResult_t result = omnesSuccess;
    say("running");
    while (result == omnesSuccess && ends == 0) {
      const int mine = 0;
      result = allReduce(rank, in.data(), out.data(), kBigCount / 64);
      if (result == omnesSuccess) result = allReduce(rank, &mine, &ends, 1, omnesInt32, omnesMax);
    }
    return report(rank, result);
  }
  std::atomic<bool> isDone{false};
  omnesResult_t result = omnesSuccess;
  std::thread caller([&] {
    const Buffer in(kBigCount / 64), out(kBigCount / 64);
    int ends = 0;
    while (result == omnesSuccess && ends == 0) {
      // Relaxed: the calls see it soon enough.
      const int mine = isDone.load(std::memory_order_relaxed) ? 1 : 0;
      result = allReduce(rank, in.data(), out.data(), kBigCount / 64);
      if (result == omnesSuccess) result = allReduce(rank, &mine, &ends, 1, omnesInt32, omnesMax);
    }
  });
  say("running");
  int wrong = 0;
  for (int i = 0; i < 50; ++i) {
    const auto kind = static_cast<Child>(i % kKinds);
    const pid_t pid = start(kind, rank);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == kExpected[kind]) continue;
    const std::string text =
        "child " + std::to_string(i) + " has ended with " + std::to_string(status);
    say(text.c_str());
    ++wrong;
  }
  isDone.store(true, std::memory_order_relaxed);
  caller.join();
  if (wrong != 0) return report(omnesInternalError, "children were not as they should");
  return report(rank, result);
}

// A child may make communicators of its own.
int childJoins(const Rank& rank) {
#if defined(__SANITIZE_THREAD__)
  return report(rank, omnesBarrier(rank.comm, nullptr));  // it allows no thread in such a child
#endif
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kTooLongSeconds);
    omnesComm_t own[2] = {};
    float value[2] = {1, 2};
    omnesResult_t results[2];
    if (omnesCommInitAll(own, 2, nullptr) != omnesSuccess) _exit(1);
    std::thread other([&] {
      results[1] = omnesAllReduce(value + 1, value + 1, 1, omnesFloat32, omnesSum, own[1], nullptr);
    });
    results[0] = omnesAllReduce(value, value, 1, omnesFloat32, omnesSum, own[0], nullptr);
    other.join();
    const bool isRight =
        results[0] == omnesSuccess && results[1] == omnesSuccess && value[0] == 3 && value[1] == 3;
    if (!isRight || omnesCommDestroy(rank.comm) != omnesInvalidUsage) _exit(2);
    for (omnesComm_t comm : own)
      if (omnesCommDestroy(comm) != omnesSuccess) _exit(3);
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  if (status != 0) return report(omnesInternalError, "the child has failed");
  const Buffer in(1000), out(1000);
  return report(rank, allReduce(rank, in.data(), out.data(), 1000));
}

struct CallbackFork {
  std::atomic<pid_t> child{0};
};

// A child forked by a stream's callback has that thread alone.
int callbackForks(const Rank& told) {
  Rank rank = told;
  if (rank.stream == nullptr && omnesStreamCreate(&rank.stream) != omnesSuccess)
    return report(omnesInternalError, "no stream");
  rank.way = Way::kStream;
  const Buffer in(1000), out(1000);
  CallbackFork fork_;
  omnesResult_t result = omnesSuccess;
  for (const bool returns : {false, true}) {
    fork_.child.store(0, std::memory_order_relaxed);  // relaxed: no callback is enqueued
    result = allReduce(rank, in.data(), out.data(), 1000);
    if (result != omnesSuccess) return report(rank, result);
    const omnesStreamCallback_t callback =
        returns ? [](omnesStream_t, omnesResult_t, void* userData) {
          const pid_t pid = fork();
          // The child returns into the library.
          if (pid == 0) isForkedChild = true, alarm(kTooLongSeconds);
          if (pid != 0) static_cast<CallbackFork*>(userData)->child.store(pid, std::memory_order_relaxed);
        }
                : [](omnesStream_t stream, omnesResult_t, void* userData) {
          const pid_t pid = fork();
          if (pid == 0) {
            alarm(kTooLongSeconds);
            _exit(omnesStreamDestroy(stream) == omnesInvalidUsage ? 0 : 1);
          }
          static_cast<CallbackFork*>(userData)->child.store(pid, std::memory_order_relaxed);
        };
    omnesStreamAddCallback(rank.stream, callback, &fork_, 0);
    result = allReduce(rank, in.data(), out.data(), 1000);
    int status = -1;
    // Relaxed (all): the stream's synchronisation orders it.
    waitpid(fork_.child.load(std::memory_order_relaxed), &status, 0);
    if (!WIFEXITED(status) || (!returns && WEXITSTATUS(status) != 0))
      return report(omnesInternalError, "the child of the callback has not ended well");
  }
  report(rank, result);
  if (told.stream == nullptr) omnesStreamDestroy(rank.stream);
  return 0;
}

}  // namespace

std::span<const Scenario> forkScenarios() {
  static constexpr Scenario kTable[] = {{"forked-child", forkedChild},
                                        {"children", children},
                                        {"child-joins", childJoins},
                                        {"callback-forks", callbackForks}};
  return kTable;
}

}  // namespace omnes::tests::scenarios
