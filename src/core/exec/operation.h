// One run of a prepared plan on one rank: the executor.
//
// advance() does what can be done now and returns; it never waits, and comes back after some 64
// steps, or after the step during which the word that it heeds was set. A lane has one cursor
// (wave, step); a step first checks all its sources and credits, then runs, then commits, so that
// "not ready" has no side effect. The caller (inline call, progress thread, or a test's scheduler)
// decides how to wait in between.
//
// One Operation object serves all calls of a communicator, one at a time. It borrows the Prepared
// and the user's buffers from start() until advance() returned kDone or kFailed. Not thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/exec/line_latency.h"
#include "core/exec/prepared.h"

namespace omnes::core {

struct CallBuffers {
  const void* send = nullptr;
  void* recv = nullptr;
};

enum class Progress : uint8_t {
  kDone,
  kMoved,   // not done; something happened since the last advance()
  kStuck,   // not done; waits for waitingFor()
  kFailed,  // failure() says what
};

struct OperationFailure {
  enum class Kind : uint8_t { kMismatch, kPeerGone, kTransport } kind = Kind::kTransport;
  int32_t peer = -1;
  const char* text = "";  // of the endpoint, for kPeerGone and kTransport
};

class Operation {
 public:
  // fingerprint: of the call, equal on all ranks that agree. scalarBits: PreMulSum's factor.
  void start(const Prepared& prepared, const CallBuffers& buffers, uint64_t fingerprint,
             uint64_t scalarBits, bool nonTemporal);
  Progress advance();
  // Not 0: no further step is run. Must outlive the operation.
  void heed(const std::atomic<uint32_t>* word) { word_ = word; }

  // The rank that the first link that is not ready waits for, -1 when that is not known; valid
  // after kStuck.
  int32_t waitingFor() const;
  const OperationFailure& failure() const { return failure_; }
  // Step instances executed so far, and in all: how far it got.
  uint64_t stepsDone() const { return stepsDone_; }
  uint64_t stepsTotal() const { return stepsTotal_; }
  LineLatency& lineLatency() { return lineLatency_; }
  // Of the run under way, or of the last one.
  const Prepared& prepared() const { return *prepared_; }

 private:
  struct Cursor {
    uint64_t wave = 0;
    uint32_t step = 0;
    uint32_t ready = 0;  // operands of the step that were found ready
  };
  struct RingLinks;
  struct TableLinks;

  template <class Links>
  Progress advanceWith();
  template <class Links>
  Progress advanceLane(size_t lane);
  // After a step. Relaxed: whoever drives looks at the word again, and acquires what it stands for.
  bool isInterrupted() const {
    return word_ != nullptr && word_->load(std::memory_order_relaxed) != 0;
  }
  enum class Readiness : uint8_t { kReady, kNotReady, kFailed };
  template <class Links>
  Readiness readiness(const PreparedStep& step, Cursor* cursor);
  Readiness failWith(transports::Outcome outcome, const PreparedOperand& operand);
  template <class Links>
  void run(const PreparedStep& step, size_t lane, uint64_t laneSlice, int table);
  template <class Links>
  void move(const PreparedStep& step, size_t lane, uint64_t laneSlice, int table);
  template <class Links>
  void bindOperands(const PreparedStep& step, size_t lane, uint64_t laneSlice);
  // Of a link operand of the step under way.
  size_t operandBytes(const PreparedOperand& operand) const;
  // V forms: what is left of the piece in the slice under way; of all pieces of the step.
  uint64_t elementsLeft(const PreparedPiece& piece) const;
  uint64_t chunkElementsLeft(const PreparedStep& step) const;
  uint64_t chunkFingerprint(size_t bytes) const;

  const Prepared* prepared_ = nullptr;
  const std::atomic<uint32_t>* word_ = nullptr;
  CallBuffers buffers_;
  kernels::Reduction reduction_;
  uint64_t fingerprint_ = 0;
  bool nonTemporal_ = false;  // for links, when the chunk is long enough
  bool nonTemporalOutput_ = false;
  bool isUneven_ = false;  // V form
  // Of the step under way.
  uint64_t chunkElements_ = 0;
  uint64_t sliceStart_ = 0;  // elements; V forms only
  uint64_t stepsDone_ = 0;
  uint64_t stepsTotal_ = 0;
  OperationFailure failure_;
  LineLatency lineLatency_;
  std::vector<Cursor> cursors_;
  std::vector<uint8_t> scratch_;
  size_t stuckLane_ = 0;
  // Scratch of the step under way, sized once per prepared operation.
  std::vector<uint8_t*> bases_;
  std::vector<kernels::Source> sources_;
  std::vector<kernels::Sink> sinks_;
  std::vector<transports::Chunk> chunks_;
};

}  // namespace omnes::core
