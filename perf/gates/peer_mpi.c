/* The peer's side of the gates: the same loop on MPI. Built by perf/gates/run with mpicc. MPI ends
 * the process on errors by itself. */
#include <mpi.h>

#include "worker.h"

static void sumFloats(const float* send, float* recv, size_t count) {
  MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void sumDoubles(double* values, size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

int main(int argc, char** argv) {
  struct Library library = {0, 0, sumFloats, sumDoubles, barrier};
  MPI_Init(&argc, &argv);
  if (argc != 3) return 6;
  MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &library.nranks);
  serve(&library, argv);
  MPI_Finalize();
  return 0;
}
