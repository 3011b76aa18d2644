#include "core/comm/communicator.h"

#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/cpus.h"
#include "base/floating_point.h"
#include "base/log.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Deadline;
using base::Result;
using base::Status;

// Peers do not wake a sleeper in this version: it looks again after a nap. Each nap is an eighth
// longer than the one before, up to the most, so that sleeping makes a wait at most about an eighth
// longer.
constexpr int64_t kLeastNapNs = 20'000;
constexpr int64_t kMostNapNs = 1'000'000;
constexpr int64_t kMessageGraceMs = 200;

const base::Clock& clock() { return base::Clock::monotonic(); }

// Makes the stores of other threads of this process visible, and ours to them, as if each had
// executed a full fence. Lets run() announce itself with a plain store: the rare abort() pays
// instead of every call.
void fenceAllThreads() {
  static const bool registered =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  if (registered && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) return;
  // No such call here: a store buffer drains within nanoseconds; a millisecond is for ever.
  poll(nullptr, 0, 1);
}

}  // namespace

// Says that a thread is inside run().
class Communicator::Inside {
 public:
  explicit Inside(std::atomic<bool>* flag) : flag_(flag) {
    // Relaxed: fenceAllThreads() in abort orders it against the failure word.
    flag_->store(true, std::memory_order_relaxed);
  }
  // I1: pairs with I2 in waitUntilIdle and I3 in isBusy: the call is done with everything.
  ~Inside() { flag_->store(false, std::memory_order_release); }

 private:
  std::atomic<bool>* flag_;
};

struct Communicator::Waiting {
  explicit Waiting(base::WaitPolicy policy) : ladder(policy) {}
  base::WaitLadder ladder;
  std::optional<Deadline>
      deadline;  // set at the first slow look, so that a fast call reads no clock
  std::optional<Deadline> graceForMessage;
  int64_t napNs = kLeastNapNs;
};

Result<std::unique_ptr<Communicator>> Communicator::join(const bootstrap::MeetingPoint& point,
                                                         int32_t rank, int32_t nranks,
                                                         const CommSettings& settings) {
  const Deadline deadline = Deadline::afterMs(clock(), settings.initTimeoutMs);
  OMNES_ASSIGN_OR_RETURN(base::EventFd wake, base::EventFd::open());
  std::unique_ptr<Communicator> made(
      new Communicator(rank, nranks, settings, std::move(wake)));  // private
  OMNES_ASSIGN_OR_RETURN(made->wiring_, wire(point, rank, nranks, settings, deadline));
  OMNES_ASSIGN_OR_RETURN(made->liveness_,
                         Liveness::start(made->wiring_.rendezvous.get(), &made->failure_,
                                         &made->wake_, &made->wiring_.peers));
  const bool shares = sharesCores(made->wiring_.peers, rank, base::usableCores());
  made->waitPolicy_ =
      base::WaitPolicy::choose(shares ? 2 : 1, 1, settings.spinPolls, base::pauseNanoseconds());
  OMNES_LOG_INFO(Init,
                 "rank %d of %d ready; waits spin %u polls and yield %u times before they sleep",
                 rank, nranks, made->waitPolicy_.spinPolls, made->waitPolicy_.yields);
  return made;
}

Communicator::Communicator(int32_t rank, int32_t nranks, const CommSettings& settings,
                           base::EventFd wake)
    : rank_(rank), nranks_(nranks), settings_(settings), wake_(std::move(wake)) {}

Communicator::~Communicator() {
  // First nobody listens any more: the end of the control connection is then no news.
  liveness_.reset();
  if (wiring_.rendezvous) wiring_.rendezvous->goodbye();
}

const base::Board* Communicator::boardOf(int32_t rank) const {
  return wiring_.endpoint->boards != nullptr ? wiring_.endpoint->boards[rank] : nullptr;
}

Result<const Prepared*> Communicator::prepared(const Shape& shape) {
  if (const Prepared* found = cache_.find(shape)) [[likely]]
    return found;
  transports::Endpoint* endpoint = wiring_.endpoint.get();
  const LinkLookup links =
      [endpoint](const transports::LinkShape& link) -> Result<transports::Link*> {
    transports::Link* opened = nullptr;
    if (endpoint->table->openLink(endpoint, &link, &opened) != transports::Outcome::kOk)
      return Status(Code::kNotSupported, endpoint->error);
    return opened;
  };
  Status last(Code::kNotSupported, "no algorithm does this");
  for (const algorithms::Algorithm* algorithm : candidates(settings_.rules, shape, nranks_)) {
    auto made = prepare(algorithm->make({.rank = rank_, .nranks = nranks_}), shape, links);
    if (!made.isOk()) {
      last = made.status();
      OMNES_LOG_INFO(Tuning, "rank %d: %s of %llu %s not by %.*s: %.*s", rank_,
                     plan::nameOf(shape.collective), static_cast<unsigned long long>(shape.count),
                     base::nameOf(shape.type).data(), static_cast<int>(algorithm->name.size()),
                     algorithm->name.data(), static_cast<int>(last.message().size()),
                     last.message().data());
      continue;
    }
    made->algorithm = algorithm->name;
    OMNES_LOG_INFO(Tuning, "rank %d: %s of %llu %s by %.*s in %llu slices", rank_,
                   plan::nameOf(shape.collective), static_cast<unsigned long long>(shape.count),
                   base::nameOf(shape.type).data(), static_cast<int>(algorithm->name.size()),
                   algorithm->name.data(), static_cast<unsigned long long>(made->slices));
    return cache_.insert(std::move(made).value());
  }
  return last;
}

