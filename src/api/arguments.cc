#include "api/arguments.h"

namespace omnes::api {

using base::DataType;
using base::ReduceOp;
using base::Result;
using base::Status;
using core::Reducer;

Result<DataType> checkType(omnesDataType_t datatype) {
  const auto type = static_cast<DataType>(datatype);
  const int value = static_cast<int>(datatype);
  if (value < 0 || value > UINT8_MAX || base::sizeOf(type) == 0)
    return bad("datatype is " + std::to_string(value) + ", which is no omnesDataType_t");
  return type;
}

Result<Reducer> checkOperator(omnesComm_t comm, omnesRedOp_t op, DataType type) {
  const int value = static_cast<int>(op);
  if (value >= kFirstCreatedOperator)
    return comm->communicator->findOperator(value - kFirstCreatedOperator, type);
  const auto builtIn = static_cast<ReduceOp>(value);
  if (value < 0 || value >= static_cast<int>(ReduceOp::kPreMulSum) || base::nameOf(builtIn) == "?")
    return bad("op is " + std::to_string(value) + ", which is no omnesRedOp_t");
  if (!base::isDefined(type, builtIn))
    return bad("op " + std::string(base::nameOf(builtIn)) + " is not defined for " +
               std::string(base::nameOf(type)));
  return Reducer{builtIn, 0};
}

Status checkRank(omnesComm_t comm, int rank, const char* name) {
  if (rank >= 0 && rank < comm->nranks) return Status::ok();
  return bad(std::string(name) + " is " + std::to_string(rank) + ", outside [0, " +
             std::to_string(comm->nranks) + ")");
}

bool overlaps(const void* a, uint64_t aBytes, const void* b, uint64_t bBytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return aBytes > 0 && bBytes > 0 && x < y + bBytes && y < x + aBytes;
}

}  // namespace omnes::api
