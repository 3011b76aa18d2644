#include "core/comm/communicator.h"

#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "base/cpus.h"
#include "base/floating_point.h"
#include "base/log.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Deadline;
using base::Result;
using base::Status;

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

Result<std::unique_ptr<Communicator>> Communicator::join(const bootstrap::MeetingPoint& point,
                                                         int32_t rank, int32_t nranks,
                                                         const CommSettings& settings) {
  const Deadline deadline = Deadline::afterMs(clock(), settings.initTimeoutMs);
  OMNES_ASSIGN_OR_RETURN(base::EventFd wake, base::EventFd::open());
  std::unique_ptr<Communicator> made(
      new Communicator(rank, nranks, settings, std::move(wake)));  // private
  OMNES_ASSIGN_OR_RETURN(made->wiring_, wire(point, rank, nranks, settings, deadline));
  OMNES_ASSIGN_OR_RETURN(made->liveness_,
                         Liveness::start({.rendezvous = made->wiring_.rendezvous.get(),
                                          .failure = &made->failure_,
                                          .wake = &made->wake_,
                                          .peers = &made->wiring_.peers,
                                          .links = &made->wiring_.links,
                                          .board = made->board(),
                                          .record = &made->execution_.record()}));
  made->execution_.surround({.rank = rank,
                             .timeoutMs = settings.timeoutMs,
                             .links = &made->wiring_.links,
                             .board = made->board(),
                             .peers = &made->wiring_.peers,
                             .liveness = made->liveness_.get(),
                             .failure = &made->failure_});
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

base::Board* Communicator::board() {
  base::Board* shared = wiring_.links.boardOf(rank_);
  return shared != nullptr ? shared : &ownBoard_;
}

Result<const Prepared*> Communicator::prepared(const Shape& shape) {
  if (const Prepared* found = cache_.find(shape)) [[likely]]
    return found;
  const LinkLookup links = [this](const transports::LinkShape& link) {
    return wiring_.links.open(link);
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
  const bool nonTemporal =
      settings_.nonTemporal == base::Choice::kOn ||
      (settings_.nonTemporal == base::Choice::kAuto && execution_.peersAreFar());
  Progress progress = execution_.start(*prepared, Call{shape, -1, ++sequence_}, buffers,
                                       reducer.scalarBits, nonTemporal);
  if (progress != Progress::kDone) {
    const Status status = drive(progress);
    if (!status.isOk()) [[unlikely]] {
      fail(status);
      return failure_.status();
    }
  }
  execution_.finish();
  return Status::ok();
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
      std::vector<pollfd> fds{{wake_.fd(), POLLIN, 0}};
      wiring_.links.addPollFds(&fds);
      waiter.sleep(&fds);
      if (fds[0].revents != 0) wake_.drain();
    }
  }
  return Status::ok();
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
