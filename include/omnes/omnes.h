/* omnes: collective communications for host memory.
 *
 * Names, argument order and semantics follow NCCL wherever NCCL has the call, so that a port is a
 * rename.
 *
 * Conventions of every declaration below
 *   - counts are in elements, sizes in bytes; both are 64-bit.
 *   - Blocking: unless said otherwise a call returns when it is done or has failed. No wait is
 *     unbounded: operations end at config.timeoutMs, counted from when they begin (which is when
 *     the operation before them in their communicator has ended), initialisation at
 *     config.initTimeoutMs.
 *   - Thread-safety: calls on different communicators are independent. One communicator is used
 *     by one thread at a time, except where a declaration says "any thread". A forked child may
 *     not use what its parent has made: omnesInvalidUsage.
 *   - Results: omnesInvalidArgument is found before anything is sent and leaves the communicator
 *     usable. Every other error breaks the communicator on all its ranks; later calls return the
 *     first cause. omnesGetLastError(comm) has the text: rank, host, operation, sequence number,
 *     cause and remedy.
 */
#ifndef OMNES_OMNES_H_
#define OMNES_OMNES_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "omnes/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OMNES_EXPORT __attribute__((visibility("default")))
#else
#define OMNES_EXPORT
#endif

/* In C++, too, an enumeration of this header holds any int, so that a number that is no enumerator
 * is an error of ours (omnesInvalidArgument) and not undefined behaviour. */
#ifdef __cplusplus
#define OMNES_ANY_INT : int
#else
#define OMNES_ANY_INT
#endif

/* One rank's membership in a group of ranks. Opaque; created by the init calls, freed by
 * omnesCommDestroy. */
typedef struct omnesComm* omnesComm_t;
/* A queue of operations and callbacks that are carried out in order, beside the caller. As an
 * argument of a collective: the call only enqueues, and its buffers belong to the operation until
 * omnesStreamSynchronize or a callback enqueued behind it. NULL: the operation has ended when the
 * call (or, in a group, omnesGroupEnd) returns. */
typedef struct omnesStream* omnesStream_t;

/* Values 0-8 equal NCCL's. */
typedef enum OMNES_ANY_INT {
  omnesSuccess = 0,
  omnesUnhandledDeviceError = 1, /* never returned; keeps NCCL's numbering */
  omnesSystemError = 2,          /* the operating system refused; see omnesGetLastError */
  omnesInternalError = 3,        /* a bug in omnes */
  omnesInvalidArgument = 4,      /* found at the call; the communicator stays usable */
  omnesInvalidUsage = 5,         /* ranks disagree, or the environment is wrong */
  omnesRemoteError = 6,          /* another rank died or failed */
  omnesInProgress = 7,
  omnesTimeout = 8, /* a deadline passed; the message says which rank was waited for */
  omnesNumResults = 9,
  omnesNotSupported = 64 /* this version does not implement it */
} omnesResult_t;

/* Values 0-11 equal NCCL's. */
typedef enum OMNES_ANY_INT {
  omnesInt8 = 0,
  omnesChar = 0,
  omnesUint8 = 1,
  omnesInt32 = 2,
  omnesInt = 2,
  omnesUint32 = 3,
  omnesInt64 = 4,
  omnesUint64 = 5,
  omnesFloat16 = 6,
  omnesHalf = 6,
  omnesFloat32 = 7,
  omnesFloat = 7,
  omnesFloat64 = 8,
  omnesDouble = 8,
  omnesBfloat16 = 9,
  omnesFloat8e4m3 = 10, /* OCP: largest 448, no infinities */
  omnesFloat8e5m2 = 11, /* OCP: largest 57344 */
  omnesInt16 = 64,
  omnesUint16 = 65
} omnesDataType_t;

/* Values 0-4 equal NCCL's. Created operators start at 1024 and are numbered alike on all ranks. */
typedef enum OMNES_ANY_INT {
  omnesSum = 0,
  omnesProd = 1,
  omnesMax = 2,
  omnesMin = 3,
  omnesAvg = 4,
  omnesBand = 64, /* bitwise operators: integer types only */
  omnesBor = 65,
  omnesBxor = 66,
  omnesMaxRedOp = 0x7fffffff
} omnesRedOp_t;

typedef enum OMNES_ANY_INT {
  omnesScalarDevice = 0, /* accepted as NCCL does; on the host both read *scalar during the call */
  omnesScalarHostImmediate = 1
} omnesScalarResidence_t;

