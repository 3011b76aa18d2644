#include "core/comm/execution.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Deadline;
using base::Status;
using transports::Outcome;

// How long the control connection may take to say why.
constexpr int64_t kMessageGraceMs = 200;
constexpr int64_t kCauseGraceMs = 300;
// How long ranks may take to find out what they disagreed about.
constexpr int64_t kHistoryGraceMs = 600;
// A rank that does not move for this long asks those that it waits for what they are doing, and
// then again. Long enough that what only takes its time asks nothing, short enough that ranks that
// will never meet know within a second.
constexpr auto kFirstQuestion = std::chrono::milliseconds(100);
constexpr auto kMostBetween = std::chrono::milliseconds(500);
// The last chunks of a rank that has left come over the network, its goodbye does not: they may be
// later.
constexpr auto kLeaverGrace = std::chrono::milliseconds(500);
constexpr uint64_t kNotLookedYet = UINT64_MAX;

const base::Clock& clock() { return base::Clock::monotonic(); }

// Whether `waiting` cannot end that collective before `late` has entered it.
bool needs(const base::BoardEntry& entry, int32_t waiting, int32_t late) {
  switch (static_cast<plan::Collective>(entry.collective)) {
    case plan::Collective::kBroadcast:
    case plan::Collective::kScatter:
    case plan::Collective::kScatterV: return entry.root == late;
    case plan::Collective::kReduce:
    case plan::Collective::kGather:
    case plan::Collective::kGatherV: return entry.root == waiting;
    default: return true;
  }
}

}  // namespace

void Execution::begin(const Call& call) {
  call_ = call;
  fingerprint_ = fingerprintOf(call, history_);
  // Sends and receives are not called by all ranks.
  if (call.shape.collective != plan::Collective::kSendReceive) history_ = fingerprint_;
  deadline_.reset();
  graceForMessage_.reset();
  graceForHistory_.reset();
  suspicion_.reset();
  pumpFailed_ = false;
  stillAtSteps_ = kNotLookedYet;
}

Progress Execution::start(const Prepared& prepared, const Call& call, const CallBuffers& buffers,
                          uint64_t scalarBits, bool nonTemporal) {
  begin(call);
  messages_ = nullptr;
  operation_.start(prepared, buffers, fingerprint_, scalarBits, nonTemporal);
  const Progress progress = operation_.advance();
  // Only now: what stands before the first chunk leaves delays every other rank.
  in_.board->enter(boardEntryOf(call_, fingerprint_));
  record_.begin(call_, fingerprint_, prepared.algorithm);
  return afterStart(progress);
}

Progress Execution::startMessages(MessageSet* messages, const Call& call, bool nonTemporal) {
  begin(call);
  messages_ = messages;
  messages->start(nonTemporal, in_.failure->word());
  const Progress progress = messages->advance();
  if (isPointToPoint()) {
    // Boards and records have the operations of all ranks, by number: others must not take this
    // for one of them.
    record_.beginMessages(messages->sends(), messages->receives(), messages->bytes());
  } else {
    in_.board->enter(boardEntryOf(call_, fingerprint_));
    record_.begin(call_, fingerprint_, "messages");
  }
  return afterStart(progress);
}

Progress Execution::afterStart(Progress progress) {
  if (progress == Progress::kFailed) [[unlikely]]
    return onFailure(false);
  return in_.links->needsProgress() ? pump() : progress;
}

Progress Execution::poll() {
  if (suspicion_) [[unlikely]]
    return Progress::kStuck;
  const Progress progress = advance();
  if (progress == Progress::kFailed) [[unlikely]]
    return onFailure(false);
  if (!in_.links->needsProgress() || progress == Progress::kMoved) return progress;
  return pump();
}

