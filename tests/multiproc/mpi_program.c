/* A program that uses MPI and omnes: mpi_program [SCENARIO]. The last word of each rank is a line
 * "result CODE TEXT"; the exit code is 0 when it went as the scenario wants.
 *   all         the world, its halves, and each rank alone
 *   early       omnesCommInitMPI before MPI_Init, then as all
 *   null        rank 1 passes NULL
 *   env         omnesCommInitEnv, which may use what MPI uses, before, between and beside its calls
 *   env-after   the same, and once more after MPI_Finalize */
#include <omnes/omnes_mpi.h>

static int report(omnesResult_t result) {
  printf("result %d %s\n", (int)result, result == omnesSuccess ? "" : omnesGetLastError(NULL));
  fflush(stdout);
  return result != omnesSuccess;
}

/* Joins the ranks of mpiComm, sums their ranks + 1, and compares with MPI. */
static omnesResult_t tryOut(MPI_Comm mpiComm) {
  omnesComm_t comm = NULL;
  float mine, sum = 0, expected = 0;
  int rank, size, omnesRank = -1, omnesSize = -1;
  omnesResult_t result = omnesCommInitMPI(&comm, mpiComm, NULL);
  if (result != omnesSuccess) return result;
  MPI_Comm_rank(mpiComm, &rank);
  MPI_Comm_size(mpiComm, &size);
  omnesCommUserRank(comm, &omnesRank);
  omnesCommCount(comm, &omnesSize);
  if (rank != omnesRank || size != omnesSize) {
    return omnesSetLastError(omnesInternalError, "the ranks are not those of MPI");
  }
  mine = (float)(rank + 1);
  result = omnesAllReduce(&mine, &sum, 1, omnesFloat32, omnesSum, comm, NULL);
  MPI_Allreduce(&mine, &expected, 1, MPI_FLOAT, MPI_SUM, mpiComm);
  omnesCommDestroy(comm);
  if (result == omnesSuccess && sum != expected) {
    return omnesSetLastError(omnesInternalError, "the sum is not that of MPI");
  }
  return result;
}

static omnesResult_t everything(void) {
  MPI_Comm half;
  int rank;
  omnesResult_t result = tryOut(MPI_COMM_WORLD);
  if (result != omnesSuccess) return result;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  result = tryOut(half);
  MPI_Comm_free(&half);
  return result != omnesSuccess ? result : tryOut(MPI_COMM_SELF);
}

/* Joins and leaves through the environment. */
static omnesResult_t joinByEnvironment(void) {
  omnesComm_t comm = NULL;
  float mine = 1, sum = 0;
  int size = 0;
  omnesResult_t result = omnesCommInitEnv(&comm, NULL);
  if (result != omnesSuccess) return result;
  omnesCommCount(comm, &size);
  result = omnesAllReduce(&mine, &sum, 1, omnesFloat32, omnesSum, comm, NULL);
  omnesCommDestroy(comm);
  if (result == omnesSuccess && sum != (float)size) {
    return omnesSetLastError(omnesInternalError, "the sum is not the number of ranks");
  }
  return result;
}

static omnesResult_t besideMpi(int* argc, char*** argv, int after) {
  omnesResult_t result = joinByEnvironment();
  if (result != omnesSuccess) return result;
  MPI_Init(argc, argv);
  result = joinByEnvironment();
  if (result == omnesSuccess) result = everything();
  if (result == omnesSuccess) result = joinByEnvironment();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return result == omnesSuccess && after ? joinByEnvironment() : result;
}

int main(int argc, char** argv) {
  const char* scenario = argc > 1 ? argv[1] : "all";
  omnesComm_t comm = NULL;
  omnesResult_t result;
  int rank, failed;
  if (strcmp(scenario, "early") == 0 &&
      (omnesCommInitMPI(&comm, MPI_COMM_NULL, NULL) != omnesInvalidUsage ||
       strstr(omnesGetLastError(NULL), "MPI_Init") == NULL)) {
    return 2;
  }
  if (strncmp(scenario, "env", 3) == 0) {
    return report(besideMpi(&argc, &argv, strcmp(scenario, "env-after") == 0));
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(scenario, "null") == 0) {
    result = omnesCommInitMPI(rank == 1 ? NULL : &comm, MPI_COMM_WORLD, NULL);
  } else {
    result = everything();
  }
  failed = report(result);
  MPI_Finalize();
  return failed;
}