#define OMNES_UNIQUE_ID_BYTES 128
/* Where the ranks of a new communicator meet, and the secret that proves they belong. Send it to
 * every rank over a channel you trust; one id makes one communicator. */
typedef struct {
  char internal[OMNES_UNIQUE_ID_BYTES];
} omnesUniqueId;

#define OMNES_CONFIG_UNDEF_INT INT_MIN
#define OMNES_CONFIG_UNDEF_PTR NULL

/* Growable: size first, fields are only ever appended. Start from OMNES_CONFIG_INITIALIZER. An
 * OMNES_* environment variable of the same meaning overrides a field, as in NCCL. Strings are
 * borrowed during the init call only. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;           /* default 1; 0: init returns at once, see omnesCommInitRankConfig */
  const char* commName;   /* shown in messages */
  int timeoutMs;          /* deadline of one operation; default 1800000 (30 min); 0 = none */
  int initTimeoutMs;      /* deadline of an init call; default 60000; 0 = none */
  const char* algo;       /* as OMNES_ALGO, e.g. "ring" or "allreduce:^ring"; NULL = choose */
  const char* transports; /* as OMNES_TRANSPORTS: list of what may be used; NULL = all */
  const char* hostId; /* ranks with different ids are kept on different hosts; NULL = this host */
  int deterministic;  /* 1: a result does not depend on size, algorithm or placement; default 0 */
} omnesConfig_t;

#define OMNES_CONFIG_MAGIC 0x6f6d6e65u
#define OMNES_CONFIG_INITIALIZER                                                           \
  {                                                                                        \
    sizeof(omnesConfig_t), OMNES_CONFIG_MAGIC, OMNES_VERSION_CODE, OMNES_CONFIG_UNDEF_INT, \
        OMNES_CONFIG_UNDEF_PTR, OMNES_CONFIG_UNDEF_INT, OMNES_CONFIG_UNDEF_INT,            \
        OMNES_CONFIG_UNDEF_PTR, OMNES_CONFIG_UNDEF_PTR, OMNES_CONFIG_UNDEF_PTR,            \
        OMNES_CONFIG_UNDEF_INT                                                             \
  }

/* ---- information ----------------------------------------------------------------------------- */

/* Writes OMNES_VERSION_CODE of the library to *version. Any thread.
 * omnesSuccess; omnesInvalidArgument: version is NULL. */
OMNES_EXPORT omnesResult_t omnesGetVersion(int* version);

/* Short fixed text for a result code; "unknown result code" for any other value. Static storage.
 * Any thread. */
OMNES_EXPORT const char* omnesGetErrorString(omnesResult_t result);

/* The full text of the first error of the communicator; if it has none (a call with bad arguments
 * does not break it), or if comm is NULL, of the last failed call of this thread. Never NULL; empty
 * when there was none. Valid until the communicator is freed, or until this thread's next failing
 * call. Any thread. */
OMNES_EXPORT const char* omnesGetLastError(omnesComm_t comm);

/* For code on top of omnes, such as omnes_mpi.h or a binding, that reports failures as omnes does:
 * omnesGetLastError(NULL) of this thread is a copy of text from here on. Any thread.
 * Returns result; omnesInvalidArgument: text is NULL, or result is no failure. */
OMNES_EXPORT omnesResult_t omnesSetLastError(omnesResult_t result, const char* text);

/* ---- making and ending communicators --------------------------------------------------------- */

/* Makes an id for a new communicator and starts listening for its ranks, at an address that other
 * hosts reach (OMNES_IFNAME, OMNES_PORT_RANGE): this process must live until they have met.
 * omnesSuccess; omnesInvalidArgument: uniqueId is NULL, or a variable that is not valid;
 * omnesInvalidUsage: OMNES_IFNAME names no interface that can be used; omnesSystemError: no socket,
 * no free port of the range or no randomness. Any thread. */
OMNES_EXPORT omnesResult_t omnesGetUniqueId(omnesUniqueId* uniqueId);

/* Joins a communicator of nranks ranks as `rank` (0-based). Collective: returns when all ranks
 * have joined, in any order. *comm is set only on success and is then owned by the caller.
 * omnesSuccess; omnesInvalidArgument: NULL pointer, nranks < 1, rank outside [0, nranks), bad
 * config field; omnesInvalidUsage: another process claims the same rank, ranks disagree on nranks,
 * version or settings, or the id is spent; omnesTimeout: initTimeoutMs passed, the message lists
 * the missing ranks; omnesRemoteError: a rank died while joining; omnesSystemError.
 * Any thread. */
