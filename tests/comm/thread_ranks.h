// Ranks as threads of the test process, through the C API and the real transport.
//
// A ThreadRanks owns one communicator of n ranks. run() plays a function on every rank, each on a
// thread of its own, and returns when all have come out; a watchdog ends the process with a message
// when that takes too long, so that a hang is a failed test and not a silent one. Settings go
// through omnesConfig_t, never through the environment. Expectations of GoogleTest may be used
// inside run(). Not thread-safe itself.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "omnes/omnes.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define OMNES_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define OMNES_TEST_SANITIZED 1
#endif
#endif
#ifndef OMNES_TEST_SANITIZED
#define OMNES_TEST_SANITIZED 0
#endif

namespace omnes::tests {

// Sanitizers are five to twenty times slower: what repeats for the sake of numbers repeats less
// under them.
inline constexpr bool kSanitized = OMNES_TEST_SANITIZED != 0;

struct RanksOptions {
  std::string algo = {};  // empty: the library chooses
  int deterministic = OMNES_CONFIG_UNDEF_INT;
  std::string transports = {};            // empty: all
  std::vector<std::string> hostIds = {};  // by rank; empty: the ranks share their host
  int timeoutMs = OMNES_CONFIG_UNDEF_INT;
  std::chrono::seconds limit{kSanitized ? 240 : 60};  // of one run()
};

// Ends the process when it is not destroyed within the limit.
class Watchdog {
 public:
  Watchdog(std::string what, std::chrono::seconds limit);
  ~Watchdog();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The host ids of ranks that are dealt to hosts in order: {3, 1} = three on the first, then one.
std::vector<std::string> hostsOf(const std::vector<int>& ranksPerHost);

class ThreadRanks {
 public:
  using Body = std::function<void(int rank, omnesComm_t comm)>;

  // Makes the communicator; a failure is a failed test and leaves isReady() false.
  explicit ThreadRanks(int nranks, RanksOptions options = {});
  ~ThreadRanks();
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  bool isReady() const { return ready_; }
  int size() const { return static_cast<int>(comms_.size()); }
  omnesComm_t comm(int rank) const { return comms_[rank]; }
  // The handle of a rank, which the caller then has to free.
  omnesComm_t release(int rank);
  void run(const Body& body);

 private:
  RanksOptions options_;
  bool ready_ = false;
  std::vector<omnesComm_t> comms_;
};

// Runs body(rank) on n threads and waits for them, watched.
void runThreads(int n, const std::string& what, std::chrono::seconds limit,
                const std::function<void(int)>& body);

// Whether the thread sleeps in the kernel, as a wait of ours does after a while.
bool isAsleep(pid_t thread);

// A result code with the text of the thread's last error, for EXPECT_EQ(describe(...), "0").
std::string describe(omnesResult_t result);

}  // namespace omnes::tests