Status Communicator::run(const Shape& shape, const Reducer& reducer, const CallBuffers& buffers) {
  const Inside inside(&inside_);
  if (failure_.isSet()) [[unlikely]]
    return failure_.status();
  OMNES_ASSIGN_OR_RETURN(const Prepared* prepared, this->prepared(shape));
  const base::ScopedFloatingPointMode mode;
  const Call call{shape, -1, ++sequence_};
  const uint64_t fingerprint = fingerprintOf(call);
  const bool nonTemporal =
      settings_.nonTemporal == base::Choice::kOn ||
      (settings_.nonTemporal == base::Choice::kAuto && operation_.lineLatency().isFar());
  operation_.start(*prepared, buffers, fingerprint, reducer.scalarBits, nonTemporal);
  const Status status = complete(call, fingerprint);
  if (status.isOk()) [[likely]]
    return status;
  fail(status);
  return failure_.status();
}

Status Communicator::complete(const Call& call, uint64_t fingerprint) {
  Progress progress = operation_.advance();
  // Only now: what stands before the first chunk leaves delays every other rank.
  base::Board* board = const_cast<base::Board*>(boardOf(rank_));
  if (board != nullptr) board->enter(boardEntryOf(call, fingerprint));
  record_.begin(call, operation_.prepared());
  if (progress != Progress::kDone) {
    Waiting waiting(waitPolicy_);
    while (progress != Progress::kDone) {
      if (progress == Progress::kFailed) return failureOf(call, operation_.failure());
      if (progress == Progress::kMoved) waiting.ladder.reset();
      OMNES_RETURN_IF_ERROR(waitOnce(call, fingerprint, &waiting));
      progress = operation_.advance();
    }
  }
  record_.finish();
  if (board != nullptr) board->finish(call.sequence);
  return Status::ok();
}

Status Communicator::waitOnce(const Call& call, uint64_t fingerprint, Waiting* waiting) {
  if (failure_.isSet()) [[unlikely]]
    return failure_.status();
  const base::WaitLadder::Stage stage = waiting->ladder.next();
  if (waiting->ladder.timeToCheck()) [[unlikely]]
    OMNES_RETURN_IF_ERROR(checkPeers(call, fingerprint, waiting));
  if (stage == base::WaitLadder::Stage::kSleep) {
    pollfd wakeUp{wake_.fd(), POLLIN, 0};
    const timespec nap{0, static_cast<long>(waiting->napNs)};
    if (ppoll(&wakeUp, 1, &nap, nullptr) > 0) wake_.drain();
    waiting->napNs = std::min(waiting->napNs + waiting->napNs / 8, kMostNapNs);
  } else {
    waiting->napNs = kLeastNapNs;
  }
  return Status::ok();
}

Status Communicator::checkPeers(const Call& call, uint64_t fingerprint, Waiting* waiting) {
  if (!waiting->deadline) waiting->deadline = Deadline::afterMs(clock(), settings_.timeoutMs);
  if (waiting->deadline->hasPassed(clock())) return timeoutOf(call);
  for (int32_t peer = 0; peer < nranks_; ++peer) {
    if (peer == rank_ || boardOf(peer) == nullptr) continue;
    const auto entry = boardOf(peer)->read();
    if (entry && entry->sequence == call.sequence && entry->fingerprint != fingerprint)
      return mismatchWith(call, peer);
    if (boardOf(peer)->failure() != 0) OMNES_RETURN_IF_ERROR(silentFailureOf(call, peer, waiting));
  }
  const int32_t peer = operation_.waitingFor();
  if (peer >= 0 && peer != rank_ && liveness_->hasLeft(peer)) {
    // Its last chunks may have come in before its goodbye.
    if (operation_.advance() != Progress::kStuck || operation_.waitingFor() != peer)
      return Status::ok();
    return Status(Code::kRemoteError, describe(call) + " needs " +
                                          wiring_.peers[peer].nameAs(peer) +
                                          ", which has destroyed its communicator");
  }
  return Status::ok();
}

Status Communicator::failureOf(const Call& call, const OperationFailure& failure) {
  switch (failure.kind) {
    case OperationFailure::Kind::kMismatch: return mismatchWith(call, failure.peer);
    case OperationFailure::Kind::kPeerGone:
      return Status(Code::kRemoteError, describe(call) + ": " + failure.text);
    case OperationFailure::Kind::kTransport: break;
  }
  return Status(Code::kSystemError, describe(call) + ": " + failure.text);
}