OMNES_EXPORT omnesResult_t omnesCommInitRank(omnesComm_t* comm, int nranks, omnesUniqueId commId,
                                             int rank);
/* As omnesCommInitRank; config NULL means the defaults. In a group the init calls (also the two
 * others, not omnesCommInitAll) are only noted; omnesGroupEnd makes the communicators, side by
 * side, all or none. With config.blocking 0 it checks its
 * arguments, sets *comm and returns omnesInProgress while the ranks meet in the background: poll
 * omnesCommGetAsyncError until it is no longer omnesInProgress. Until then the communicator can
 * only be queried, aborted or destroyed (which then aborts); other calls are omnesInvalidUsage. */
OMNES_EXPORT omnesResult_t omnesCommInitRankConfig(omnesComm_t* comm, int nranks,
                                                   omnesUniqueId commId, int rank,
                                                   const omnesConfig_t* config);

/* As omnesCommInitRankConfig, with nId ids (1 to nranks of them, borrowed during the call; the same
 * in the same order on all ranks), each made by omnesGetUniqueId of a process that lives until all
 * have met. The secrets of all of them are in the key with which ranks prove themselves to each
 * other. In this version the host of the first id serves all ranks; each other id is only used up,
 * by one rank. omnesInvalidArgument also: nId out of range, an id twice; omnesInvalidUsage also:
 * ranks have different ids. Other results as omnesCommInitRank. Any thread. */
OMNES_EXPORT omnesResult_t omnesCommInitRankScalable(omnesComm_t* comm, int nranks, int rank,
                                                     int nId, const omnesUniqueId* ids,
                                                     const omnesConfig_t* config);

/* A key-value store that all ranks reach. Growable: size first, fields are only ever appended.
 * Start from OMNES_STORE_INITIALIZER. The callbacks run on a thread of the library, one at a time.
 * Each returns omnesSuccess, or a result that the call then fails with: omnesTimeout as it is, any
 * other as omnesSystemError, with the number in the message. One that does not return in time is
 * left behind: it, and what it uses through user, must be good until it has returned. */
typedef struct {
  size_t size;
  void* user;         /* passed to the callbacks */
  const char* prefix; /* of keys; one for each communicator, at most OMNES_STORE_MAX_PREFIX
                         characters, the same on all ranks */
  /* Stores bytes under a key, both borrowed. */
  omnesResult_t (*put)(void* user, const char* key, const void* value, size_t bytes);
  /* Copies what is stored to value, at most capacity bytes, and sets *bytes to how many there are.
   */
  omnesResult_t (*get)(void* user, const char* key, void* value, size_t capacity, size_t* bytes);
  /* Waits until there is something under the key, at most timeoutMs; then omnesTimeout. It is
   * called again until initTimeoutMs have passed. */
  omnesResult_t (*wait)(void* user, const char* key, int timeoutMs);
} omnesStore_t;
#define OMNES_STORE_MAX_PREFIX 256
#define OMNES_STORE_INITIALIZER \
  { sizeof(omnesStore_t), NULL, NULL, NULL, NULL, NULL }

/* As omnesCommInitRankConfig, without an id: rank 0 makes one and puts it into the store under
 * "PREFIX/id", where the others wait for it. It has the key of the communicator in it: who can read
 * the store can take part. store is borrowed during the call, what it points at until the
 * communicator is made. Nothing is removed from the store; another communicator needs another
 * prefix. omnesInvalidArgument also: NULL store or callback, empty prefix; omnesInvalidUsage also:
 * something else is under that key; omnesSystemError also: the store failed. Other results as
 * omnesCommInitRank. Any thread. */
OMNES_EXPORT omnesResult_t omnesCommInitStore(omnesComm_t* comm, int nranks, int rank,
                                              const omnesStore_t* store,
                                              const omnesConfig_t* config);

/* Makes nranks ranks in this process: comms[i] (array of nranks, owned by the caller) is rank i.
 * Use each from a thread of its own, or group the calls of one thread (omnesGroupStart). deviceList
 * is accepted for NCCL's signature and ignored. All or none are set. Results as omnesCommInitRank.
 * Any thread. */
OMNES_EXPORT omnesResult_t omnesCommInitAll(omnesComm_t* comms, int nranks, const int* deviceList);

