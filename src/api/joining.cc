#include "api/joining.h"

#include <poll.h>

#include <mutex>
#include <new>

#include "api/handle_store.h"

namespace omnes::api {
namespace {

using base::Code;
using base::Status;
using core::Communicator;

// Of the failures of ranks that join side by side, the one that says why: that others failed, or
// were ended for it, only echoes it.
class FirstCause {
 public:
  void add(const Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto isEcho = [](const Status& s) {
      return s.code() == Code::kRemoteError || s.code() == Code::kInvalidUsage;
    };
    if (status_.isOk() || (isEcho(status_) && !isEcho(status))) status_ = status;
  }
  // When all have ended.
  const Status& status() const { return status_; }

 private:
  std::mutex mutex_;
  Status status_;
};

Status joinCaught(const JoinPlan& plan, omnesComm_t* comm,
                  const std::shared_ptr<base::EventFd>& abort) {
  try {
    return joinNow(plan, comm, {abort, abort->fd()});
  } catch (const std::bad_alloc&) {
    return Status(Code::kSystemError, "out of memory");
  }
}

}  // namespace

JoinPlan planAt(core::bootstrap::MeetingPoint point, int32_t rank, int32_t nranks,
                core::CommSettings settings) {
  return {rank, nranks,
          [point = std::move(point), rank, nranks,
           settings = std::move(settings)](const core::AbortSignal& abort) {
            return Communicator::join(point, rank, nranks, settings, abort);
          }};
}

Status joinNow(const JoinPlan& plan, omnesComm_t* comm, const core::AbortSignal& abort) {
  OMNES_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> made, plan.make(abort));
  *comm = made == nullptr ? nullptr : makeHandle(std::move(made));
  return Status::ok();
}

Status joinTogether(const std::vector<JoinPlan>& plans, const std::vector<omnesComm_t*>& comms) {
  OMNES_ASSIGN_OR_RETURN(base::EventFd opened, base::EventFd::open());
  const auto abort = std::make_shared<base::EventFd>(std::move(opened));
  std::vector<omnesComm_t> made(plans.size(), nullptr);
  std::vector<base::Thread> threads;
  FirstCause first;
  // Nobody joins before all threads exist: a rank that could not be started would be waited for.
  enum : int { kWait, kGo, kLeave };
  std::atomic<int> gate{kWait};
  Status started;
  for (size_t i = 0; i < plans.size() && started.isOk(); ++i) {
    auto thread = base::Thread::start("omnes-init", [&, i] {
      // G1: pairs with G2.
      gate.wait(kWait, std::memory_order_acquire);
      if (gate.load(std::memory_order_acquire) != kGo) return;
      const Status result = joinCaught(plans[i], &made[i], abort);
      if (result.isOk()) return;
      first.add(result);
      abort->signal();
    });
    if (thread.isOk())
      threads.push_back(std::move(thread).value());
    else
      started = thread.status();
  }
  // G2: pairs with G1.
  gate.store(started.isOk() ? kGo : kLeave, std::memory_order_release);
  gate.notify_all();
  threads.clear();  // joins
  OMNES_RETURN_IF_ERROR(started);
  if (!first.status().isOk()) {
    for (omnesComm_t comm : made) omnesCommDestroy(comm);
    return first.status();
  }
  for (size_t i = 0; i < made.size(); ++i) *comms[i] = made[i];
  return Status::ok();
}

Status Joining::start(JoinPlan plan, omnesComm_t* comm) {
  OMNES_ASSIGN_OR_RETURN(base::EventFd abort, base::EventFd::open());
  std::shared_ptr<Joining> joining(new Joining(std::move(abort)));  // private constructor
  omnesComm_t handle = newHandle(plan.rank, plan.nranks);
  handle->magic.store(omnesComm::kJoining, std::memory_order_release);  // H1: pairs with H2
  const std::lock_guard<std::mutex> lock(handle->mutex);
  auto thread = base::Thread::start("omnes-init", [raw = joining.get(), plan = std::move(plan),
                                                   handle] { raw->run(plan, handle); });
  if (!thread.isOk()) {
    handle->magic.store(0, std::memory_order_release);  // H1: pairs with H2
    HandleStore<omnesComm>::instance().forget(handle);
    HandleStore<omnesComm>::instance().retire(handle);
    return thread.status();
  }
  joining->thread_ = std::move(thread).value();
  handle->joining = std::move(joining);
  *comm = handle;
  return Status(Code::kInProgress, "the ranks meet in the background");
}

void Joining::run(const JoinPlan& plan, omnesComm_t comm) {
  Status result;
  try {
    auto made = plan.make({abort_, abort_->fd()});
    result = made.status();
    const std::lock_guard<std::mutex> lock(comm->mutex);
    if (made.isOk()) {
      comm->communicator = std::move(made).value();
      comm->rank = comm->communicator->rank();
      comm->nranks = comm->communicator->nranks();
    }
  } catch (const std::bad_alloc&) {
    result = Status(Code::kSystemError, "out of memory");
  }
  {
    const std::lock_guard<std::mutex> lock(comm->mutex);
    comm->lost = result;
  }
  // H1: pairs with H2.
  comm->magic.store(result.isOk() ? omnesComm::kLive : omnesComm::kLost, std::memory_order_release);
  // J1: pairs with J2.
  isOver_.store(true, std::memory_order_release);
}

bool Joining::end(base::Duration limit) {
  abort_->signal();
  const base::Clock& clock = base::Clock::monotonic();
  const base::TimePoint end = clock.now() + limit;
  // J2: pairs with J1.
  while (!isOver_.load(std::memory_order_acquire)) {
    if (clock.now() >= end) return false;
    poll(nullptr, 0, 1);
  }
  thread_.join();
  return true;
}

}  // namespace omnes::api
