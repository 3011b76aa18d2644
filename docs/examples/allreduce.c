#include <omnes/omnes.h>
#include <stdio.h>

int main(void) {
  omnesComm_t comm = NULL;
  int rank = -1, nranks = 0;
  float values[4];
  omnesResult_t result = omnesCommInitEnv(&comm, NULL);
  if (result == omnesSuccess) {
    omnesCommUserRank(comm, &rank);
    omnesCommCount(comm, &nranks);
    for (int i = 0; i < 4; i++) values[i] = (float)(rank + i);
    result = omnesAllReduce(values, values, 4, omnesFloat32, omnesSum, comm, NULL);
  }
  if (result != omnesSuccess) fprintf(stderr, "%s\n", omnesGetLastError(comm));
  else printf("rank %d of %d: %g %g %g %g\n", rank, nranks, values[0], values[1], values[2], values[3]);
  omnesCommDestroy(comm);
  return result != omnesSuccess;
}