/* Joins the communicator that the environment describes: OMNES_RANK and OMNES_NRANKS, or what the
 * launcher sets (Open MPI, MPICH/Hydra, Slurm, torchrun). The ranks meet at
 * OMNES_COMM_ID=host:port, else where rank 0 says through the launcher's PMIx server if it has one
 * (Open MPI), else, when the launcher says that all ranks are on this host, at an abstract socket
 * named by job and user. config may be NULL. As omnesCommInitRank; omnesInvalidUsage also when
 * rank, size or meeting point cannot be found: the message names the variable to set. Any thread;
 * a process that makes several makes them in the same order as the others. */
OMNES_EXPORT omnesResult_t omnesCommInitEnv(omnesComm_t* comm, const omnesConfig_t* config);

/* ---- communicators out of communicators ------------------------------------------------------- *
 * The ranks of comm find together over connections of their own, so that comm need not work any
 * more; what they make shares nothing with it and lives longer or shorter. A communicator has a
 * fresh key, which is derived from that of comm. config NULL: as comm; else as in
 * omnesCommInitRankConfig, also for config.blocking 0, with which *newcomm is known at once and
 * its rank and size (omnesCommUserRank) once it is made. The deadline is initTimeoutMs. In a group
 * they are only noted, as init calls are; several on one comm are made in the order of their calls,
 * which must be the same on all ranks. They need no operation of comm to have ended. Aborting or
 * destroying comm meanwhile ends them. comm stays the caller's to destroy. */

#define OMNES_SPLIT_NOCOLOR (-1)

/* Makes a communicator for each color: of the ranks that pass it, in the order of key, then of
 * rank. Collective over all ranks of comm. OMNES_SPLIT_NOCOLOR: *newcomm becomes NULL (always when
 * the others have come, as if blocking). *newcomm is set only on success and is then owned by the
 * caller.
 * omnesSuccess; omnesInProgress; omnesInvalidArgument: NULL pointer, another negative color, bad
 * config; omnesInvalidUsage: comm was finalized or is still being made, ranks called different
 * things or have different settings; omnesTimeout: names the ranks that have not come;
 * omnesRemoteError: a rank of comm is dead or died; omnesSystemError. One thread at a time for one
 * comm, as for its collectives. */
OMNES_EXPORT omnesResult_t omnesCommSplit(omnesComm_t comm, int color, int key,
                                          omnesComm_t* newcomm, const omnesConfig_t* config);

#define OMNES_SHRINK_DEFAULT 0 /* comm is in order, and goes on working */
#define OMNES_SHRINK_ABORT 1   /* breaks comm first, as omnesCommRevoke does */
#define OMNES_SHRINK_FAILED 2  /* the same, and the ranks agree on who has failed */

/* Makes a communicator of the ranks of comm without those of excludeList (ranks of comm,
 * excludeCount of them, borrowed during the call), which do not call it; the others keep their
 * order. They all call it, with equal lists and flags. With OMNES_SHRINK_FAILED the ranks that live
 * agree on the dead: each brings what it knows and what it lists (NULL and 0 are allowed, lists may
 * differ), and a rank that dies meanwhile is left out as well. Ranks that have noticed no failure
 * get one (omnesInvalidUsage, from their calls on comm), since their callers must come here, too. A
 * rank that others take for dead, because it cannot be reached or has ended comm, gets
 * omnesRemoteError.
 * omnesSuccess; omnesInProgress; omnesInvalidArgument: NULL pointer, excludeCount < 1 or list NULL
 * (except with OMNES_SHRINK_FAILED), no such rank, the calling rank is listed, bad flags or config;
 * omnesInvalidUsage: as omnesCommSplit, or different lists; omnesTimeout: names the ranks that
 * have not come; omnesRemoteError: a rank that is not listed is dead; with OMNES_SHRINK_FAILED: one
 * died while they connected, and some ranks may have a *newcomm that is broken: call again on comm,
 * on all ranks; omnesSystemError. One thread at a time for one comm. */
OMNES_EXPORT omnesResult_t omnesCommShrink(omnesComm_t comm, const int* excludeList,
                                           int excludeCount, omnesComm_t* newcomm,
                                           const omnesConfig_t* config, int flags);

/* Makes an id for omnesCommGrow, as omnesGetUniqueId does: for one call, and this process must live
 * until all have met. Pass it to the new ranks. Results as omnesGetUniqueId; omnesInvalidArgument
 * also: not a live communicator. Any thread. */
