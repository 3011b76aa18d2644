// omnesCommInitStore and omnesCommInitRankScalable.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "api/boundary.h"
#include "api/query.h"
#include "api/wish.h"
#include "core/bootstrap/store_meeting.h"
#include "core/comm/scalable.h"

namespace {

using omnes::api::guardInit;
using omnes::api::JoinPlan;
using omnes::api::nullPointer;
using omnes::base::Code;
using omnes::base::Result;
using omnes::base::Status;
using omnes::core::AbortSignal;
using omnes::core::CommSettings;
using omnes::core::Communicator;
namespace bootstrap = omnes::core::bootstrap;

Status storeStatus(omnesResult_t result, const char* callback, const std::string& key) {
  if (result == omnesSuccess) return Status::ok();
  const bool isLate = result == omnesTimeout || result == omnesInProgress;
  return Status(isLate ? Code::kTimeout : Code::kSystemError,
                std::string("the store's callback ") + callback + " returned " +
                    std::to_string(static_cast<int>(result)) + " (" + omnesGetErrorString(result) +
                    ") for the key '" + key + "'");
}

// The callbacks, as core calls them.
bootstrap::Store storeOf(const omnesStore_t& given) {
  bootstrap::Store store;
  store.prefix = given.prefix;
  store.put = [given](const std::string& key, std::string_view value) {
    return storeStatus(given.put(given.user, key.c_str(), value.data(), value.size()), "put", key);
  };
  store.get = [given](const std::string& key, size_t room) -> Result<std::string> {
    std::string value(room, '\0');
    size_t bytes = 0;
    const omnesResult_t result =
        given.get(given.user, key.c_str(), value.data(), value.size(), &bytes);
    OMNES_RETURN_IF_ERROR(storeStatus(result, "get", key));
    if (bytes > room)
      return Status(Code::kInvalidUsage, "the store has " + std::to_string(bytes) +
                                             " bytes under '" + key +
                                             "', which omnes did not put there");
    value.resize(bytes);
    return value;
  };
  store.wait = [given](const std::string& key, std::chrono::milliseconds limit) {
    return storeStatus(given.wait(given.user, key.c_str(), static_cast<int>(limit.count())), "wait",
                       key);
  };
  return store;
}

Status checkStore(const omnesStore_t* store) {
  if (store == nullptr) return nullPointer("store");
  if (store->size < sizeof(omnesStore_t))
    return Status(Code::kInvalidArgument,
                  "the store was not initialised; start from OMNES_STORE_INITIALIZER");
  if (store->put == nullptr || store->get == nullptr || store->wait == nullptr)
    return Status(Code::kInvalidArgument, "the store lacks one of put, get and wait");
  if (store->prefix == nullptr || *store->prefix == 0)
    return Status(Code::kInvalidArgument,
                  "store.prefix is empty; it keeps communicators apart: give each its own");
  if (std::strlen(store->prefix) > OMNES_STORE_MAX_PREFIX)
    return Status(Code::kInvalidArgument, "store.prefix has more than 256 characters");
  return Status::ok();
}

Status initStore(omnesComm_t* comm, int nranks, int rank, const omnesStore_t* given,
                 const omnesConfig_t* config) {
  if (comm == nullptr) return nullPointer("comm");
  OMNES_RETURN_IF_ERROR(omnes::api::checkRank(nranks, rank));
  OMNES_RETURN_IF_ERROR(checkStore(given));
  OMNES_ASSIGN_OR_RETURN(const omnes::base::Config environment, omnes::api::readEnvironment());
  OMNES_ASSIGN_OR_RETURN(omnes::api::Wish wish, omnes::api::readWish(environment, config));
  const bool blocking = wish.settings.blocking;
  JoinPlan plan{
      rank, nranks,
      [store = storeOf(*given), settings = std::move(wish.settings), rank,
       nranks](const AbortSignal& abort) -> Result<std::unique_ptr<Communicator>> {
        const omnes::base::Clock& clock = omnes::base::Clock::monotonic();
        const bootstrap::WaitLimits limits{
            omnes::base::Deadline::afterMs(clock, settings.initTimeoutMs), &clock, abort.fd};
        const bootstrap::NetworkOptions network{settings.interfaces, settings.portRange, ""};
        OMNES_ASSIGN_OR_RETURN(const bootstrap::MeetingPoint point,
                               bootstrap::meetByStore(store, static_cast<uint32_t>(rank),
                                                      {false, network, ""}, limits));
        return Communicator::join(point, rank, nranks,
                                  settings.withTimeLeft(limits.deadline, clock), abort);
      }};
  return omnes::api::join(std::move(plan), blocking, comm);
}

Status initScalable(omnesComm_t* comm, int nranks, int rank, int nId, const omnesUniqueId* ids,
                    const omnesConfig_t* config) {
  if (comm == nullptr) return nullPointer("comm");
  OMNES_RETURN_IF_ERROR(omnes::api::checkRank(nranks, rank));
  if (nId < 1 || nId > nranks)
    return Status(Code::kInvalidArgument,
                  "nId is " + std::to_string(nId) + "; it must be in 1.." + std::to_string(nranks));
  if (ids == nullptr) return nullPointer("ids");
  std::vector<bootstrap::MeetingPoint> points;
  for (int i = 0; i < nId; ++i) {
    uint8_t bytes[bootstrap::kUniqueIdBytes];
    std::memcpy(bytes, ids[i].internal, sizeof bytes);
    Result<bootstrap::MeetingPoint> point = bootstrap::MeetingPoint::fromUniqueId(bytes);
    if (!point.isOk()) return point.status().withContext("ids[" + std::to_string(i) + "]");
    for (size_t j = 0; j < points.size(); ++j)
      if (points[j].commId == point.value().commId)
        return Status(Code::kInvalidArgument, "ids[" + std::to_string(j) + "] and ids[" +
                                                  std::to_string(i) + "] are the same id");
    points.push_back(std::move(point).value());
  }
  OMNES_ASSIGN_OR_RETURN(const omnes::base::Config environment, omnes::api::readEnvironment());
  OMNES_ASSIGN_OR_RETURN(omnes::api::Wish wish, omnes::api::readWish(environment, config));
  const bool blocking = wish.settings.blocking;
  JoinPlan plan{rank, nranks,
                [points = std::move(points), settings = std::move(wish.settings), rank,
                 nranks](const AbortSignal& abort) {
                  return omnes::core::joinByIds(points, rank, nranks, settings, abort);
                }};
  return omnes::api::join(std::move(plan), blocking, comm);
}

}  // namespace

omnesResult_t omnesCommInitStore(omnesComm_t* comm, int nranks, int rank, const omnesStore_t* store,
                                 const omnesConfig_t* config) {
  return guardInit([&] { return initStore(comm, nranks, rank, store, config); });
}

omnesResult_t omnesCommInitRankScalable(omnesComm_t* comm, int nranks, int rank, int nId,
                                        const omnesUniqueId* ids, const omnesConfig_t* config) {
  return guardInit([&] { return initScalable(comm, nranks, rank, nId, ids, config); });
}