Status Communicator::mismatchWith(const Call& call, int32_t peer) const {
  std::string theirs = "something else";
  // The peer writes its board right after its first chunk: give it a moment.
  for (int look = 0; look < 1000 && boardOf(peer) != nullptr; ++look) {
    const auto entry = boardOf(peer)->read();
    if (entry && entry->sequence >= call.sequence) {
      theirs = describe(*entry);
      break;
    }
    sched_yield();
  }
  const std::string mine = describe(call);
  const std::string hint =
      theirs == mine ? " in chunks of another size: check that all ranks have the same settings"
                     : "; all ranks must call the same operations in the same order";
  return Status(Code::kInvalidUsage, wiring_.peers[rank_].nameAs(rank_) + " called " + mine +
                                         " but " + wiring_.peers[peer].nameAs(peer) + " called " +
                                         theirs + hint);
}

std::string Communicator::whoIsLate(const Call& call) const {
  std::string out;
  for (int32_t peer = 0; peer < nranks_; ++peer) {
    if (peer == rank_ || boardOf(peer) == nullptr) continue;
    const auto entry = boardOf(peer)->read();
    if (!entry || entry->sequence >= call.sequence) continue;
    out += "\n  " + wiring_.peers[peer].nameAs(peer) + " has not entered it; ";
    out += entry->sequence == 0 ? "it has entered no operation yet"
                                : "its last operation was " + describe(*entry);
  }
  return out;
}

Status Communicator::timeoutOf(const Call& call) const {
  const int32_t peer = operation_.waitingFor();
  const std::string whom = peer >= 0 && peer != rank_ ? wiring_.peers[peer].nameAs(peer)
                                                      : std::string("the other ranks");
  return Status(Code::kTimeout,
                wiring_.peers[rank_].nameAs(rank_) + ": " + describe(call) + " has waited " +
                    std::to_string(settings_.timeoutMs) + " ms for " + whom + ", having done " +
                    std::to_string(operation_.stepsDone()) + " of " +
                    std::to_string(operation_.stepsTotal()) +
                    " steps; raise OMNES_TIMEOUT_MS if that is not long enough" + whoIsLate(call) +
                    "\nthe last operations of this rank:" + record_.text());
}

Status Communicator::silentFailureOf(const Call& call, int32_t peer, Waiting* waiting) const {
  // The message names the cause, the board only a code: give the message time.
  if (!waiting->graceForMessage)
    waiting->graceForMessage = Deadline::afterMs(clock(), kMessageGraceMs);
  if (!waiting->graceForMessage->hasPassed(clock())) return Status::ok();
  const auto code = static_cast<Code>(boardOf(peer)->failure());
  return Status(Code::kRemoteError,
                describe(call) + ": " + wiring_.peers[peer].nameAs(peer) + " has failed (" +
                    base::codeName(code) +
                    "); its message does not come, perhaps since the process that made the unique "
                    "id has ended");
}

void Communicator::fail(const Status& cause) {
  // First, since it takes no memory: for those whom no message reaches.
  if (wiring_.endpoint->boards != nullptr)
    wiring_.endpoint->boards[rank_]->fail(static_cast<uint32_t>(cause.code()));
  liveness_->fail(settings_.name.empty() ? cause
                                         : cause.withContext("communicator " + settings_.name));
}

void Communicator::abort() {
  fail(
      Status(Code::kRemoteError, wiring_.peers[rank_].nameAs(rank_) + " aborted the communicator"));
}

bool Communicator::waitUntilIdle(base::Duration limit) const {
  fenceAllThreads();
  const base::TimePoint end = clock().now() + limit;
  // I2: pairs with I1.
  while (inside_.load(std::memory_order_acquire)) {
    if (clock().now() >= end) return false;
    wake_.signal();
    poll(nullptr, 0, 1);
  }
  return true;
}

int32_t Communicator::createOperator(base::DataType type, uint64_t scalarBits) {
  operators_.push_back({type, scalarBits, true});
  return static_cast<int32_t>(operators_.size()) - 1;
}

Status Communicator::destroyOperator(int32_t index) {
  if (index < 0 || index >= static_cast<int32_t>(operators_.size()) || !operators_[index].isLive)
    return Status(Code::kInvalidArgument,
                  "the operator was not created on this communicator, or was destroyed");
  operators_[index].isLive = false;
  return Status::ok();
}

Result<Reducer> Communicator::findOperator(int32_t index, base::DataType type) const {
  if (index < 0 || index >= static_cast<int32_t>(operators_.size()) || !operators_[index].isLive)
    return Status(Code::kInvalidArgument,
                  "the operator was not created on this communicator, or was destroyed");
  const Operator& found = operators_[index];
  if (found.type != type)
    return Status(Code::kInvalidArgument, "the operator was created for " +
                                              std::string(base::nameOf(found.type)) + ", not for " +
                                              std::string(base::nameOf(type)));
  return Reducer{base::ReduceOp::kPreMulSum, found.scalarBits};
}

}  // namespace omnes::core
