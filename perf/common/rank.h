// One rank of the run: its communicator, its failures, and small exchanges with the other ranks.
//
// Results (times, counts of wrong elements) are gathered with omnes itself, so that the binaries
// need no second library. Thread safety: a Rank is used by its own thread. Invariant: after the
// first failure every call returns false and the communicator is gone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/exit_code.h"
#include "omnes/omnes.h"

namespace omnes::perf {

class Rank {
 public:
  // Owns comm.
  Rank(std::string program, omnesComm_t comm, int rank, int nranks, int localIndex);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int rank() const { return rank_; }
  int nranks() const { return nranks_; }
  int localIndex() const { return localIndex_; }
  omnesComm_t comm() const { return comm_; }
  int exitCode() const { return exitCode_; }
  const std::string& error() const { return error_; }

  // True if the call succeeded; else prints the library's text with the rank and aborts the
  // communicator, so that the other ranks do not wait.
  bool ok(omnesResult_t result, const char* call) {
    return result == omnesSuccess || failCall(result, call);
  }
  // As ok, for failures of our own. Returns false.
  bool fail(int exitCode, const std::string& text);
  // What to leave with although nothing failed: wrong data.
  void setVerdict(int exitCode) { exitCode_ = exitCode; }
  // Leaves with this code without a line of its own: another rank has said why. Returns false.
  bool leave(int exitCode);

  bool barrier() { return ok(omnesBarrier(comm_, nullptr), "omnesBarrier"); }
  // Element-wise reduction over all ranks, in place.
  bool reduce(std::vector<double>* values, omnesRedOp_t op);
  bool reduce(std::vector<int64_t>* values, omnesRedOp_t op);
  // Each rank's text, cut to 255 bytes, indexed by rank.
  bool gatherTexts(const std::string& mine, std::vector<std::string>* all);

 private:
  bool failCall(omnesResult_t result, const char* call);

  const std::string program_;
  omnesComm_t comm_;
  const int rank_;
  const int nranks_;
  const int localIndex_;
  int exitCode_ = kExitOk;
  std::string error_;
};

// The text of a failed call: of this thread's last failure, else of the communicator, else of the
// code.
std::string failureText(omnesResult_t result, omnesComm_t comm);

}  // namespace omnes::perf
