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
  const std::vector<NotedMessages> messages = std::exchange(messages_, {});
  const std::vector<JoinPlan> joins = std::exchange(joins_, {});
  const std::vector<omnesComm_t*> joined = std::exchange(joined_, {});
  OMNES_RETURN_IF_ERROR(std::exchange(refused_, Status::ok()));
  if (!joins.empty()) OMNES_RETURN_IF_ERROR(joinTogether(joins, joined));
  return noted.empty() && messages.empty() ? Status::ok() : startNoted(noted, messages);
}

namespace {

// The communicators of a group while it starts: none of them can end before all operations have
// their places.
class Entries {
 public:
  Status enter(omnesComm_t comm, uint64_t serial) {
    if (std::find(entered_.begin(), entered_.end(), comm) == entered_.end()) {
      entries_.push_back(std::make_unique<Entry>(comm));
      if (!entries_.back()->isIn()) return whyNotIn(comm);
      entered_.push_back(comm);
    }
    if (comm->serial != serial)
      return Status(Code::kInvalidUsage,
                    "a communicator of the group was destroyed before omnesGroupEnd");
    if (comm->isFinalized)
      return Status(Code::kInvalidUsage,
                    "a communicator of the group was finalized before omnesGroupEnd");
    return Status::ok();
  }

 private:
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<omnesComm_t> entered_;
};

}  // namespace

Status Group::startNoted(const std::vector<Noted>& noted,
                         const std::vector<NotedMessages>& messages) {
  core::Batch batch;
  {
    Entries entries;
    std::vector<core::Start> starts;
    for (const Noted& call : noted) {
      OMNES_RETURN_IF_ERROR(entries.enter(call.comm, call.serial));
      starts.push_back({call.comm->communicator.get(), call.pending, call.stream});
    }
    for (const NotedMessages& of : messages) {
      OMNES_RETURN_IF_ERROR(entries.enter(of.comm, of.serial));
      core::Communicator* communicator = of.comm->communicator.get();
      OMNES_ASSIGN_OR_RETURN(std::shared_ptr<core::Pending> pending,
                             communicator->makePendingMessages(
                                 {.collective = plan::Collective::kSendReceive}, of.messages));
      starts.push_back({communicator, std::move(pending), of.stream});
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

Status Group::noteMessage(omnesComm_t comm, const core::Message& message,
                          std::shared_ptr<core::Stream> stream) {
  const auto at = std::find_if(messages_.begin(), messages_.end(), [&](const NotedMessages& of) {
    return of.comm == comm && of.stream == stream;
  });
  if (at != messages_.end())
    at->messages.push_back(message);
  else
    messages_.push_back({comm, comm->serial, std::move(stream), {message}});
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
  const auto isOf = [comm](const auto& call) { return call.comm == comm; };
  const size_t dropped = std::erase_if(group.noted_, isOf) + std::erase_if(group.messages_, isOf);
  if (dropped > 0)
    group.refuse(Status(Code::kInvalidUsage,
                        "a communicator of the group was destroyed before omnesGroupEnd"));
}

}  // namespace omnes::api
