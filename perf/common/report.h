// What rank 0 prints and writes: the lines of nccl-tests on stdout, and JSON with -J.
//
// Thread safety: used by rank 0's thread, except addError, which any thread may call.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/table.h"

namespace omnes::perf {

struct DeviceInfo {
  int rank = 0;
  int pid = 0;
  int localIndex = 0;
  std::string host;
  std::string cpus;  // the processors that the rank may use, e.g. "0-1"
};

// The numbers of the footer.
struct Summary {
  uint64_t failedTests = 0;
  double averageBusbw = 0;
  bool bandwidthOk = true;
  std::string memory;  // a line of -M, or empty
};

class Report {
 public:
  Report(std::string program, std::vector<std::string> arguments, const Options& options);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  // Opens the file of -J, or the first free name with .1, .2 and so on behind it; never overwrites.
  // False: *problem.
  bool openOutput(std::string* problem);

  void begin(const std::vector<DeviceInfo>& devices, const std::string& sizeNote);
  void addRow(const Row& row);
  void addError(const std::string& text);
  void finish(const Summary& summary);
  // Writes the JSON; also after a failure, with what there is. False if the file cannot be written.
  bool writeOutput();

 private:
  const std::string program_;
  const std::vector<std::string> arguments_;
  const Options& options_;  // outlives this
  std::string startTime_;
  std::string outputName_;
  int outputFd_ = -1;  // owned until writeOutput
  std::vector<DeviceInfo> devices_;
  std::vector<Row> rows_;
  Summary summary_;
  std::mutex errorsMutex_;
  std::vector<std::string> errors_;  // guarded by errorsMutex_
};

// Of this process: what it may run on ("0-1"), its host, the processor's name, the time as
// "2026-01-31 13:05:00".
std::string allowedCpus();
std::string hostName();
std::string cpuModel();
std::string timeOfDay();

}  // namespace omnes::perf
