/* Our side of the gates: ranks are processes described by the environment. */
#include "omnes/omnes.h"
#include "worker.h"

static omnesComm_t comm;

static void must(omnesResult_t result, const char* call) {
  if (result == omnesSuccess) return;
  const char* text = omnesGetLastError(NULL);
  fprintf(stderr, "%s: %s: %s\n", call, omnesGetErrorString(result), text);
  exit(3);
}

static void sumFloats(const float* send, float* recv, size_t count) {
  must(omnesAllReduce(send, recv, count, omnesFloat32, omnesSum, comm, NULL), "omnesAllReduce");
}

static void sumDoubles(double* values, size_t count) {
  must(omnesAllReduce(values, values, count, omnesFloat64, omnesSum, comm, NULL), "omnesAllReduce");
}

static void barrier(void) { must(omnesBarrier(comm, NULL), "omnesBarrier"); }

int main(int argc, char** argv) {
  struct Library library = {0, 0, sumFloats, sumDoubles, barrier};
  if (argc != 3) return 6;
  must(omnesCommInitEnv(&comm, NULL), "omnesCommInitEnv");
  must(omnesCommUserRank(comm, &library.rank), "omnesCommUserRank");
  must(omnesCommCount(comm, &library.nranks), "omnesCommCount");
  serve(&library, argv);
  must(omnesCommDestroy(comm), "omnesCommDestroy");
  return 0;
}
