// Making communicators.
#include <cstring>
#include <vector>

#include "api/boundary.h"
#include "api/joining.h"
#include "api/wish.h"
#include "base/config.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/meeting_host.h"
#include "core/bootstrap/meeting_point.h"
#include "core/bootstrap/pmix_meeting.h"

namespace {

using omnes::api::guard;
using omnes::api::guardInit;
using omnes::api::JoinPlan;
using omnes::api::readEnvironment;
using omnes::api::readWish;
using omnes::api::Wish;
using omnes::base::Code;
using omnes::base::Config;
using omnes::base::Result;
using omnes::base::Status;
namespace bootstrap = omnes::core::bootstrap;

Result<JoinPlan> planWithId(int nranks, const omnesUniqueId& id, int rank, Wish wish) {
  uint8_t bytes[bootstrap::kUniqueIdBytes];
  std::memcpy(bytes, id.internal, sizeof bytes);
  OMNES_ASSIGN_OR_RETURN(bootstrap::MeetingPoint point,
                         bootstrap::MeetingPoint::fromUniqueId(bytes));
  return omnes::api::planAt(std::move(point), rank, nranks, std::move(wish.settings));
}

Result<bootstrap::HostedId> hostId(bool isLocal, omnesUniqueId* uniqueId) {
  OMNES_ASSIGN_OR_RETURN(const Config config, readEnvironment());
  const bootstrap::NetworkOptions network{config.interfaces.value, config.portRange.value, ""};
  OMNES_ASSIGN_OR_RETURN(bootstrap::HostedId made, bootstrap::makeHostedId({isLocal, network, ""}));
  std::memcpy(uniqueId->internal, made.id.data(), made.id.size());
  return made;
}

Status joinAll(omnesComm_t* comms, int nranks) {
  if (comms == nullptr) return Status(Code::kInvalidArgument, "comms is NULL");
  OMNES_RETURN_IF_ERROR(omnes::api::checkRank(nranks, 0));
  OMNES_ASSIGN_OR_RETURN(const Config environment, readEnvironment());
  OMNES_ASSIGN_OR_RETURN(const Wish wish, readWish(environment, nullptr));
  omnesUniqueId id;
  OMNES_ASSIGN_OR_RETURN(const bootstrap::HostedId hosted, hostId(true, &id));
  std::vector<JoinPlan> plans;
  std::vector<omnesComm_t*> places;
  for (int rank = 0; rank < nranks; ++rank) {
    OMNES_ASSIGN_OR_RETURN(JoinPlan plan, planWithId(nranks, id, rank, wish));
    plans.push_back(std::move(plan));
    places.push_back(comms + rank);
  }
  const Status joined = omnes::api::joinTogether(plans, places);
  // Nobody else has the id, so that its host would wait for ever for ranks that have given up.
  if (!joined.isOk()) hosted.host->stop();
  return joined;
}

Status joinByEnvironment(omnesComm_t* comm, const omnesConfig_t* config) {
  if (comm == nullptr) return Status(Code::kInvalidArgument, "comm is NULL");
  OMNES_ASSIGN_OR_RETURN(const Config environment, readEnvironment());
  OMNES_ASSIGN_OR_RETURN(Wish wish, readWish(environment, config));
  const omnes::base::LauncherVariables launcher = omnes::base::launcherVariables();
  OMNES_ASSIGN_OR_RETURN(bootstrap::LaunchInfo info,
                         bootstrap::readLaunchInfo(environment, launcher));
  const omnes::base::Clock& clock = omnes::base::Clock::monotonic();
  const bootstrap::WaitLimits limits{
      omnes::base::Deadline::afterMs(clock, wish.settings.initTimeoutMs), &clock};
  OMNES_ASSIGN_OR_RETURN(bootstrap::MeetingPoint point,
                         bootstrap::findMeetingPoint(environment, launcher, info, limits));
  wish.settings = wish.settings.withTimeLeft(limits.deadline, clock);
  const bool blocking = wish.settings.blocking;
  return omnes::api::join(
      omnes::api::planAt(std::move(point), static_cast<int32_t>(info.rank),
                         static_cast<int32_t>(info.nranks), std::move(wish.settings)),
      blocking, comm);
}

}  // namespace

namespace omnes::api {

Status checkRank(int nranks, int rank) {
  if (nranks < 1)
    return Status(Code::kInvalidArgument,
                  "nranks is " + std::to_string(nranks) + "; it must be at least 1");
  if (rank < 0 || rank >= nranks)
    return Status(Code::kInvalidArgument, "rank is " + std::to_string(rank) +
                                              "; it must be in 0.." + std::to_string(nranks - 1));
  return Status::ok();
}

Status joinWithId(omnesComm_t* comm, int nranks, const omnesUniqueId& id, int rank,
                  const omnesConfig_t* config) {
  if (comm == nullptr) return Status(Code::kInvalidArgument, "comm is NULL");
  OMNES_RETURN_IF_ERROR(checkRank(nranks, rank));
  OMNES_ASSIGN_OR_RETURN(const Config environment, readEnvironment());
  OMNES_ASSIGN_OR_RETURN(Wish wish, readWish(environment, config));
  const bool blocking = wish.settings.blocking;
  OMNES_ASSIGN_OR_RETURN(JoinPlan plan, planWithId(nranks, id, rank, std::move(wish)));
  return api::join(std::move(plan), blocking, comm);
}

Status makeId(omnesUniqueId* uniqueId) {
  if (uniqueId == nullptr) return Status(Code::kInvalidArgument, "uniqueId is NULL");
  return hostId(false, uniqueId).status();
}

}  // namespace omnes::api

omnesResult_t omnesGetUniqueId(omnesUniqueId* uniqueId) {
  return guard([&] { return omnes::api::makeId(uniqueId); });
}

omnesResult_t omnesCommInitRank(omnesComm_t* comm, int nranks, omnesUniqueId commId, int rank) {
  return guardInit([&] { return omnes::api::joinWithId(comm, nranks, commId, rank, nullptr); });
}

omnesResult_t omnesCommInitRankConfig(omnesComm_t* comm, int nranks, omnesUniqueId commId, int rank,
                                      const omnesConfig_t* config) {
  return guardInit([&] { return omnes::api::joinWithId(comm, nranks, commId, rank, config); });
}

omnesResult_t omnesCommInitAll(omnesComm_t* comms, int nranks, const int*) {
  return guardInit([&] { return joinAll(comms, nranks); });
}

omnesResult_t omnesCommInitEnv(omnesComm_t* comm, const omnesConfig_t* config) {
  return guardInit([&] { return joinByEnvironment(comm, config); });
}