OMNES_EXPORT omnesResult_t omnesCommGetUniqueId(omnesComm_t comm, omnesUniqueId* uniqueId);

/* Makes a communicator of nranks ranks: those of comm, which keep their numbers and pass rank -1,
 * and new ones, which pass comm NULL, the id, and their rank (from the size of comm on). Of the
 * ranks of comm at least the one that made the id passes it (borrowed during the call); the others
 * may pass NULL. Collective over all of them.
 * omnesSuccess; omnesInProgress; omnesInvalidArgument: NULL pointer, nranks not above the size of
 * comm, rank out of range or not -1, bad config, not an id; omnesInvalidUsage: as omnesCommSplit
 * and omnesCommInitRank, ranks disagree on nranks or passed different ids, or none; omnesTimeout:
 * names the ranks that have not come; omnesRemoteError; omnesSystemError. One thread at a time for
 * one comm. */
OMNES_EXPORT omnesResult_t omnesCommGrow(omnesComm_t comm, int nranks,
                                         const omnesUniqueId* uniqueId, int rank,
                                         omnesComm_t* newcomm, const omnesConfig_t* config);

/* Breaks the communicator on all ranks, unless it is broken already: pending and later operations
 * end with omnesInvalidUsage ("rank N revoked the communicator"), there and here. It can still be
 * split, shrunk and grown from, queried and destroyed. Returns when no thread of this process is
 * inside an operation of a stream or a group any more; the other ranks hear of it as of any
 * failure. flags must be 0. NULL is omnesSuccess. omnesInvalidArgument: bad flags, revoked before,
 * not a live communicator; omnesInvalidUsage: still being made. Any thread. */
OMNES_EXPORT omnesResult_t omnesCommRevoke(omnesComm_t comm, int flags);

/* Ends the use of a communicator: waits until this rank's operations are done, in streams too, and
 * returns the communicator's first failure. NULL is omnesSuccess. omnesInvalidArgument: finalized
 * before; omnesInvalidUsage: called from a callback of a stream that holds operations of it. */
OMNES_EXPORT omnesResult_t omnesCommFinalize(omnesComm_t comm);
/* Frees a communicator (finalizing it if need be: waits for this rank's operations in streams).
 * Does not wait for other ranks' operations. NULL is omnesSuccess. omnesInvalidArgument: not a live
 * communicator, e.g. destroyed before (best effort); omnesInvalidUsage: another thread is inside a
 * call on it, which stays as it is (best effort). */
OMNES_EXPORT omnesResult_t omnesCommDestroy(omnesComm_t comm);
/* Ends every call that is blocked on the communicator, on all ranks, with an error, and every
 * operation of it that stands in a stream or a group; then waits (at most one second) until none is
 * inside it and frees it. Buffers may be freed as soon as it has returned; streams stay usable. A
 * call of another thread that was about to use the communicator gets omnesInvalidArgument. NULL is
 * omnesSuccess. omnesInvalidArgument as Destroy. Any thread. */
OMNES_EXPORT omnesResult_t omnesCommAbort(omnesComm_t comm);

/* ---- queries (any thread) -------------------------------------------------------------------- */

/* The first error of the communicator, or omnesSuccess; omnesInProgress while it is being made.
 * omnesInvalidArgument: a NULL pointer. */
OMNES_EXPORT omnesResult_t omnesCommGetAsyncError(omnesComm_t comm, omnesResult_t* asyncError);
/* The ranks that have died, or have ended the communicator although it is broken: what this rank
 * knows of, in ascending order. *n is how many numbers fit into ranks (an array of the caller's;
 * the size of the communicator always does), and becomes how many there are; no more than fit are
 * written. ranks NULL: only *n is written. omnesSuccess; omnesInvalidArgument: comm or n NULL, *n
 * negative, not a live communicator. */
OMNES_EXPORT omnesResult_t omnesCommGetFailedRanks(omnesComm_t comm, int* ranks, int* n);
/* omnesSuccess; omnesInvalidArgument: a NULL pointer. */
OMNES_EXPORT omnesResult_t omnesCommCount(omnesComm_t comm, int* count);
OMNES_EXPORT omnesResult_t omnesCommUserRank(omnesComm_t comm, int* rank);

/* ---- streams --------------------------------------------------------------------------------- */

