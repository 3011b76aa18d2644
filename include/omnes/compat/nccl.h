/* NCCL's names for omnes, so that a host program written for NCCL compiles unchanged: put this
 * folder on the include path instead of NCCL's, beside omnes's own, and link omnes.
 *
 * What is here means on host memory what it means in NCCL on device memory: every buffer is
 * host memory, and a stream is an omnesStream_t. Types, operators and results have NCCL's numbers.
 * Calls that need a device (cuda*, device communicators, windows in this version) are not
 * here: code that uses them does not compile, rather than fail later.
 *
 * Programs that include CUDA's headers define OMNES_COMPAT_NO_CUDA first; their cudaStream_t is then
 * an opaque pointer as far as these calls go, and must be NULL or made by omnesStreamCreate. */
#ifndef OMNES_COMPAT_NCCL_H
#define OMNES_COMPAT_NCCL_H

#include <omnes/omnes.h>

/* The interface that this header follows. */
#define NCCL_MAJOR 2
#define NCCL_MINOR 30
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 23007
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

/* ---- streams ----------------------------------------------------------------------------------- */

#ifndef OMNES_COMPAT_NO_CUDA
typedef omnesStream_t cudaStream_t;
typedef omnesResult_t cudaError_t;
#define cudaSuccess omnesSuccess
#define cudaStreamCreate omnesStreamCreate
#define cudaStreamDestroy omnesStreamDestroy
#define cudaStreamSynchronize omnesStreamSynchronize
#define cudaStreamQuery omnesStreamQuery
#define cudaGetErrorString omnesGetErrorString
#endif

/* ---- types ------------------------------------------------------------------------------------- */

typedef omnesComm_t ncclComm_t;
typedef omnesUniqueId ncclUniqueId;
#define NCCL_UNIQUE_ID_BYTES OMNES_UNIQUE_ID_BYTES

typedef omnesResult_t ncclResult_t;
#define ncclSuccess omnesSuccess
#define ncclUnhandledCudaError omnesUnhandledDeviceError
#define ncclSystemError omnesSystemError
#define ncclInternalError omnesInternalError
#define ncclInvalidArgument omnesInvalidArgument
#define ncclInvalidUsage omnesInvalidUsage
#define ncclRemoteError omnesRemoteError
#define ncclInProgress omnesInProgress
#define ncclTimeout omnesTimeout
#define ncclNumResults omnesNumResults

typedef omnesDataType_t ncclDataType_t;
#define ncclInt8 omnesInt8
#define ncclChar omnesChar
#define ncclUint8 omnesUint8
#define ncclInt32 omnesInt32
#define ncclInt omnesInt
#define ncclUint32 omnesUint32
#define ncclInt64 omnesInt64
#define ncclUint64 omnesUint64
#define ncclFloat16 omnesFloat16
#define ncclHalf omnesHalf
#define ncclFloat32 omnesFloat32
#define ncclFloat omnesFloat
#define ncclFloat64 omnesFloat64
#define ncclDouble omnesDouble
#define ncclBfloat16 omnesBfloat16
#define ncclFloat8e4m3 omnesFloat8e4m3
#define ncclFloat8e5m2 omnesFloat8e5m2
#define ncclNumTypes 12

typedef omnesRedOp_t ncclRedOp_t;
#define ncclSum omnesSum
#define ncclProd omnesProd
#define ncclMax omnesMax
#define ncclMin omnesMin
#define ncclAvg omnesAvg
#define ncclNumOps 5
#define ncclMaxRedOp omnesMaxRedOp

typedef omnesScalarResidence_t ncclScalarResidence_t;
#define ncclScalarDevice omnesScalarDevice
#define ncclScalarHostImmediate omnesScalarHostImmediate

typedef omnesConfig_t ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER OMNES_CONFIG_INITIALIZER
#define NCCL_CONFIG_UNDEF_INT OMNES_CONFIG_UNDEF_INT
#define NCCL_CONFIG_UNDEF_PTR OMNES_CONFIG_UNDEF_PTR

/* ---- calls ------------------------------------------------------------------------------------- */

#define ncclGetVersion omnesGetVersion
#define ncclGetErrorString omnesGetErrorString
#define ncclGetLastError omnesGetLastError

#define ncclGetUniqueId omnesGetUniqueId
#define ncclCommInitRank omnesCommInitRank
#define ncclCommInitRankConfig omnesCommInitRankConfig
#define ncclCommInitRankScalable omnesCommInitRankScalable
#define ncclCommInitAll omnesCommInitAll
#define NCCL_SPLIT_NOCOLOR OMNES_SPLIT_NOCOLOR
#define ncclCommSplit omnesCommSplit
#define NCCL_SHRINK_DEFAULT OMNES_SHRINK_DEFAULT
#define NCCL_SHRINK_ABORT OMNES_SHRINK_ABORT
#define ncclCommShrink omnesCommShrink
#define ncclCommGetUniqueId omnesCommGetUniqueId
#define ncclCommGrow omnesCommGrow
#define ncclCommRevoke omnesCommRevoke
#define ncclCommFinalize omnesCommFinalize
#define ncclCommDestroy omnesCommDestroy
#define ncclCommAbort omnesCommAbort
#define ncclCommGetAsyncError omnesCommGetAsyncError
#define ncclCommCount omnesCommCount
#define ncclCommUserRank omnesCommUserRank

#define ncclRedOpCreatePreMulSum omnesRedOpCreatePreMulSum
#define ncclRedOpDestroy omnesRedOpDestroy

#define ncclAllReduce omnesAllReduce
#define ncclReduce omnesReduce
#define ncclBroadcast omnesBroadcast
#define ncclBcast omnesBcast
#define ncclAllGather omnesAllGather
#define ncclReduceScatter omnesReduceScatter
#define ncclAlltoAll omnesAlltoAll
#define ncclGather omnesGather
#define ncclScatter omnesScatter
#define ncclSend omnesSend
#define ncclRecv omnesRecv

#define ncclGroupStart omnesGroupStart
#define ncclGroupEnd omnesGroupEnd

#endif
