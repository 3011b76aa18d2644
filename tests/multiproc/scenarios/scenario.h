// What a rank of the process tests can play, and the tools of its scenarios.
//
// A scenario prints lines that the test waits for ("running") and ends with report(). Triggers come
// from the test as SIGUSR1, which all threads block and one waits for, so that nothing is timed by
// sleeping.
#pragma once

#include <omnes/omnes.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace omnes::tests::scenarios {

// How an operation is given to the library.
enum class Way { kPlain, kStream, kGroup };

struct Rank {
  omnesComm_t comm = nullptr;
  int rank = 0;
  int nranks = 0;
  Way way = Way::kPlain;
  omnesStream_t stream = nullptr;  // Way::kStream only

  bool isLast() const { return rank == nranks - 1; }
};

enum class End { kDestroys, kKeeps };  // whether the program destroys the communicator afterwards
enum class Start { kJoined, kAlone };  // whether it joins one before

struct Scenario {
  const char* name;
  int (*play)(const Rank& rank);
  End end = End::kDestroys;
  Start start = Start::kJoined;
};

// One table a file.
std::span<const Scenario> callScenarios();
std::span<const Scenario> mismatchScenarios();
std::span<const Scenario> abortScenarios();
std::span<const Scenario> forkScenarios();
std::span<const Scenario> endScenarios();
std::span<const Scenario> shrinkScenarios();

inline constexpr float kPoison = -12345.0f;
inline constexpr size_t kBigCount = size_t{16} << 20;  // 64 MiB of floats

void say(const char* text);
// "result CODE TEXT", for the test to read; returns the exit code of the program.
int report(omnesResult_t result, const char* text);
// With the text of the communicator's first error. Not once another thread may have freed it.
int report(const Rank& rank, omnesResult_t result);

// One all-reduce, the way the rank was told, awaited.
omnesResult_t allReduce(const Rank& rank, const void* in, void* out, size_t count,
                        omnesDataType_t type = omnesFloat32, omnesRedOp_t op = omnesSum);
// All-reduces of `count` floats until one fails, then the report.
int loop(const Rank& rank, size_t count);

// To be called first of all: SIGUSR1 is then for waitForSignal() alone.
void blockTrigger();
void waitForTrigger();
bool hasTrigger();  // takes it, if it has come

// Memory that faults, or makes the address sanitizer report, when it is touched after free().
class Buffer {
 public:
  explicit Buffer(size_t count, float value = 1.0f);
  float* data() const { return data_.get(); }
  void free() { data_.reset(); }

 private:
  std::unique_ptr<float[]> data_;
};

// A thread that makes calls, watched by another one.
class Watched {
 public:
  // By the thread, before its first call and after each.
  void begin();
  // Relaxed: only compared with itself.
  void count() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void end() { hasEnded_.store(true, std::memory_order_release); }             // W1: pairs with W2
  bool hasEnded() const { return hasEnded_.load(std::memory_order_acquire); }  // W2: pairs with W1
  // By another thread: until it has slept inside one call for a while, or has ended.
  void waitUntilStuck() const;

 private:
  bool isAsleep() const;

  std::atomic<pid_t> thread_{0};
  std::atomic<uint64_t> calls_{0};
  std::atomic<bool> hasEnded_{false};
};

class Stopwatch {
 public:
  int64_t ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// omnesCommAbort, and a line "abort CODE after N ms".
omnesResult_t timedAbort(omnesComm_t comm);

// A second communicator of the same ranks, by an id that travels through the first one.
omnesResult_t makeSecond(const Rank& rank, omnesComm_t* comm);

}  // namespace omnes::tests::scenarios