/* Any thread may use any stream. The operations of one communicator are one sequence, in the order
 * of the calls, whatever streams they are given; what one stream holds is carried out in the order
 * in which it was enqueued. */

/* Makes a stream; *stream is set only on success and is then owned by the caller.
 * omnesSuccess; omnesInvalidArgument: stream is NULL; omnesSystemError: no thread. Any thread. */
OMNES_EXPORT omnesResult_t omnesStreamCreate(omnesStream_t* stream);
/* Waits until all that was enqueued has been carried out (or has failed), then frees the stream.
 * NULL is omnesSuccess. omnesInvalidArgument: not a live stream (best effort); omnesInvalidUsage:
 * called from a callback of the stream, or the stream was made before a fork. */
OMNES_EXPORT omnesResult_t omnesStreamDestroy(omnesStream_t stream);
/* Waits until all that has been enqueued so far is done, and helps with it. Returns the first
 * failure of an operation of this stream since the last omnesStreamSynchronize, else omnesSuccess.
 * The wait ends as operations do: at their deadlines, or when their communicators fail or are
 * aborted. omnesInvalidArgument: not a live stream; omnesInvalidUsage: called from a callback of
 * the stream. Any thread. */
OMNES_EXPORT omnesResult_t omnesStreamSynchronize(omnesStream_t stream);
/* omnesSuccess when all that was enqueued is done, omnesInProgress when not, or the first failure
 * as omnesStreamSynchronize would return it (which still will). Never waits. Any thread. */
OMNES_EXPORT omnesResult_t omnesStreamQuery(omnesStream_t stream);

/* status: the first failure of an operation of the stream since the callback before, or
 * omnesSuccess. */
typedef void (*omnesStreamCallback_t)(omnesStream_t stream, omnesResult_t status, void* userData);
/* Enqueues a call of callback, which runs on a thread of the library once all that was enqueued
 * before is done. It may call omnes, but not wait for its own stream: a call without a stream, for
 * which operations of its communicator that stand behind the callback would have to end first, is
 * omnesInvalidUsage; where that takes more than one stream, the call ends with omnesTimeout.
 * An exception that leaves it is caught. flags must be 0.
 * omnesSuccess; omnesInvalidArgument: not a live stream, callback NULL, flags not 0. Any thread. */
OMNES_EXPORT omnesResult_t omnesStreamAddCallback(omnesStream_t stream,
                                                  omnesStreamCallback_t callback, void* userData,
                                                  unsigned int flags);

/* ---- groups ---------------------------------------------------------------------------------- */

/* Opens a group in this thread: the collectives, sends and receives that follow are only noted,
 * until the matching omnesGroupEnd starts them together. Groups nest; the outermost end counts. A
 * thread that has several ranks must group their calls: a wait that nobody but the waiting thread
 * could end is omnesInvalidUsage where that can be told. All other calls act at once; ending a
 * communicator drops its noted operations and makes the group fail. omnesSuccess. */
OMNES_EXPORT omnesResult_t omnesGroupStart(void);
/* Starts what the group has noted. Operations with a NULL stream have ended when it returns, those
 * with a stream are enqueued. A call of the group that was refused for its arguments makes the
 * whole group fail with that result: nothing of it is started and all communicators stay usable.
 * Communicators that the group makes come first, then the operations. Else the first failure of an
 * operation that it waited for. omnesInvalidUsage: no group is open. */
OMNES_EXPORT omnesResult_t omnesGroupEnd(void);

/* ---- operators ------------------------------------------------------------------------------- */

/* Creates op: each rank's contribution times *scalar (of `datatype`, read during the call), then
 * summed. All ranks create their operators in the same order; scalars may differ. omnesSuccess;
 * omnesInvalidArgument. */
OMNES_EXPORT omnesResult_t omnesRedOpCreatePreMulSum(omnesRedOp_t* op, void* scalar,
                                                     omnesDataType_t datatype,
                                                     omnesScalarResidence_t residence,
                                                     omnesComm_t comm);
/* Frees a created operator. omnesInvalidArgument: built in, or not an operator of comm. */
OMNES_EXPORT omnesResult_t omnesRedOpDestroy(omnesRedOp_t op, omnesComm_t comm);

