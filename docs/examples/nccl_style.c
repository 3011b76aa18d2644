/* A program written for NCCL: one thread drives all ranks in groups. It knows nothing of omnes; with include/omnes/compat on
 * the include path it runs on host memory. */
#include <nccl.h>
#include <stdio.h>

#define RANKS 3
#define COUNT 5

#define CHECK(call)                                                                    \
  do {                                                                                 \
    const ncclResult_t result_ = (call);                                               \
    if (result_ != ncclSuccess) {                                                      \
      fprintf(stderr, "%s: %s\n", ncclGetErrorString(result_), ncclGetLastError(NULL)); \
      return 1;                                                                        \
    }                                                                                  \
  } while (0)

int main(void) {
  ncclComm_t comms[RANKS];
  cudaStream_t streams[RANKS];
  float values[RANKS][COUNT], around[RANKS][COUNT];
  int wrong = 0, version = 0;
  CHECK(ncclGetVersion(&version));
  CHECK(ncclCommInitAll(comms, RANKS, NULL));
  for (int rank = 0; rank < RANKS; rank++) {
    if (cudaStreamCreate(&streams[rank]) != cudaSuccess) return 1;
    for (int i = 0; i < COUNT; i++) values[rank][i] = (float)(rank + i);
  }
  CHECK(ncclGroupStart());
  for (int rank = 0; rank < RANKS; rank++)
    CHECK(ncclAllReduce(values[rank], values[rank], COUNT, ncclFloat, ncclSum, comms[rank], streams[rank]));
  CHECK(ncclGroupEnd());
  /* Each sends its sums to the next. */
  CHECK(ncclGroupStart());
  for (int rank = 0; rank < RANKS; rank++) {
    CHECK(ncclSend(values[rank], COUNT, ncclFloat, (rank + 1) % RANKS, comms[rank], streams[rank]));
    CHECK(ncclRecv(around[rank], COUNT, ncclFloat, (rank + RANKS - 1) % RANKS, comms[rank], streams[rank]));
  }
  CHECK(ncclGroupEnd());
  for (int rank = 0; rank < RANKS; rank++) {
    if (cudaStreamSynchronize(streams[rank]) != cudaSuccess) return 1;
    for (int i = 0; i < COUNT; i++) {
      const float sum = (float)(RANKS * i + RANKS * (RANKS - 1) / 2);
      if (values[rank][i] != sum || around[rank][i] != sum) wrong++;
    }
    if (cudaStreamDestroy(streams[rank]) != cudaSuccess) return 1;
    CHECK(ncclCommDestroy(comms[rank]));
  }
  printf("%d wrong\n", wrong);
  return wrong != 0;
}