// Lets the network move; the operation has only ended when nothing of it waits to be sent.
Progress Execution::pump() {
  const Outcome outcome = in_.links->progress();
  if (outcome != Outcome::kOk && outcome != Outcome::kAgain) return onFailure(true);
  const Progress progress = advance();
  if (progress == Progress::kFailed) return onFailure(false);
  if (progress == Progress::kDone && in_.links->hasUnsent()) return Progress::kStuck;
  return progress == Progress::kStuck && outcome == Outcome::kOk ? Progress::kMoved : progress;
}

Progress Execution::onFailure(bool ofPump) {
  pumpFailed_ = ofPump;
  if (ofPump) {
    const transports::Endpoint* endpoint = in_.links->failed();
    if (endpoint->failedPeer < 0) return Progress::kFailed;
    return suspect(false, endpoint->failedPeer, endpoint->error);
  }
  const OperationFailure& failure = operationFailure();
  // Its tag has told all there is to say.
  if (messages_ != nullptr && messages_->mismatch()) return Progress::kFailed;
  if (failure.kind == OperationFailure::Kind::kTransport || failure.peer < 0)
    return Progress::kFailed;
  return suspect(failure.kind == OperationFailure::Kind::kMismatch, failure.peer, failure.text);
}

Progress Execution::suspect(bool isMismatch, int32_t peer, const char* text) {
  const int64_t graceMs = isMismatch ? kHistoryGraceMs : kCauseGraceMs;
  suspicion_ = {isMismatch, peer, text, Deadline::afterMs(clock(), graceMs)};
  // The peer can compare, too, and knows what it has called before.
  if (isMismatch) boards().ask(peer);
  return Progress::kStuck;
}

void Execution::finish() {
  if (isPointToPoint()) {
    record_.finishMessages();
    return;
  }
  record_.finish();
  in_.board->finish(call_.sequence);
  // With a root, others need not have begun.
  if (call_.shape.root >= 0) in_.liveness->compareLater();
}

Status Execution::look() {
  if (in_.failure->isSet()) return in_.failure->status();
  if (suspicion_) return judge(*suspicion_);
  if (!deadline_) deadline_ = Deadline::afterMs(clock(), in_.timeoutMs);
  if (deadline_->hasPassed(clock())) return timeout();
  for (int32_t peer = 0; peer < nranks(); ++peer)
    if (peer != in_.rank) OMNES_RETURN_IF_ERROR(lookAt(peer));
  const base::TimePoint now = clock().now();
  noteStandstill(now);
  OMNES_RETURN_IF_ERROR(lookForLeaver(now));
  if (isPointToPoint())
    for (int32_t peer = 0; peer < nranks(); ++peer)
      if (messages_->waitsFor(peer)) OMNES_RETURN_IF_ERROR(lookForCircle(peer, now));
  askAround(now);
  return Status::ok();
}

Status Execution::lookAt(int32_t peer) {
  const base::Board* board = boards().of(peer);
  const auto entry = board->read();
  using Agreement = PeerBoards::Agreement;
  const Agreement agreement = entry ? boards().compareWith(*entry) : Agreement::kUnknown;
  if (agreement == Agreement::kDiffer) return boards().mismatch(peer, *entry);
  if (agreement == Agreement::kDifferedBefore) OMNES_RETURN_IF_ERROR(disagreedBefore(peer));
  if (board->failure() != 0) return silentFailureOf(peer);
  return Status::ok();
}

Status Execution::disagreedBefore(int32_t peer) {
  if (!graceForHistory_) {
    // It answers with what it remembers, which the service thread compares.
    boards().ask(peer);
    graceForHistory_ = Deadline::afterMs(clock(), kHistoryGraceMs);
  }
  return graceForHistory_->hasPassed(clock()) ? boards().mismatchBefore(peer, describe(call_))
                                              : Status::ok();
}

void Execution::noteStandstill(base::TimePoint now) {
  if (stillAtSteps_ == stepsDone()) return;
  stillAtSteps_ = stepsDone();
  stillSince_ = now;
  nextQuestion_ = now + kFirstQuestion;
}