/* ---- collectives ------------------------------------------------------------------------------ *
 * Buffers are owned by the caller and belong to the operation until it has ended: until the call
 * returns, or, in a stream or a group, as said there. In place as
 * in NCCL (each says how); any other overlap is omnesInvalidArgument. A buffer may be NULL when
 * its size is zero. Any alignment works. Results of each: omnesSuccess; omnesInvalidArgument: NULL
 * communicator or buffer, unknown type or operator, root outside [0, nranks), overlap, size beyond
 * 2^63; omnesInvalidUsage:
 * ranks called different operations, counts, types, operators or roots (the message has both
 * sides), or the communicator was finalized; omnesRemoteError; omnesTimeout; omnesSystemError;
 * omnesNotSupported: no algorithm does it. With a stream the last four come later, as said there.
 * All ranks end with identical bits. */

/* recvbuff[i] = op over ranks of sendbuff[i], count elements each. In place: sendbuff == recvbuff.
 */
OMNES_EXPORT omnesResult_t omnesAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                          omnesDataType_t datatype, omnesRedOp_t op,
                                          omnesComm_t comm, omnesStream_t stream);
/* As omnesAllReduce, on rank root only: recvbuff matters there alone, elsewhere it may be NULL. In
 * place on the root: sendbuff == recvbuff. A rank that is not the root may return before the root
 * has called. */
OMNES_EXPORT omnesResult_t omnesReduce(const void* sendbuff, void* recvbuff, size_t count,
                                       omnesDataType_t datatype, omnesRedOp_t op, int root,
                                       omnesComm_t comm, omnesStream_t stream);
/* recvbuff of every rank gets rank root's sendbuff, count elements; sendbuff matters on the root
 * alone, elsewhere it may be NULL. In place on the root: sendbuff == recvbuff. The root may return
 * before the others have called; where ranks disagree it then learns it from
 * omnesCommGetAsyncError within a second, and from its next call. This holds for every rank that
 * has only to give, in the other collectives with a root, too. */
OMNES_EXPORT omnesResult_t omnesBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                          omnesDataType_t datatype, int root, omnesComm_t comm,
                                          omnesStream_t stream);
/* omnesBroadcast in place: buff is read on the root and written elsewhere. */
OMNES_EXPORT omnesResult_t omnesBcast(void* buff, size_t count, omnesDataType_t datatype, int root,
                                      omnesComm_t comm, omnesStream_t stream);
/* Rank r gets block r of the reduction: sendbuff has nranks * recvcount elements, recvbuff
 * recvcount. In place: recvbuff == sendbuff + rank * recvcount elements. */
OMNES_EXPORT omnesResult_t omnesReduceScatter(const void* sendbuff, void* recvbuff,
                                              size_t recvcount, omnesDataType_t datatype,
                                              omnesRedOp_t op, omnesComm_t comm,
                                              omnesStream_t stream);
/* recvbuff gets rank r's sendbuff at element r * sendcount. In place: sendbuff == recvbuff + rank
 * * sendcount. */
OMNES_EXPORT omnesResult_t omnesAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                          omnesDataType_t datatype, omnesComm_t comm,
                                          omnesStream_t stream);
/* recvbuff gets at element r * count what rank r has in its sendbuff at element rank * count, count
 * elements; both have nranks * count. Never in place: any overlap is omnesInvalidArgument. */
OMNES_EXPORT omnesResult_t omnesAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                         omnesDataType_t datatype, omnesComm_t comm,
                                         omnesStream_t stream);
/* recvbuff of rank root, which has nranks * count elements, gets rank r's sendbuff at element
 * r * count; elsewhere recvbuff may be NULL. In place on the root: sendbuff == recvbuff + root *
 * count. */
OMNES_EXPORT omnesResult_t omnesGather(const void* sendbuff, void* recvbuff, size_t count,
                                       omnesDataType_t datatype, int root, omnesComm_t comm,
                                       omnesStream_t stream);
/* recvbuff of rank r gets count elements from element r * count of rank root's sendbuff, which has
 * nranks * count elements; elsewhere sendbuff may be NULL. In place on the root: recvbuff ==
 * sendbuff + root * count. */
OMNES_EXPORT omnesResult_t omnesScatter(const void* sendbuff, void* recvbuff, size_t count,
                                        omnesDataType_t datatype, int root, omnesComm_t comm,
                                        omnesStream_t stream);
/* Returns when every rank has entered it. */
OMNES_EXPORT omnesResult_t omnesBarrier(omnesComm_t comm, omnesStream_t stream);

