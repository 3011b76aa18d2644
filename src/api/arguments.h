// Checks of arguments that several calls have in common. A failure is kInvalidArgument and names
// the value.
#pragma once

#include <cstdint>
#include <string>

#include "api/handle.h"

namespace omnes::api {

inline constexpr int kFirstCreatedOperator = 1024;

inline base::Status bad(std::string message) {
  return base::Status(base::Code::kInvalidArgument, std::move(message));
}

base::Result<base::DataType> checkType(omnesDataType_t datatype);
// Built in and defined for the type, or created for it on this communicator.
base::Result<core::Reducer> checkOperator(omnesComm_t comm, omnesRedOp_t op, base::DataType type);
// name: of the argument, "peer" or "root".
base::Status checkRank(omnesComm_t comm, int rank, const char* name);
bool overlaps(const void* a, uint64_t aBytes, const void* b, uint64_t bBytes);

}  // namespace omnes::api
