// What an omnesComm_t points at, and the checks that every call makes first.
//
// Destroyed handles are recognised through a registry of the live ones (best effort: an address may
// be used again). The registry's lock is taken by init, destroy, abort and finalize only, never by
// an operation.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/fork.h"
#include "base/status.h"
#include "core/comm/communicator.h"
#include "omnes/omnes.h"

struct omnesComm {
  static constexpr uint64_t kLive = 0x6f6d6e65732d6f6b;  // "omnes-ok"

  uint64_t magic = kLive;
  uint32_t forkGeneration = omnes::base::forkGeneration();
  std::unique_ptr<omnes::core::Communicator> communicator;
  bool isFinalized = false;
};

namespace omnes::api {

// Makes the handle known, and forgets it; forget() is false when it was not known (any more).
omnesComm_t makeHandle(std::unique_ptr<core::Communicator> communicator);
bool forgetHandle(omnesComm_t comm);
bool isLiveHandle(omnesComm_t comm);

// NULL and things that are no communicator: kInvalidArgument. Does not take the registry's lock.
inline base::Status checkHandle(omnesComm_t comm) {
  if (comm == nullptr) return base::Status(base::Code::kInvalidArgument, "comm is NULL");
  if (comm->magic != omnesComm::kLive)
    return base::Status(base::Code::kInvalidArgument, "comm is not a live communicator");
  if (comm->forkGeneration != base::forkGeneration())
    return base::Status(base::Code::kInvalidUsage,
                        "comm was made before a fork: only the parent may use it");
  return base::Status::ok();
}

// The boundary: remembers the text for omnesGetLastError(NULL) and translates the code.
omnesResult_t finish(const base::Status& status);
// The text of the last failed call of this thread.
const char* lastErrorOfThread();

}  // namespace omnes::api
