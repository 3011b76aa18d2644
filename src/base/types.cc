#include "base/types.h"

namespace omnes::base {

size_t sizeOf(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2: return 1;
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kFloat16:
    case DataType::kBfloat16: return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32: return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64: return 8;
  }
  return 0;
}

bool isFloat(DataType type) {
  switch (type) {
    case DataType::kFloat16:
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kBfloat16:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2: return true;
    default: return false;
  }
}

std::string_view nameOf(DataType type) {
  switch (type) {
    case DataType::kInt8: return "int8";
    case DataType::kUint8: return "uint8";
    case DataType::kInt16: return "int16";
    case DataType::kUint16: return "uint16";
    case DataType::kInt32: return "int32";
    case DataType::kUint32: return "uint32";
    case DataType::kInt64: return "int64";
    case DataType::kUint64: return "uint64";
    case DataType::kFloat16: return "half";
    case DataType::kFloat32: return "float";
    case DataType::kFloat64: return "double";
    case DataType::kBfloat16: return "bfloat16";
    case DataType::kFloat8e4m3: return "f8e4m3";
    case DataType::kFloat8e5m2: return "f8e5m2";
  }
  return "?";
}

std::string_view nameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kProd: return "prod";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kMin: return "min";
    case ReduceOp::kAvg: return "avg";
    case ReduceOp::kBand: return "band";
    case ReduceOp::kBor: return "bor";
    case ReduceOp::kBxor: return "bxor";
    case ReduceOp::kPreMulSum: return "mulsum";
  }
  return "?";
}

bool isDefined(DataType type, ReduceOp op) {
  const bool bitwise = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
  return sizeOf(type) != 0 && nameOf(op) != "?" && !(bitwise && isFloat(type));
}

DataType wireType(DataType type, ReduceOp op) {
  if (isFloat(type)) {
    const bool exactInType = op == ReduceOp::kMin || op == ReduceOp::kMax;
    return sizeOf(type) <= 2 && !exactInType ? DataType::kFloat32 : type;
  }
  if (op != ReduceOp::kAvg || sizeOf(type) == 8) return type;
  const bool isUnsigned =
      type == DataType::kUint8 || type == DataType::kUint16 || type == DataType::kUint32;
  return isUnsigned ? DataType::kUint64 : DataType::kInt64;
}

}  // namespace omnes::base
