// Making and ending communicators.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "api/boundary.h"
#include "base/config.h"
#include "base/log.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/meeting_point.h"
#include "core/bootstrap/pmix_meeting.h"

namespace {

using omnes::api::finish;
using omnes::api::guard;
using omnes::base::Code;
using omnes::base::Config;
using omnes::base::Result;
using omnes::base::Status;
using omnes::core::CommRequest;
using omnes::core::CommSettings;
using omnes::core::Communicator;
namespace bootstrap = omnes::core::bootstrap;

// An aborting thread waits this long for a call of another thread to come out.
constexpr auto kAbortLimit = std::chrono::seconds(1);

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
  if (config->blocking == 0)
    return Status(Code::kNotSupported, "config.blocking 0 is not supported by this version");
  if (config->blocking != OMNES_CONFIG_UNDEF_INT && config->blocking != 1)
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

Status joinWithId(omnesComm_t* comm, int nranks, const omnesUniqueId& id, int rank,
                  const omnesConfig_t* config) {
  if (comm == nullptr) return Status(Code::kInvalidArgument, "comm is NULL");
  OMNES_RETURN_IF_ERROR(checkRank(nranks, rank));
  OMNES_ASSIGN_OR_RETURN(CommRequest request, readRequest(config));
  OMNES_ASSIGN_OR_RETURN(Config environment, readEnvironment());
  OMNES_ASSIGN_OR_RETURN(CommSettings settings, CommSettings::from(environment, request));
  uint8_t bytes[bootstrap::kUniqueIdBytes];
  std::memcpy(bytes, id.internal, sizeof bytes);
  OMNES_ASSIGN_OR_RETURN(bootstrap::MeetingPoint point,
                         bootstrap::MeetingPoint::fromUniqueId(bytes));
  OMNES_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> made,
                         Communicator::join(point, rank, nranks, settings));
  *comm = omnes::api::makeHandle(std::move(made));
  return Status::ok();
}

Status makeId(omnesUniqueId* uniqueId, bool isLocal) {
  if (uniqueId == nullptr) return Status(Code::kInvalidArgument, "uniqueId is NULL");
  OMNES_ASSIGN_OR_RETURN(const Config config, readEnvironment());
  const bootstrap::NetworkOptions network{config.interfaces.value, config.portRange.value, ""};
  OMNES_ASSIGN_OR_RETURN(bootstrap::HostedId made, bootstrap::makeHostedId({isLocal, network, ""}));
  std::memcpy(uniqueId->internal, made.id.data(), made.id.size());
  return Status::ok();
}

