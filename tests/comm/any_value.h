/* Calls with values that are no enumerator, from C, where an enumeration holds any integer.
 * Thread-safe. */
#pragma once

#include "omnes/omnes.h"

#ifdef __cplusplus
extern "C" {
#endif

const char* anyErrorString(int result);
omnesResult_t anyAllReduce(const void* send, void* recv, size_t count, int type, int op,
                           omnesComm_t comm);

#ifdef __cplusplus
}
#endif
