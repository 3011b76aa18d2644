/* One rank of the gate `derive`: splits its communicator again and again, and keeps what it gets.
 * Rank 0 prints the milliseconds of each split: "whole T ..." of splits that keep all ranks
 * together, "single T ..." of splits into communicators of one rank each.
 *
 *   gate_derive COUNT, joined through OMNES_RANK, OMNES_NRANKS and OMNES_COMM_ID */
#include <omnes/omnes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double nowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void check(omnesResult_t result, omnesComm_t comm) {
  if (result == omnesSuccess) return;
  fprintf(stderr, "%s\n", omnesGetLastError(comm));
  exit(1);
}

/* Each is used once, and lives until the end. */
static void splitMany(omnesComm_t comm, int rank, int color, const char* name, int count) {
  if (rank == 0) printf("%s", name);
  for (int i = 0; i < count; ++i) {
    omnesComm_t made = NULL;
    check(omnesBarrier(comm, NULL), comm);
    const double start = nowMs();
    check(omnesCommSplit(comm, color, 0, &made, NULL), NULL);
    check(omnesBarrier(made, NULL), made);
    if (rank == 0) printf(" %.3f", nowMs() - start);
  }
  if (rank == 0) printf("\n");
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 64;
  omnesComm_t comm = NULL;
  int rank = 0;
  check(omnesCommInitEnv(&comm, NULL), NULL);
  check(omnesCommUserRank(comm, &rank), comm);
  splitMany(comm, rank, 0, "whole", count);
  splitMany(comm, rank, rank, "single", count);
  check(omnesBarrier(comm, NULL), comm);
  return 0;
}