// The ranks join side by side; all succeed or none is left.
Status joinAll(omnesComm_t* comms, int nranks) {
  if (comms == nullptr) return Status(Code::kInvalidArgument, "comms is NULL");
  OMNES_RETURN_IF_ERROR(checkRank(nranks, 0));
  omnesUniqueId id;
  OMNES_RETURN_IF_ERROR(makeId(&id, true));
  std::vector<omnesComm_t> made(nranks, nullptr);
  std::vector<Status> results(nranks);
  std::vector<omnes::base::Thread> threads;
  // Nobody joins before all threads exist: a rank that could not be started would be waited for.
  enum : int { kWait, kGo, kLeave };
  std::atomic<int> gate{kWait};
  Status started;
  for (int rank = 0; rank < nranks && started.isOk(); ++rank) {
    auto thread = omnes::base::Thread::start("omnes-init", [&, rank] {
      // G1: pairs with G2.
      gate.wait(kWait, std::memory_order_acquire);
      if (gate.load(std::memory_order_acquire) == kGo)
        results[rank] = joinWithId(&made[rank], nranks, id, rank, nullptr);
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
  for (const Status& result : results) {
    if (result.isOk()) continue;
    for (omnesComm_t comm : made) omnesCommDestroy(comm);
    return result;
  }
  std::copy(made.begin(), made.end(), comms);
  return Status::ok();
}

}  // namespace

omnesResult_t omnesGetUniqueId(omnesUniqueId* uniqueId) {
  return guard([&] { return makeId(uniqueId, false); });
}

omnesResult_t omnesCommInitRank(omnesComm_t* comm, int nranks, omnesUniqueId commId, int rank) {
  return guard([&] { return joinWithId(comm, nranks, commId, rank, nullptr); });
}

omnesResult_t omnesCommInitRankConfig(omnesComm_t* comm, int nranks, omnesUniqueId commId, int rank,
                                      const omnesConfig_t* config) {
  return guard([&] { return joinWithId(comm, nranks, commId, rank, config); });
}

omnesResult_t omnesCommInitAll(omnesComm_t* comms, int nranks, const int*) {
  return guard([&] { return joinAll(comms, nranks); });
}

omnesResult_t omnesCommInitEnv(omnesComm_t* comm, const omnesConfig_t* config) {
  return guard([&]() -> Status {
    if (comm == nullptr) return Status(Code::kInvalidArgument, "comm is NULL");
    OMNES_ASSIGN_OR_RETURN(CommRequest request, readRequest(config));
    OMNES_ASSIGN_OR_RETURN(Config environment, readEnvironment());
    OMNES_ASSIGN_OR_RETURN(CommSettings settings, CommSettings::from(environment, request));
    const omnes::base::LauncherVariables launcher = omnes::base::launcherVariables();
    OMNES_ASSIGN_OR_RETURN(bootstrap::LaunchInfo info,
                           bootstrap::readLaunchInfo(environment, launcher));
    const omnes::base::Clock& clock = omnes::base::Clock::monotonic();
    const bootstrap::WaitLimits limits{
        omnes::base::Deadline::afterMs(clock, settings.initTimeoutMs), &clock};
    OMNES_ASSIGN_OR_RETURN(bootstrap::MeetingPoint point,
                           bootstrap::findMeetingPoint(environment, launcher, info, limits));
    if (!limits.deadline.isNever()) {  // what is left of it
      const auto left = limits.deadline.remaining(clock);
      settings.initTimeoutMs =
          std::max<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 1);
    }
    OMNES_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> made,
                           Communicator::join(point, static_cast<int32_t>(info.rank),
                                              static_cast<int32_t>(info.nranks), settings));
    *comm = omnes::api::makeHandle(std::move(made));
    return Status::ok();
  });
}

omnesResult_t omnesCommFinalize(omnesComm_t comm) {
  return guard([&]() -> Status {
    if (comm == nullptr) return Status::ok();
    if (!omnes::api::isLiveHandle(comm))
      return Status(Code::kInvalidArgument, "comm is not a live communicator");
    OMNES_RETURN_IF_ERROR(omnes::api::checkHandle(comm));
    if (comm->isFinalized) return Status(Code::kInvalidArgument, "comm was finalized before");
    // Operations of the NULL stream are done when their call returns: nothing is left to wait for.
    comm->isFinalized = true;
    return comm->communicator->failure().status();
  });
}

omnesResult_t omnesCommDestroy(omnesComm_t comm) {
  return guard([&]() -> Status {
    if (comm == nullptr) return Status::ok();
    if (omnes::api::isLiveHandle(comm)) {
      OMNES_RETURN_IF_ERROR(omnes::api::checkHandle(comm));
      if (comm->communicator->isBusy())
        return Status(Code::kInvalidUsage,
                      "a call of another thread is under way; end it with omnesCommAbort");
    }
    if (!omnes::api::forgetHandle(comm))
      return Status(Code::kInvalidArgument,
                    "comm is not a live communicator; was it destroyed before?");
    comm->magic = 0;
    std::unique_ptr<omnesComm> owned(comm);
    return Status::ok();
  });
}

omnesResult_t omnesCommAbort(omnesComm_t comm) {
  return guard([&]() -> Status {
    if (comm == nullptr) return Status::ok();
    if (omnes::api::isLiveHandle(comm)) OMNES_RETURN_IF_ERROR(omnes::api::checkHandle(comm));
    if (!omnes::api::forgetHandle(comm))
      return Status(Code::kInvalidArgument,
                    "comm is not a live communicator; was it destroyed or aborted before?");
    std::unique_ptr<omnesComm> owned(comm);
    owned->communicator->abort();
    if (!owned->communicator->waitUntilIdle(kAbortLimit)) {
      // A thread that does not come out must not find its communicator gone: better to leak it.
      static_cast<void>(owned.release());
      return Status(Code::kInternalError,
                    "a call did not come out of the aborted communicator within a second");
    }
    owned->magic = 0;
    return Status::ok();
  });
}
