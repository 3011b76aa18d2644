#include "core/comm/execution.h"

#include <sched.h>

namespace omnes::core {
namespace {

using base::Code;
using base::Deadline;
using base::Status;
using transports::Outcome;

constexpr int64_t kMessageGraceMs = 200;

const base::Clock& clock() { return base::Clock::monotonic(); }

}  // namespace

Progress Execution::start(const Prepared& prepared, const Call& call, const CallBuffers& buffers,
                          uint64_t scalarBits, bool nonTemporal) {
  call_ = call;
  fingerprint_ = fingerprintOf(call);
  deadline_.reset();
  graceForMessage_.reset();
  pumpFailed_ = false;
  operation_.start(prepared, buffers, fingerprint_, scalarBits, nonTemporal);
  const Progress progress = operation_.advance();
  // Only now: what stands before the first chunk leaves delays every other rank.
  in_.board->enter(boardEntryOf(call_, fingerprint_));
  record_.begin(call_, prepared);
  return in_.links->needsProgress() && progress != Progress::kFailed ? pump() : progress;
}

Progress Execution::poll() {
  const Progress progress = operation_.advance();
  if (!in_.links->needsProgress() || progress == Progress::kFailed) return progress;
  if (progress == Progress::kMoved) return progress;
  return pump();
}

// Lets the network move; the operation has only ended when nothing of it waits to be sent.
Progress Execution::pump() {
  const Outcome outcome = in_.links->progress();
  if (outcome != Outcome::kOk && outcome != Outcome::kAgain) {
    pumpFailed_ = true;
    return Progress::kFailed;
  }
  const Progress progress = operation_.advance();
  if (progress == Progress::kDone && in_.links->hasUnsent()) return Progress::kStuck;
  return progress == Progress::kStuck && outcome == Outcome::kOk ? Progress::kMoved : progress;
}

void Execution::finish() {
  record_.finish();
  in_.board->finish(call_.sequence);
}

Status Execution::look() {
  if (in_.failure->isSet()) return in_.failure->status();
  if (!deadline_) deadline_ = Deadline::afterMs(clock(), in_.timeoutMs);
  if (deadline_->hasPassed(clock())) return timeout();
  for (int32_t peer = 0; peer < nranks(); ++peer)
    if (peer != in_.rank) OMNES_RETURN_IF_ERROR(lookAt(peer));
  const int32_t peer = operation_.waitingFor();
  if (peer >= 0 && peer != in_.rank && in_.liveness->hasLeft(peer)) {
    // Its last chunks may have come in before its goodbye.
    if (poll() != Progress::kStuck || operation_.waitingFor() != peer) return Status::ok();
    return Status(Code::kRemoteError, describe(call_) + " needs " + nameOf(peer) +
                                          ", which has destroyed its communicator");
  }
  return Status::ok();
}

Status Execution::lookAt(int32_t peer) {
  const base::Board* board = in_.links->boardOf(peer);
  if (board == nullptr) return Status::ok();
  const auto entry = board->read();
  if (entry && entry->sequence == call_.sequence && entry->fingerprint != fingerprint_)
    return mismatchWith(peer);
  if (board->failure() != 0) return silentFailureOf(peer);
  return Status::ok();
}

Status Execution::failure() const {
  if (pumpFailed_) {
    const transports::Endpoint* endpoint = in_.links->failed();
    const Code code = endpoint->failedPeer >= 0 ? Code::kRemoteError : Code::kSystemError;
    return Status(code, describe(call_) + ": " + endpoint->error);
  }
  const OperationFailure& failure = operation_.failure();
  switch (failure.kind) {
    case OperationFailure::Kind::kMismatch: return mismatchWith(failure.peer);
    case OperationFailure::Kind::kPeerGone:
      return Status(Code::kRemoteError, describe(call_) + ": " + failure.text);
    case OperationFailure::Kind::kTransport: break;
  }
  return Status(Code::kSystemError, describe(call_) + ": " + failure.text);
}

Status Execution::mismatchWith(int32_t peer) const {
  std::string theirs = "something else";
  // The peer writes its board right after its first chunk: give it a moment.
  for (int look = 0; look < 1000 && in_.links->boardOf(peer) != nullptr; ++look) {
    const auto entry = in_.links->boardOf(peer)->read();
    if (entry && entry->sequence >= call_.sequence) {
      theirs = describe(*entry);
      break;
    }
    sched_yield();
  }
  const std::string mine = describe(call_);
  const std::string hint =
      theirs == mine ? " in chunks of another size: check that all ranks have the same settings"
                     : "; all ranks must call the same operations in the same order";
  return Status(Code::kInvalidUsage, nameOf(in_.rank) + " called " + mine + " but " + nameOf(peer) +
                                         " called " + theirs + hint);
}

std::string Execution::whoIsLate() const {
  std::string out;
  for (int32_t peer = 0; peer < nranks(); ++peer) {
    if (peer == in_.rank || in_.links->boardOf(peer) == nullptr) continue;
    const auto entry = in_.links->boardOf(peer)->read();
    if (!entry || entry->sequence >= call_.sequence) continue;
    out += "\n  " + nameOf(peer) + " has not entered it; ";
    out += entry->sequence == 0 ? "it has entered no operation yet"
                                : "its last operation was " + describe(*entry);
  }
  return out;
}

Status Execution::timeout() const {
  const int32_t peer = operation_.waitingFor();
  const std::string whom =
      peer >= 0 && peer != in_.rank ? nameOf(peer) : std::string("the other ranks");
  return Status(Code::kTimeout, nameOf(in_.rank) + ": " + describe(call_) + " has waited " +
                                    std::to_string(in_.timeoutMs) + " ms for " + whom +
                                    ", having done " + std::to_string(operation_.stepsDone()) +
                                    " of " + std::to_string(operation_.stepsTotal()) +
                                    " steps; raise OMNES_TIMEOUT_MS if that is not long enough" +
                                    whoIsLate() +
                                    "\nthe last operations of this rank:" + record_.text());
}

Status Execution::silentFailureOf(int32_t peer) {
  // The message names the cause, the board only a code: give the message time.
  if (!graceForMessage_) graceForMessage_ = Deadline::afterMs(clock(), kMessageGraceMs);
  if (!graceForMessage_->hasPassed(clock())) return Status::ok();
  const auto code = static_cast<Code>(in_.links->boardOf(peer)->failure());
  return Status(Code::kRemoteError,
                describe(call_) + ": " + nameOf(peer) + " has failed (" + base::codeName(code) +
                    "); its message does not come, perhaps since the process that made the unique "
                    "id has ended");
}

}  // namespace omnes::core
