// omnesGetVersion, omnesGetErrorString, omnesGetLastError and the queries.
#include "api/boundary.h"
#include "api/query.h"

using omnes::api::guard;
using omnes::api::nullPointer;
using omnes::api::query;
using omnes::base::Code;
using omnes::base::Status;

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
