// The operation that a communicator has under way: the executor's run of it, what the rank's board
// and flight record say of it, and what goes wrong with it.
//
// Whoever drives it calls start(), then poll() until that is kDone or kFailed, look() now and then
// while it is stuck, and finish() at the end; it never waits itself. One thread at a time; handed
// from thread to thread by whoever owns the right to drive.
//
// A peer that is gone, or a chunk of another call, is seldom the whole story: why is told by the
// control connection or by the peer's board, a moment later. Until then the operation is kStuck,
// and look() says how it has failed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/comm/call.h"
#include "core/comm/failure.h"
#include "core/comm/flight_record.h"
#include "core/comm/liveness.h"
#include "core/comm/peer_boards.h"
#include "core/comm/peer_info.h"
#include "core/exec/message_set.h"
#include "core/exec/operation.h"

namespace omnes::core {

class Execution {
 public:
  // Everything must outlive it.
  struct Surroundings {
    int32_t rank = 0;
    int64_t timeoutMs = 0;
    LinkSet* links = nullptr;
    base::Board* board = nullptr;  // the own one
    const std::vector<PeerInfo>* peers = nullptr;
    Liveness* liveness = nullptr;
    const Failure* failure = nullptr;
  };

  void surround(const Surroundings& surroundings) {
    in_ = surroundings;
    operation_.heed(in_.failure->word());
  }

  // Runs what can be run at once, then says on the board what this rank has entered.
  Progress start(const Prepared& prepared, const Call& call, const CallBuffers& buffers,
                 uint64_t scalarBits, bool nonTemporal);
  // The same for messages, which must outlive the run.
  Progress startMessages(MessageSet* messages, const Call& call, bool nonTemporal);
  Progress poll();
  // Whether the wait may go on: not when the deadline has passed, a peer has called something else
  // or has left, or the communicator has failed.
  base::Status look();
  // Why, after kFailed.
  base::Status failure() const;
  // After kDone.
  void finish();
  // What has been entered. find() is for any thread.
  const FlightRecord& record() const { return record_; }

  const Call& call() const { return call_; }
  // Null when it is not messages that are under way.
  const MessageSet* messages() const { return messages_; }
  // Whether far chunks are better stored past the caches.
  bool peersAreFar() { return operation_.lineLatency().isFar(); }

 private:
  // What is wrong, as far as the operation or the transport has seen it.
  struct Suspicion {
    bool isMismatch = false;  // else the peer is gone
    int32_t peer = -1;
    std::string text;  // of the transport
    base::Deadline until = base::Deadline::never();
  };

  void begin(const Call& call);
  Progress afterStart(Progress progress);
  Progress advance() { return messages_ == nullptr ? operation_.advance() : messages_->advance(); }
  // Sends and receives: no collective.
  bool isPointToPoint() const {
    return messages_ != nullptr && call_.shape.collective == plan::Collective::kSendReceive;
  }
  int32_t waitingFor() const {
    return messages_ == nullptr ? operation_.waitingFor() : messages_->waitingFor();
  }
  bool waitsFor(int32_t peer) const {
    return messages_ == nullptr ? operation_.waitingFor() == peer : messages_->waitsFor(peer);
  }
  uint64_t stepsDone() const {
    return messages_ == nullptr ? operation_.stepsDone() : messages_->stepsDone();
  }
  uint64_t stepsTotal() const {
    return messages_ == nullptr ? operation_.stepsTotal() : messages_->stepsTotal();
  }
  const OperationFailure& operationFailure() const {
    return messages_ == nullptr ? operation_.failure() : messages_->failure();
  }
  std::string what() const { return isPointToPoint() ? messages_->describe() : describe(call_); }
  Progress pump();
  Progress onFailure(bool ofPump);
  Progress suspect(bool isMismatch, int32_t peer, const char* text);
  base::Status judge(const Suspicion& suspicion) const;
  base::Status lookAt(int32_t peer);
  // The peer has called the same, but something else before.
  base::Status disagreedBefore(int32_t peer);
  base::Status lookForLeaver(base::TimePoint now);
  base::Status lookForLeaver(int32_t peer, base::TimePoint now);
  // A rank that waits in a collective for this one, which waits for that rank's message.
  base::Status lookForCircle(int32_t peer, base::TimePoint now);
  base::Status messageMismatch(const MessageSet::Mismatch& mismatch) const;
  void noteStandstill(base::TimePoint now);
  void askAround(base::TimePoint now);
  // As far as is known here.
  bool hasEntered(int32_t peer) const;
  base::Status timeout() const;
  // The peer's board says that it has failed, and no message has come that says why.
  base::Status silentFailureOf(int32_t peer);
  base::Status mismatchWith(int32_t peer) const;
  base::Status goneBecauseLeft(int32_t peer) const;
  const PeerBoards& boards() const { return in_.liveness->boards(); }
  std::string whoIsLate() const;
  std::string nameOf(int32_t rank) const { return (*in_.peers)[rank].nameAs(rank); }
  int32_t nranks() const { return static_cast<int32_t>(in_.peers->size()); }

  Surroundings in_;
  Operation operation_;
  MessageSet* messages_ = nullptr;  // null: operation_ runs
  FlightRecord record_;
  Call call_;
  uint64_t fingerprint_ = 0;
  uint64_t history_ = 0;  // fingerprint of the last operation of all ranks
  bool pumpFailed_ = false;
  // Set at the first look, so that a fast operation reads no clock.
  std::optional<base::Deadline> deadline_;
  std::optional<base::Deadline> graceForMessage_;
  std::optional<base::Deadline> graceForHistory_;
  std::optional<Suspicion> suspicion_;
  // Since when nothing has moved, as far as looks have shown.
  uint64_t stillAtSteps_ = 0;
  base::TimePoint stillSince_;
  base::TimePoint nextQuestion_;
};

}  // namespace omnes::core
