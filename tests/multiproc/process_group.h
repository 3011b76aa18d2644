// Ranks as processes for tests: started by exec (never fork alone, so that sanitizers are happy),
// each with an environment and a pipe for what it prints; killed, stopped and awaited by number.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"

namespace omnes::tests {

struct ProcessResult {
  bool hasEnded = false;
  int exitCode = -1;  // -1 when it died by a signal
  int signal = 0;
  std::string output;                       // of standard output and error
  std::chrono::milliseconds endedAfter{0};  // since mark()
};

class ProcessGroup {
 public:
  // Kills what is left.
  ~ProcessGroup();

  // Starts one process. environment is added to ours.
  void start(const std::vector<std::string>& command,
             const std::map<std::string, std::string>& environment);
  // Starts `nranks` copies that meet at a fresh local address (OMNES_COMM_ID, OMNES_RANK,
  // OMNES_NRANKS).
  void startRanks(int nranks, const std::vector<std::string>& command,
                  const std::map<std::string, std::string>& environment = {});
  // Waits until every process but `except` has printed the text, or the limit; false = not all.
  bool waitForText(const std::string& text, std::chrono::milliseconds limit, int except = -1);
  // The same of one process.
  bool waitForTextOf(size_t index, const std::string& text, std::chrono::milliseconds limit);
  void kill(size_t index, int signal);
  pid_t pid(size_t index) const { return processes_[index].pid; }
  // Keeps reading and reaping for so long, whatever happens.
  void keepFor(std::chrono::milliseconds time);
  // As they are now.
  const std::vector<ProcessResult>& results() const { return results_; }
  // Starts the clock of ProcessResult::endedAfter.
  void mark() { start_ = std::chrono::steady_clock::now(); }
  // Waits for all to end; after the limit the rest is killed and reported as not ended.
  const std::vector<ProcessResult>& waitForAll(std::chrono::milliseconds limit);

 private:
  struct Process {
    pid_t pid = -1;
    base::UniqueFd pidfd;
    base::UniqueFd out;
  };
  // One round of reading output and reaping; at most `ms` long.
  void pump(int ms);

  std::vector<Process> processes_;
  std::vector<ProcessResult> results_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// An address for OMNES_COMM_ID that nobody else uses.
std::string freshAddress();
// The same on the loopback interface: a port that was free a moment ago.
std::string freshTcpAddress();

}  // namespace omnes::tests
