// Element types and reduction operators as the whole library names them. Values equal the public
// enums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace omnes::base {

enum class DataType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
  kInt16 = 64,
  kUint16 = 65,
};

// kPreMulSum stands for every created operator; its scalar travels beside it.
enum class ReduceOp : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kBand = 64,
  kBor = 65,
  kBxor = 66,
  kPreMulSum = 128,
};

inline constexpr DataType kAllDataTypes[] = {
    DataType::kInt8,       DataType::kUint8,      DataType::kInt16,   DataType::kUint16,
    DataType::kInt32,      DataType::kUint32,     DataType::kInt64,   DataType::kUint64,
    DataType::kFloat16,    DataType::kBfloat16,   DataType::kFloat32, DataType::kFloat64,
    DataType::kFloat8e4m3, DataType::kFloat8e5m2,
};

inline constexpr ReduceOp kAllReduceOps[] = {
    ReduceOp::kSum,  ReduceOp::kProd, ReduceOp::kMax,  ReduceOp::kMin,       ReduceOp::kAvg,
    ReduceOp::kBand, ReduceOp::kBor,  ReduceOp::kBxor, ReduceOp::kPreMulSum,
};

// Bytes of one element: 1, 2, 4 or 8. 0 for a value that is not a DataType.
size_t sizeOf(DataType type);
bool isFloat(DataType type);
// Lower-case names as nccl-tests prints them ("float", "bfloat16", "f8e4m3", ...), "?" when
// unknown.
std::string_view nameOf(DataType type);
std::string_view nameOf(ReduceOp op);
// Whether the pair is defined: bitwise operators need an integer type.
bool isDefined(DataType type, ReduceOp op);

// The type in which a sum under way ("partial") is kept and sent: float32 for 8- and 16-bit floats
// (not for min/max, which are exact in the type itself), int64 (uint64) for AVG of integers up to
// 32 bits, else the type.
DataType wireType(DataType type, ReduceOp op);

}  // namespace omnes::base
