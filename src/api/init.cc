// Making communicators.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "api/boundary.h"
#include "api/group.h"
#include "api/joining.h"
#include "base/config.h"
#include "base/log.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/meeting_host.h"
#include "core/bootstrap/meeting_point.h"
#include "core/bootstrap/pmix_meeting.h"

namespace {

using omnes::api::Group;
using omnes::api::guard;
using omnes::api::guardInit;
using omnes::api::JoinPlan;
using omnes::base::Code;
using omnes::base::Config;
using omnes::base::Result;
using omnes::base::Status;
using omnes::core::CommRequest;
using omnes::core::CommSettings;
namespace bootstrap = omnes::core::bootstrap;

Result<CommRequest> readRequest(const omnesConfig_t* config) {
  CommRequest request;
  if (config == nullptr) return request;
  // Older programs may pass a shorter struct; this version is the first, so there is one length to
  // accept.
  if (config->magic != OMNES_CONFIG_MAGIC || config->size < sizeof(omnesConfig_t))
    return Status(Code::kInvalidArgument,
                  "the config was not initialised; start from OMNES_CONFIG_INITIALIZER");
  const auto optional = [](int value, std::optional<int64_t>* out) {
    if (value != OMNES_CONFIG_UNDEF_INT) *out = value;
  };
  if (config->blocking != OMNES_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1)
    return Status(Code::kInvalidArgument,
                  "config.blocking is " + std::to_string(config->blocking) + "; valid: 0, 1");
  if (config->deterministic != OMNES_CONFIG_UNDEF_INT) {
    if (config->deterministic != 0 && config->deterministic != 1)
      return Status(
          Code::kInvalidArgument,
          "config.deterministic is " + std::to_string(config->deterministic) + "; valid: 0, 1");
    request.deterministic = config->deterministic == 1;
  }
  optional(config->timeoutMs, &request.timeoutMs);
  optional(config->initTimeoutMs, &request.initTimeoutMs);
  if (config->commName != nullptr) request.name = config->commName;
  if (config->algo != nullptr) request.algo = config->algo;
  if (config->transports != nullptr) request.transports = config->transports;
  if (config->hostId != nullptr) request.hostId = config->hostId;
  return request;
}

// Reads the environment anew for each communicator, and says once per process what is odd about it.
Result<Config> readEnvironment() {
  OMNES_ASSIGN_OR_RETURN(Config config, Config::fromEnvironment());
  OMNES_RETURN_IF_ERROR(omnes::base::configureLog(config.logSettings()));
  static std::once_flag once;
  std::call_once(once, [&] {
    omnes::base::logVersion(OMNES_VERSION_TEXT);
    for (const std::string& warning : config.warnings) OMNES_LOG_WARN(Env, "%s", warning.c_str());
  });
  return config;
}

Status checkRank(int nranks, int rank) {
  if (nranks < 1)
    return Status(Code::kInvalidArgument,
                  "nranks is " + std::to_string(nranks) + "; it must be at least 1");
  if (rank < 0 || rank >= nranks)
    return Status(Code::kInvalidArgument, "rank is " + std::to_string(rank) +
                                              "; it must be in 0.." + std::to_string(nranks - 1));
  return Status::ok();
}

struct Wish {
  CommSettings settings;
  bool blocking = true;
};

Result<Wish> readWish(const Config& environment, const omnesConfig_t* config) {
  OMNES_ASSIGN_OR_RETURN(CommRequest request, readRequest(config));
  Wish wish;
  OMNES_ASSIGN_OR_RETURN(wish.settings, CommSettings::from(environment, request));
  wish.blocking = config == nullptr || config->blocking != 0;
  return wish;
}

// Joins now, at the end of the group, or in the background.
Status join(JoinPlan plan, bool blocking, omnesComm_t* comm) {
  if (!blocking) return omnes::api::Joining::start(std::move(plan), comm);
  if (Group::isOpen()) return Group::ofThisThread().noteJoin(std::move(plan), comm);
  return omnes::api::joinNow(plan, comm);
}

Result<JoinPlan> planWithId(int nranks, const omnesUniqueId& id, int rank, Wish wish) {
  uint8_t bytes[bootstrap::kUniqueIdBytes];
  std::memcpy(bytes, id.internal, sizeof bytes);
  OMNES_ASSIGN_OR_RETURN(bootstrap::MeetingPoint point,
                         bootstrap::MeetingPoint::fromUniqueId(bytes));
  return JoinPlan{std::move(point), rank, nranks, std::move(wish.settings)};
}

Status joinWithId(omnesComm_t* comm, int nranks, const omnesUniqueId& id, int rank,
                  const omnesConfig_t* config) {
  if (comm == nullptr) return Status(Code::kInvalidArgument, "comm is NULL");
  OMNES_RETURN_IF_ERROR(checkRank(nranks, rank));
  OMNES_ASSIGN_OR_RETURN(const Config environment, readEnvironment());
  OMNES_ASSIGN_OR_RETURN(Wish wish, readWish(environment, config));
  const bool blocking = wish.blocking;
  OMNES_ASSIGN_OR_RETURN(JoinPlan plan, planWithId(nranks, id, rank, std::move(wish)));
  return join(std::move(plan), blocking, comm);
}

Result<bootstrap::HostedId> hostId(bool isLocal, omnesUniqueId* uniqueId) {
  OMNES_ASSIGN_OR_RETURN(const Config config, readEnvironment());
  const bootstrap::NetworkOptions network{config.interfaces.value, config.portRange.value, ""};
  OMNES_ASSIGN_OR_RETURN(bootstrap::HostedId made, bootstrap::makeHostedId({isLocal, network, ""}));
  std::memcpy(uniqueId->internal, made.id.data(), made.id.size());
  return made;
}

Status makeId(omnesUniqueId* uniqueId) {
  if (uniqueId == nullptr) return Status(Code::kInvalidArgument, "uniqueId is NULL");
  return hostId(false, uniqueId).status();
}

Status joinAll(omnesComm_t* comms, int nranks) {
  if (comms == nullptr) return Status(Code::kInvalidArgument, "comms is NULL");
  OMNES_RETURN_IF_ERROR(checkRank(nranks, 0));
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
  if (!limits.deadline.isNever()) {  // what is left of it
    const auto left = limits.deadline.remaining(clock);
    wish.settings.initTimeoutMs =
        std::max<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 1);
  }
  JoinPlan plan{std::move(point), static_cast<int32_t>(info.rank),
                static_cast<int32_t>(info.nranks), std::move(wish.settings)};
  return join(std::move(plan), wish.blocking, comm);
}

}  // namespace

omnesResult_t omnesGetUniqueId(omnesUniqueId* uniqueId) {
  return guard([&] { return makeId(uniqueId); });
}

omnesResult_t omnesCommInitRank(omnesComm_t* comm, int nranks, omnesUniqueId commId, int rank) {
  return guardInit([&] { return joinWithId(comm, nranks, commId, rank, nullptr); });
}

omnesResult_t omnesCommInitRankConfig(omnesComm_t* comm, int nranks, omnesUniqueId commId, int rank,
                                      const omnesConfig_t* config) {
  return guardInit([&] { return joinWithId(comm, nranks, commId, rank, config); });
}

omnesResult_t omnesCommInitAll(omnesComm_t* comms, int nranks, const int*) {
  return guardInit([&] { return joinAll(comms, nranks); });
}

omnesResult_t omnesCommInitEnv(omnesComm_t* comm, const omnesConfig_t* config) {
  return guardInit([&] { return joinByEnvironment(comm, config); });
}