Status Execution::lookForLeaver(base::TimePoint now) {
  if (messages_ == nullptr) return lookForLeaver(operation_.waitingFor(), now);
  for (int32_t peer = 0; peer < nranks(); ++peer)
    if (messages_->waitsFor(peer)) OMNES_RETURN_IF_ERROR(lookForLeaver(peer, now));
  return Status::ok();
}

Status Execution::lookForLeaver(int32_t peer, base::TimePoint now) {
  if (peer < 0 || peer == in_.rank || !in_.liveness->hasLeft(peer)) return Status::ok();
  if (!boards().isShared(peer) && now - stillSince_ < kLeaverGrace) return Status::ok();
  // Its last chunks may have come in before its goodbye.
  if (poll() != Progress::kStuck || suspicion_ || !waitsFor(peer)) return Status::ok();
  return goneBecauseLeft(peer);
}

Status Execution::lookForCircle(int32_t peer, base::TimePoint now) {
  const base::Board* board = boards().of(peer);
  const auto entry = board->read();
  if (!entry || entry->sequence <= call_.sequence || board->finished() >= entry->sequence ||
      !needs(*entry, peer, in_.rank))
    return Status::ok();
  // What it sent before it entered that has left it: it is here, or, over a network, on its way.
  if (!boards().isShared(peer) && now - stillSince_ < kLeaverGrace) return Status::ok();
  if (poll() != Progress::kStuck || suspicion_ || !waitsFor(peer)) return Status::ok();
  return Status(Code::kInvalidUsage,
                nameOf(in_.rank) + " waits in " + messages_->describeWait(peer) + " for " +
                    nameOf(peer) + ", which is in " + describe(*entry) + " and waits there for " +
                    "rank " + std::to_string(in_.rank) +
                    "; all ranks must call operations that need each other in the same order, or "
                    "in one group");
}

Status Execution::messageMismatch(const MessageSet::Mismatch& mismatch) const {
  const auto text = [](uint64_t count, base::DataType type) {
    return std::to_string(count) + " " + std::string(base::nameOf(type));
  };
  const Message& mine = mismatch.mine;
  const MessageTag& theirs = mismatch.theirs;
  const bool isOther = theirs.collective != call_.shape.collective;
  std::string sent = text(theirs.count, theirs.type);
  if (isOther) sent += " in " + std::string(plan::nameOf(theirs.collective));
  return Status(Code::kInvalidUsage,
                nameOf(in_.rank) + " expects " + text(mine.count, mine.type) + " from " +
                    nameOf(mine.peer) + " in " +
                    (isPointToPoint() ? std::string("a receive") : describe(call_)) + ", but " +
                    "rank " + std::to_string(mine.peer) + " sends " + sent +
                    "; a send and its receive must have one count and type");
}

bool Execution::hasEntered(int32_t peer) const {
  const auto entry = boards().of(peer)->read();
  return entry && entry->sequence >= call_.sequence;
}

void Execution::askAround(base::TimePoint now) {
  if (now < nextQuestion_) return;
  nextQuestion_ = now + std::min<base::Duration>(kMostBetween, now - stillSince_);
  const int32_t awaited = waitingFor();
  const bool isKnown = awaited >= 0 && awaited != in_.rank;
  if (isKnown && !boards().isShared(awaited)) boards().ask(awaited);
  // Whoever is awaited and has entered it waits itself: the late one is another.
  if ((!isKnown || hasEntered(awaited)) && boards().haveReplicas()) boards().ask(-1);
  if (isPointToPoint()) {
    for (int32_t peer = 0; peer < nranks(); ++peer)
      if (messages_->waitsFor(peer) && peer != awaited && !boards().isShared(peer))
        boards().ask(peer);
    return;
  }
  for (int32_t peer = 0; peer < nranks(); ++peer) {
    if (peer == in_.rank || !boards().isShared(peer)) continue;
    // Its board has moved on: whether it entered the same operation is known to it alone.
    const auto entry = boards().of(peer)->read();
    if (entry && entry->sequence > call_.sequence) boards().ask(peer);
  }
}

