// omnesGetVersion, omnesGetErrorString, omnesGetLastError and the queries.
#include "api/boundary.h"

using omnes::api::guard;
using omnes::base::Code;
using omnes::base::Status;

namespace {

Status nullPointer(const char* what) {
  return Status(Code::kInvalidArgument, std::string(what) + " is NULL");
}

// Runs body while nobody can end the communicator, which may still be in the making.
template <typename Body>
Status query(omnesComm_t comm, Body&& body) {
  if (comm == nullptr) return nullPointer("comm");
  const auto isKnown = [comm] {
    // H2: pairs with H1 in joining.cc.
    const uint64_t magic = comm->magic.load(std::memory_order_acquire);
    return magic == omnesComm::kLive || magic == omnesComm::kJoining || magic == omnesComm::kLost;
  };
  const Status dead(Code::kInvalidArgument, "comm is not a live communicator");
  if (!isKnown()) return dead;
  if (comm->forkGeneration != omnes::base::forkGeneration())
    return Status(Code::kInvalidUsage, "comm was made before a fork: only the parent may use it");
  const std::lock_guard<std::mutex> lock(comm->mutex);
  if (!isKnown()) return dead;
  body();
  return Status::ok();
}

}  // namespace

omnesResult_t omnesGetVersion(int* version) {
  return guard([&] {
    if (version == nullptr) return nullPointer("version");
    *version = OMNES_VERSION_CODE;
    return Status::ok();
  });
}

const char* omnesGetErrorString(omnesResult_t result) {
  // A C caller may pass any number; one that shares its low byte with a code is none.
  const int value = static_cast<int>(result);
  if (value == omnesUnhandledDeviceError) return "unhandled device error";
  if (value < 0 || value > UINT8_MAX) return "unknown result code";
  return omnes::base::codeName(static_cast<Code>(value));
}

const char* omnesGetLastError(omnesComm_t comm) {
  const char* text = "";
  const Status known = query(comm, [&] {
    // Both texts stay for as long as the communicator, and are never replaced.
    if (comm->communicator != nullptr)
      text = comm->communicator->failure().text();
    else if (!comm->lost.isOk())
      text = comm->lost.message().data();
  });
  return known.isOk() && *text != 0 ? text : omnes::api::lastErrorOfThread();
}

omnesResult_t omnesCommGetAsyncError(omnesComm_t comm, omnesResult_t* asyncError) {
  return guard([&]() -> Status {
    if (comm != nullptr && asyncError == nullptr) return nullPointer("asyncError");
    return query(comm, [&] {
      // H2: pairs with H1 in joining.cc.
      const bool isJoining = comm->magic.load(std::memory_order_acquire) == omnesComm::kJoining;
      const Status status =
          comm->communicator != nullptr ? comm->communicator->failure().status() : comm->lost;
      *asyncError = isJoining ? omnesInProgress : static_cast<omnesResult_t>(status.code());
    });
  });
}

omnesResult_t omnesCommCount(omnesComm_t comm, int* count) {
  return guard([&]() -> Status {
    if (comm != nullptr && count == nullptr) return nullPointer("count");
    return query(comm, [&] { *count = comm->nranks; });
  });
}

omnesResult_t omnesCommUserRank(omnesComm_t comm, int* rank) {
  return guard([&]() -> Status {
    if (comm != nullptr && rank == nullptr) return nullPointer("rank");
    return query(comm, [&] { *rank = comm->rank; });
  });
}
