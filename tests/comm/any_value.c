#include "comm/any_value.h"

const char* anyErrorString(int result) { return omnesGetErrorString((omnesResult_t)result); }

omnesResult_t anyAllReduce(const void* send, void* recv, size_t count, int type, int op,
                           omnesComm_t comm) {
  return omnesAllReduce(send, recv, count, (omnesDataType_t)type, (omnesRedOp_t)op, comm, NULL);
}