/* ---- collectives with a count for every rank ------------------------------------------------- *
 * Counts and displacements are in elements; the arrays have nranks entries, and are read during
 * the call. Block r of a buffer has counts[r] elements from element displs[r] on. Blocks may lie
 * in any order and with gaps, which are neither read nor written; blocks that are written must not
 * overlap. A count of 0 needs no buffer. Beside the results above, omnesInvalidArgument: an array
 * is NULL, blocks overlap, the counts of this rank for itself differ, a count above 2^45 - 1 or a
 * block that ends behind 2^63 bytes. */

/* As omnesAllGather: recvbuff gets rank r's sendbuff as block r. sendcount is recvcounts of this
 * rank. All ranks pass the same recvcounts (omnesInvalidUsage if not); displs are this rank's own.
 * In place: sendbuff is block `rank` of recvbuff. */
OMNES_EXPORT omnesResult_t omnesAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                           const size_t recvcounts[], const size_t displs[],
                                           omnesDataType_t datatype, omnesComm_t comm,
                                           omnesStream_t stream);
/* As omnesReduceScatter: the blocks of sendbuff lie one behind another, and rank r gets block r of
 * the reduction. All ranks pass the same recvcounts (omnesInvalidUsage if not). In place: recvbuff
 * is block `rank` of sendbuff. */
OMNES_EXPORT omnesResult_t omnesReduceScatterV(const void* sendbuff, void* recvbuff,
                                               const size_t recvcounts[], omnesDataType_t datatype,
                                               omnesRedOp_t op, omnesComm_t comm,
                                               omnesStream_t stream);
/* Sends block r of sendbuff to rank r, and receives block r of recvbuff from it. What a rank sends
 * another is as long as that expects (omnesInvalidUsage if not). Never in place. */
OMNES_EXPORT omnesResult_t omnesAlltoAllV(const void* sendbuff, const size_t sendcounts[],
                                          const size_t sdispls[], void* recvbuff,
                                          const size_t recvcounts[], const size_t rdispls[],
                                          omnesDataType_t datatype, omnesComm_t comm,
                                          omnesStream_t stream);
/* Rank root gets rank r's sendbuff as block r of recvbuff; recvbuff, recvcounts and displs matter
 * there only. What a rank sends is as long as the root expects (omnesInvalidUsage if not). In place
 * on the root: sendbuff is block `root` of recvbuff. */
OMNES_EXPORT omnesResult_t omnesGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                                        const size_t recvcounts[], const size_t displs[],
                                        omnesDataType_t datatype, int root, omnesComm_t comm,
                                        omnesStream_t stream);
/* Rank r gets block r of rank root's sendbuff; sendbuff, sendcounts and displs matter there only,
 * and its blocks may overlap. What a rank expects is as long as the root sends (omnesInvalidUsage
 * if not). In place on the root: recvbuff is block `root` of sendbuff. */
OMNES_EXPORT omnesResult_t omnesScatterV(const void* sendbuff, const size_t sendcounts[],
                                         const size_t displs[], void* recvbuff, size_t recvcount,
                                         omnesDataType_t datatype, int root, omnesComm_t comm,
                                         omnesStream_t stream);

/* ---- messages from rank to rank -------------------------------------------------------------- *
 * The n-th send of a rank to another belongs to that one's n-th receive from it; their counts and
 * types must be equal, also where both are 0 (omnesInvalidUsage on both, with both sides). A send
 * has ended when its receive has been called and matched, whatever the size. What a group (per
 * communicator and stream) has of sends and receives is one operation, behind the collectives of
 * the group: its messages progress side by side, so that the order of calls for different ranks
 * does not matter, only that between two ranks. Outside a group each is an operation of its own,
 * and a rank that first sends to one that first sends to it waits for ever, or until timeoutMs.
 * A rank that waits for a message of one that waits for it in a collective is told: both get
 * omnesInvalidUsage, as all ranks do.
 * To itself a rank sends only inside a group that also has the receive; else omnesInvalidUsage,
 * and the communicator stays usable. Results as collectives; omnesInvalidArgument: peer is no rank,
 * or count is above 2^45 - 1. */

/* Sends count elements to rank peer. */
OMNES_EXPORT omnesResult_t omnesSend(const void* sendbuff, size_t count, omnesDataType_t datatype,
                                     int peer, omnesComm_t comm, omnesStream_t stream);
/* Receives count elements from rank peer. */
OMNES_EXPORT omnesResult_t omnesRecv(void* recvbuff, size_t count, omnesDataType_t datatype,
                                     int peer, omnesComm_t comm, omnesStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
