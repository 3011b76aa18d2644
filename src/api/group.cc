#include "api/group.h"

#include <algorithm>
#include <optional>

namespace omnes::api {

using base::Code;
using base::Status;

thread_local constinit int Group::depth_ = 0;

Group& Group::ofThisThread() {
  static thread_local Group group;
  return group;
}

void Group::start() {
  if (forkGeneration_ != base::forkGeneration()) {
    // A group that the parent of this process had open.
    *this = Group();
    depth_ = 0;
    forkGeneration_ = base::forkGeneration();
  }
  ++depth_;
}

Status Group::end() {
  if (depth_ == 0)
    return Status(Code::kInvalidUsage, "omnesGroupEnd without an omnesGroupStart in this thread");
  if (forkGeneration_ != base::forkGeneration()) {
    *this = Group();
    depth_ = 0;
    return Status(Code::kInvalidUsage, "the group was started before a fork");
  }
  if (--depth_ > 0) return Status::ok();
  // Whatever happens, the next group starts empty.
  const std::vector<Noted> noted = std::exchange(noted_, {});
  const std::vector<JoinPlan> joins = std::exchange(joins_, {});
  const std::vector<omnesComm_t*> joined = std::exchange(joined_, {});
  OMNES_RETURN_IF_ERROR(std::exchange(refused_, Status::ok()));
  if (!joins.empty()) OMNES_RETURN_IF_ERROR(joinTogether(joins, joined));
  return noted.empty() ? Status::ok() : startNoted(noted);
}

Status Group::startNoted(const std::vector<Noted>& noted) {
  core::Batch batch;
  {
    // None of the communicators can end before all operations have their places.
    std::vector<std::unique_ptr<Entry>> entries;
    std::vector<omnesComm_t> entered;
    std::vector<core::Start> starts;
    for (const Noted& call : noted) {
      if (std::find(entered.begin(), entered.end(), call.comm) == entered.end()) {
        entries.push_back(std::make_unique<Entry>(call.comm));
        if (!entries.back()->isIn()) return whyNotIn(call.comm);
        entered.push_back(call.comm);
      }
      if (call.comm->serial != call.serial)
        return Status(Code::kInvalidUsage,
                      "a communicator of the group was destroyed before omnesGroupEnd");
      if (call.comm->isFinalized)
        return Status(Code::kInvalidUsage,
                      "a communicator of the group was finalized before omnesGroupEnd");
      starts.push_back({call.comm->communicator.get(), call.pending, call.stream});
    }
    OMNES_ASSIGN_OR_RETURN(batch, core::enqueueTogether(std::move(starts)));
  }
  return core::finishTogether(batch);
}

Status Group::noteOperation(omnesComm_t comm, std::shared_ptr<core::Pending> pending,
                            std::shared_ptr<core::Stream> stream) {
  noted_.push_back({comm, comm->serial, std::move(pending), std::move(stream)});
  return Status::ok();
}

Status Group::noteJoin(JoinPlan plan, omnesComm_t* comm) {
  joins_.push_back(std::move(plan));
  joined_.push_back(comm);
  return Status::ok();
}

void Group::refuse(const Status& status) {
  if (refused_.isOk()) refused_ = status;
}

void Group::dropFromThis(omnesComm_t comm) {
  if (!isOpen()) return;
  Group& group = ofThisThread();
  const size_t dropped =
      std::erase_if(group.noted_, [comm](const Noted& call) { return call.comm == comm; });
  if (dropped > 0)
    group.refuse(Status(Code::kInvalidUsage,
                        "a communicator of the group was destroyed before omnesGroupEnd"));
}

}  // namespace omnes::api