Status Execution::judge(const Suspicion& suspicion) const {
  const bool isLate = suspicion.until.hasPassed(clock());
  const int32_t peer = suspicion.peer;
  if (suspicion.isMismatch) {
    // The peer writes its board right after its first chunk.
    const auto entry = boards().of(peer)->read();
    using Agreement = PeerBoards::Agreement;
    const Agreement agreement = entry ? boards().compareWith(*entry) : Agreement::kUnknown;
    if (agreement == Agreement::kDiffer) return boards().mismatch(peer, *entry);
    const bool isKnown = entry && entry->sequence == call_.sequence;
    // Chunks of another size, for other reasons than the call.
    if (isKnown && agreement == Agreement::kAgree) return mismatchWith(peer);
    if (!isLate) return Status::ok();  // it has been asked
    return isKnown ? boards().mismatchBefore(peer, describe(call_)) : mismatchWith(peer);
  }
  if (in_.liveness->hasLeft(peer)) return goneBecauseLeft(peer);
  if (!isLate) return Status::ok();
  return Status(Code::kRemoteError, what() + ": " + nameOf(peer) +
                                        " died or dropped its connection (" + suspicion.text +
                                        "); abort and make a new communicator without it");
}

Status Execution::goneBecauseLeft(int32_t peer) const {
  return Status(Code::kRemoteError,
                what() + " needs " + nameOf(peer) + ", which has destroyed its communicator");
}

Status Execution::failure() const {
  if (!pumpFailed_ && messages_ != nullptr && messages_->mismatch())
    return messageMismatch(*messages_->mismatch());
  const char* text = pumpFailed_ ? in_.links->failed()->error : operationFailure().text;
  return Status(Code::kSystemError, what() + ": " + text);
}

Status Execution::mismatchWith(int32_t peer) const {
  const auto entry = boards().of(peer)->read();
  std::string theirs = "something else";
  if (entry && entry->sequence == call_.sequence) theirs = describe(*entry);
  if (entry && entry->sequence > call_.sequence)
    theirs += " and has gone on to " + describe(*entry);
  return boards().mismatch(peer, describe(call_), theirs);
}

std::string Execution::whoIsLate() const {
  std::string out;
  for (int32_t peer = 0; peer < nranks(); ++peer) {
    if (peer == in_.rank) continue;
    const auto entry = boards().of(peer)->read();
    if (!entry || entry->sequence >= call_.sequence || isPointToPoint()) continue;
    // A replica that has never been written says nothing.
    if (!boards().isHeard(peer)) continue;
    out += "\n  " + nameOf(peer) + " has not entered it; ";
    out += entry->sequence == 0 ? "it has entered no operation yet"
                                : "its last operation was " + describe(*entry);
  }
  return out;
}

Status Execution::timeout() const {
  const int32_t peer = waitingFor();
  const std::string whom =
      peer >= 0 && peer != in_.rank ? nameOf(peer) : std::string("the other ranks");
  return Status(Code::kTimeout,
                nameOf(in_.rank) + ": " + what() + " has waited " + std::to_string(in_.timeoutMs) +
                    " ms for " + whom + ", having done " + std::to_string(stepsDone()) + " of " +
                    std::to_string(stepsTotal()) +
                    " steps; raise OMNES_TIMEOUT_MS if that is not long enough" + whoIsLate() +
                    "\nthe last operations of this rank:" + record_.text());
}

Status Execution::silentFailureOf(int32_t peer) {
  // The message names the cause, the board only a code: give the message time.
  if (!graceForMessage_) graceForMessage_ = Deadline::afterMs(clock(), kMessageGraceMs);
  if (!graceForMessage_->hasPassed(clock())) return Status::ok();
  const auto code = static_cast<Code>(boards().of(peer)->failure());
  return Status(Code::kRemoteError,
                what() + ": " + nameOf(peer) + " has failed (" + base::codeName(code) +
                    "); its message does not come, perhaps since the process that made the unique "
                    "id has ended");
}

}  // namespace omnes::core
