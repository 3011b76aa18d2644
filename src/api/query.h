// For calls that any thread may make on a communicator, also while it is being made.
#pragma once

#include <mutex>
#include <string>

#include "api/handle.h"

namespace omnes::api {

inline base::Status nullPointer(const char* what) {
  return base::Status(base::Code::kInvalidArgument, std::string(what) + " is NULL");
}

// Runs body while nobody can end the communicator, which may still be in the making.
template <typename Body>
base::Status query(omnesComm_t comm, Body&& body) {
  using base::Code;
  using base::Status;
  if (comm == nullptr) return nullPointer("comm");
  const auto isKnown = [comm] {
    // H2: pairs with H1 in joining.cc.
    const uint64_t magic = comm->magic.load(std::memory_order_acquire);
    return magic == omnesComm::kLive || magic == omnesComm::kJoining || magic == omnesComm::kLost;
  };
  const Status dead(Code::kInvalidArgument, "comm is not a live communicator");
  if (!isKnown()) return dead;
  if (comm->forkGeneration != base::forkGeneration())
    return Status(Code::kInvalidUsage, "comm was made before a fork: only the parent may use it");
  const std::lock_guard<std::mutex> lock(comm->mutex);
  if (!isKnown()) return dead;
  body();
  return Status::ok();
}

}  // namespace omnes::api
