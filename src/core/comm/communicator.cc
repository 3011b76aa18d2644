#include "core/comm/communicator.h"

#include <poll.h>

#include <algorithm>
#include <vector>

#include "base/cpus.h"
#include "base/floating_point.h"
#include "base/log.h"
#include "core/comm/placement.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Deadline;
using base::Result;
using base::Status;

const base::Clock& clock() { return base::Clock::monotonic(); }

// A poll of network links is a system call, at the least.
constexpr double kNetworkPollNs = 400;

// Equal on the ranks of one communicator, and on no other: every rank listens at an address of its
// own for each communicator.
std::string familyKey(const bootstrap::MeetingPoint& point, const std::vector<PeerInfo>& peers) {
  std::string key = std::to_string(point.commId);
  for (const PeerInfo& peer : peers) key += "\n" + peer.channel;
  return key;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::join(const bootstrap::MeetingPoint& point,
                                                         int32_t rank, int32_t nranks,
                                                         const CommSettings& settings,
                                                         AbortSignal abort, bool* mayHaveFormed) {
  const Deadline deadline = Deadline::afterMs(clock(), settings.initTimeoutMs);
  // What may be lacking for reasons of this rank's own comes before the others count on it.
  OMNES_ASSIGN_OR_RETURN(const std::shared_ptr<Service> service, Service::get());
  OMNES_ASSIGN_OR_RETURN(base::EventFd wake, base::EventFd::open());
  std::unique_ptr<Communicator> made(
      new Communicator(rank, nranks, settings, std::move(wake)));  // private
  made->joinAbort_ = std::move(abort);
  OMNES_ASSIGN_OR_RETURN(made->wiring_, wire(point, rank, nranks, settings, deadline,
                                             made->joinAbort_.fd, mayHaveFormed));
  OMNES_ASSIGN_OR_RETURN(made->roster_,
                         Roster::make({.secret = point.peerSecret(),
                                       .commId = point.commId,
                                       .rank = rank,
                                       .peers = made->wiring_.peers,
                                       .addresses = std::move(made->wiring_.addresses),
                                       .listener = std::move(made->wiring_.listener)}));
  made->family_ = Family::of(familyKey(point, made->wiring_.peers),
                             made->wiring_.rendezvous->ranksInProcessOf(made->rank_));
  made->member_ = made->family_->memberOf(rank);
  OMNES_ASSIGN_OR_RETURN(made->liveness_,
                         Liveness::start({.rendezvous = made->wiring_.rendezvous.get(),
                                          .failure = &made->failure_,
                                          .wake = &made->wake_,
                                          .peers = &made->wiring_.peers,
                                          .links = &made->wiring_.links,
                                          .board = made->board(),
                                          .record = &made->execution_.record(),
                                          .roster = made->roster_.get()}));
  made->execution_.surround({.rank = rank,
                             .timeoutMs = settings.timeoutMs,
                             .links = &made->wiring_.links,
                             .board = made->board(),
                             .peers = &made->wiring_.peers,
                             .liveness = made->liveness_.get(),
                             .failure = &made->failure_});
  const std::vector<PeerInfo>& peers = made->wiring_.peers;
  made->job_ = {.nranks = nranks,
                .usesNetwork = usesNetwork(peers, settings.transports),
                .sharesCores = anyShareCores(peers),
                .hierarchy = hierarchyOf(peers)};
  const bool shares = sharesCores(peers, rank, base::usableCores());
  const double pollNs =
      base::pauseNanoseconds() + (made->wiring_.links.needsProgress() ? kNetworkPollNs : 0);
  made->waitPolicy_ = base::WaitPolicy::choose(shares ? 2 : 1, 1, settings.spinPolls, pollNs);
  OMNES_LOG_INFO(Init,
                 "rank %d of %d ready; waits spin %u polls and yield %u times before they sleep",
                 rank, nranks, made->waitPolicy_.spinPolls, made->waitPolicy_.yields);
  return made;
}

Communicator::Communicator(int32_t rank, int32_t nranks, const CommSettings& settings,
                           base::EventFd wake)
    : rank_(rank),
      nranks_(nranks),
      settings_(settings),
      wake_(std::move(wake)),
      channels_(&wiring_.links, nranks),
      sequence_(std::make_shared<Sequence>(this)) {}

Communicator::~Communicator() {
  close(Status(Code::kInvalidUsage, "the communicator was destroyed"));
  // First nobody listens any more: the end of the control connection is then no news.
  liveness_.reset();
  if (roster_) roster_->end();
  if (wiring_.rendezvous) wiring_.rendezvous->goodbye();
}

base::Board* Communicator::board() {
  base::Board* shared = wiring_.links.boardOf(rank_);
  return shared != nullptr ? shared : &ownBoard_;
}

Result<const OperationCache::Pointer*> Communicator::prepared(const Shape& shape) {
  if (const OperationCache::Pointer* found = cache_.find(shape)) [[likely]]
    return found;
  return prepareNew(shape);
}

Result<const OperationCache::Pointer*> Communicator::prepareNew(const Shape& shape) {
  OMNES_ASSIGN_OR_RETURN(Prepared made, prepareBy(shape, shape, nullptr));
  return cache_.insert(std::move(made));
}

Result<const OperationCache::Pointer*> Communicator::preparedVector(const Shape& shape,
                                                                    const VectorLayout& layout) {
  if (const OperationCache::Pointer* found = vectorCache_.find(shape, layout)) return found;
  Shape even = shape;
  even.collective = shape.collective == plan::Collective::kAllGatherV
                        ? plan::Collective::kAllGather
                        : plan::Collective::kReduceScatter;
  even.count = *std::max_element(layout.counts.begin(), layout.counts.end());
  OMNES_ASSIGN_OR_RETURN(Prepared made, prepareBy(shape, even, &layout));
  return vectorCache_.insert(std::move(made), layout);
}

Result<Prepared> Communicator::prepareBy(const Shape& shape, const Shape& even,
                                         const VectorLayout* layout) {
  // Links are opened here, and used by drivers.
  const auto undriven = sequence_->stopDrivers();
  const LinkLookup links = [this](const transports::LinkShape& link) {
    return wiring_.links.open(link);
  };
  Status last(Code::kNotSupported, "no algorithm does this");
  const Candidates choice = candidates(settings_.rules, even, job_);
  for (size_t i = 0; i < choice.algorithms.size(); ++i) {
    const algorithms::Algorithm* algorithm = choice.algorithms[i];
    auto made = prepare(algorithm->make(job_.request(rank_, shape.root)), shape, links, layout);
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
    if (i >= choice.asked)
      tellFallback(shape.collective, algorithm->name,
                   choice.asked == 0 ? choice.refused : std::string(last.message()));
    OMNES_LOG_INFO(Tuning, "rank %d: %s of %llu %s by %.*s in %llu slices%s%s", rank_,
                   plan::nameOf(shape.collective), static_cast<unsigned long long>(shape.count),
                   base::nameOf(shape.type).data(), static_cast<int>(algorithm->name.size()),
                   algorithm->name.data(), static_cast<unsigned long long>(made->slices),
                   choice.refused.empty() ? "" : "; ", choice.refused.c_str());
    return made;
  }
  return last;
}

void Communicator::tellFallback(plan::Collective collective, std::string_view algorithm,
                                const std::string& reason) {
  const uint32_t bit = uint32_t{1} << static_cast<unsigned>(collective);
  if (rank_ != 0 || (fallbacksTold_ & bit) != 0) return;
  fallbacksTold_ |= bit;
  OMNES_LOG_WARN(Tuning, "%s by %.*s instead of what was asked for: %s", plan::nameOf(collective),
                 static_cast<int>(algorithm.size()), algorithm.data(), reason.c_str());
}

Status Communicator::run(const Shape& shape, const Reducer& reducer, const CallBuffers& buffers) {
  if (failure_.isSet()) [[unlikely]]
    return failure_.status();
  OMNES_ASSIGN_OR_RETURN(const OperationCache::Pointer* prepared, this->prepared(shape));
  return runPrepared(**prepared, Call{shape, nextNumber(shape.collective)}, buffers,
                     reducer.scalarBits);
}

Status Communicator::runVector(const Shape& shape, const Reducer& reducer,
                               const CallBuffers& buffers, const VectorLayout& layout) {
  OMNES_RETURN_IF_ERROR(failure_.status());
  OMNES_ASSIGN_OR_RETURN(const OperationCache::Pointer* prepared, preparedVector(shape, layout));
  return runPrepared(**prepared, Call{shape, nextNumber(shape.collective), hashOf(layout.counts)},
                     buffers, reducer.scalarBits);
}

Status Communicator::runPrepared(const Prepared& prepared, const Call& call,
                                 const CallBuffers& buffers, uint64_t scalarBits) {
  const base::ScopedFloatingPointMode mode;
  const Progress progress =
      execution_.start(prepared, call, buffers, scalarBits, storesNonTemporally());
  return end(progress);
}

Status Communicator::end(Progress progress) {
  member_->note(sequenceNumber_);
  member_->noteBegun(calls_);
  if (progress != Progress::kDone) {
    const Status status = drive(progress);
    if (!status.isOk()) [[unlikely]] {
      fail(status);
      noteCompleted();
      return failure_.status();
    }
  }
  execution_.finish();
  noteCompleted();
  return Status::ok();
}

Status Communicator::runMessages(const Shape& shape, std::span<const Message> messages) {
  OMNES_RETURN_IF_ERROR(failure_.status());
  OMNES_RETURN_IF_ERROR(prepareMessages(shape, messages, &inlineMessages_));
  const Call call{shape, nextNumber(shape.collective)};
  return end(execution_.startMessages(&inlineMessages_, call, storesNonTemporally()));
}

Status Communicator::prepareMessages(const Shape& shape, std::span<const Message> messages,
                                     MessageSet* set) {
  for (const Message& message : messages) {
    if (message.peer == rank_ || channels_.find(message.isSend, message.peer) != nullptr) continue;
    // Links are opened here, and used by drivers.
    const auto undriven = sequence_->stopDrivers();
    OMNES_RETURN_IF_ERROR(channels_.open(message.isSend, message.peer));
  }
  return set->prepare(shape.collective, rank_, messages, &channels_);
}

bool Communicator::storesNonTemporally() {
  return settings_.nonTemporal == base::Choice::kOn ||
         (settings_.nonTemporal == base::Choice::kAuto && execution_.peersAreFar());
}

Result<std::shared_ptr<Pending>> Communicator::makePending(const Shape& shape,
                                                           const Reducer& reducer,
                                                           const CallBuffers& buffers) {
  OMNES_ASSIGN_OR_RETURN(const OperationCache::Pointer* prepared, this->prepared(shape));
  std::shared_ptr<Pending> pending = pendingOf(shape);
  pending->prepared = *prepared;
  pending->buffers = buffers;
  pending->scalarBits = reducer.scalarBits;
  return pending;
}

Result<std::shared_ptr<Pending>> Communicator::makePendingVector(const Shape& shape,
                                                                 const Reducer& reducer,
                                                                 const CallBuffers& buffers,
                                                                 const VectorLayout& layout) {
  OMNES_ASSIGN_OR_RETURN(const OperationCache::Pointer* prepared, preparedVector(shape, layout));
  std::shared_ptr<Pending> pending = pendingOf(shape);
  pending->prepared = *prepared;
  pending->call.counts = hashOf(layout.counts);
  pending->buffers = buffers;
  pending->scalarBits = reducer.scalarBits;
  return pending;
}

Result<std::shared_ptr<Pending>> Communicator::makePendingMessages(
    const Shape& shape, std::span<const Message> messages) {
  std::shared_ptr<Pending> pending = pendingOf(shape);
  pending->messages = std::make_unique<MessageSet>();
  OMNES_RETURN_IF_ERROR(prepareMessages(shape, messages, pending->messages.get()));
  return pending;
}

std::shared_ptr<Pending> Communicator::pendingOf(const Shape& shape) {
  auto pending = std::make_shared<Pending>();
  pending->sequence = sequence_;
  pending->call.shape = shape;
  pending->waitPolicy = waitPolicy_;
  return pending;
}

void Communicator::enqueue(const std::shared_ptr<Pending>& pending) {
  pending->call.sequence = nextNumber(pending->call.shape.collective);
  // Before the sequence has it, or it might end before it begins.
  member_->noteBegun(calls_);
  member_->noteEnqueued(sequenceNumber_);
  sequence_->add(pending);
}

Status Communicator::drive(Progress progress) {
  Waiter waiter(waitPolicy_);
  for (; progress != Progress::kDone; progress = execution_.poll()) {
    if (progress == Progress::kFailed) return execution_.failure();
    if (failure_.isSet()) [[unlikely]]
      return failure_.status();
    if (progress == Progress::kMoved) {
      waiter.reset();
      continue;
    }
    if (waiter.miss()) [[unlikely]]
      OMNES_RETURN_IF_ERROR(execution_.look());
    if (waiter.shouldSleep()) {
      OMNES_RETURN_IF_ERROR(lookForThreads());
      std::vector<pollfd> fds;
      addPollFds(&fds);
      waiter.sleep(&fds);
      if (fds[0].revents != 0) drainWake();
    }
  }
  return Status::ok();
}

void Communicator::addPollFds(std::vector<pollfd>* fds) const {
  fds->push_back({wake_.fd(), POLLIN, 0});
  wiring_.links.addPollFds(fds);
}

Status Communicator::lookForThreads() {
  if (!family_->hasSeveral()) return Status::ok();
  const uint64_t sequence = execution_.call().sequence;
  // Relaxed: written by whoever drives, which is this thread now.
  const uint64_t now = completed_.load(std::memory_order_relaxed) + 1;
  if (lookedFor_ != now) {
    lookedFor_ = now;
    lookStart_ = clock().now();
    looks_ = 0;
  }
  // Reading /proc is dear: at the first look, then ever more rarely, but every 256 naps.
  const uint32_t look = looks_++;
  if ((look & (look - 1)) != 0 && look % 256 != 0) return Status::ok();
  if (execution_.call().shape.collective == plan::Collective::kSendReceive) {
    const MessageSet* messages = execution_.messages();
    const auto isAwaited = [messages](int32_t rank) { return messages->waitsFor(rank); };
    return family_->judgeMessages(rank_, isAwaited, lookStart_);
  }
  // Every collective of this version needs a call of every rank.
  return family_->judge(rank_, sequence, lookStart_);
}

void Communicator::fail(const Status& cause) {
  // First, since it takes no memory: for those whom no message reaches.
  board()->fail(static_cast<uint32_t>(cause.code()));
  liveness_->fail(settings_.name.empty() ? cause
                                         : cause.withContext("communicator " + settings_.name));
}

void Communicator::abort() {
  fail(
      Status(Code::kRemoteError, wiring_.peers[rank_].nameAs(rank_) + " aborted the communicator"));
  roster_->end();
  close(failure_.status());
}

void Communicator::revoke(const std::string& reason) {
  fail(Status(Code::kInvalidUsage, wiring_.peers[rank_].nameAs(rank_) + " " + reason));
  close(failure_.status());
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
