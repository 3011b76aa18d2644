// omnesGetVersion, omnesGetErrorString, omnesGetLastError and the queries.
#include "api/boundary.h"

using omnes::api::checkHandle;
using omnes::api::guard;
using omnes::base::Code;
using omnes::base::Status;

namespace {

Status nullPointer(const char* what) {
  return Status(Code::kInvalidArgument, std::string(what) + " is NULL");
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
  if (comm == nullptr || comm->magic != omnesComm::kLive) return omnes::api::lastErrorOfThread();
  return comm->communicator->failure().text();
}

omnesResult_t omnesCommGetAsyncError(omnesComm_t comm, omnesResult_t* asyncError) {
  return guard([&] {
    OMNES_RETURN_IF_ERROR(checkHandle(comm));
    if (asyncError == nullptr) return nullPointer("asyncError");
    *asyncError = static_cast<omnesResult_t>(comm->communicator->failure().status().code());
    return Status::ok();
  });
}

omnesResult_t omnesCommCount(omnesComm_t comm, int* count) {
  return guard([&] {
    OMNES_RETURN_IF_ERROR(checkHandle(comm));
    if (count == nullptr) return nullPointer("count");
    *count = comm->communicator->nranks();
    return Status::ok();
  });
}

omnesResult_t omnesCommUserRank(omnesComm_t comm, int* rank) {
  return guard([&] {
    OMNES_RETURN_IF_ERROR(checkHandle(comm));
    if (rank == nullptr) return nullPointer("rank");
    *rank = comm->communicator->rank();
    return Status::ok();
  });
}
