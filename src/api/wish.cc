#include "api/wish.h"

#include <mutex>
#include <optional>
#include <string>

#include "api/group.h"
#include "base/log.h"

namespace omnes::api {
namespace {

using base::Code;
using base::Config;
using base::Result;
using base::Status;
using core::CommRequest;
using core::CommSettings;

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

}  // namespace

Result<Config> readEnvironment() {
  OMNES_ASSIGN_OR_RETURN(Config config, Config::fromEnvironment());
  OMNES_RETURN_IF_ERROR(base::configureLog(config.logSettings()));
  static std::once_flag once;
  std::call_once(once, [&] {
    base::logVersion(OMNES_VERSION_TEXT);
    for (const std::string& warning : config.warnings) OMNES_LOG_WARN(Env, "%s", warning.c_str());
  });
  return config;
}

Result<Wish> readWish(const Config& environment, const omnesConfig_t* config) {
  OMNES_ASSIGN_OR_RETURN(CommRequest request, readRequest(config));
  Wish wish;
  OMNES_ASSIGN_OR_RETURN(wish.settings, CommSettings::from(environment, request));
  wish.settings.blocking = config == nullptr || config->blocking != 0;
  return wish;
}

Status join(JoinPlan plan, bool blocking, omnesComm_t* comm) {
  if (!blocking) return Joining::start(std::move(plan), comm);
  if (Group::isOpen()) return Group::ofThisThread().noteJoin(std::move(plan), comm);
  return joinNow(plan, comm);
}

}  // namespace omnes::api
