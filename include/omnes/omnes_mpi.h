/* omnes in a program that uses MPI: a communicator of the ranks of an MPI communicator.
 *
 * Header only, for any MPI from version 3 on: the library itself knows no MPI, and this file is
 * compiled with yours. MPI carries the unique id from one rank to the others; after that omnes and
 * MPI have nothing to do with each other.
 *
 * C99 and C++. omnesGetLastError(NULL) has the text of every failure.
 */
#ifndef OMNES_OMNES_MPI_H_
#define OMNES_OMNES_MPI_H_

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "omnes/omnes.h"

#define OMNES_MPI_TEXT_BYTES 512

/* ---- private ----------------------------------------------------------------------------------
 */

static inline omnesResult_t omnesMpiFail_(omnesResult_t result, const char* text) {
  return omnesSetLastError(result, text);
}

/* How many processes the launcher says it has started, and the variable that says so; 1 when none
 * does. A shell inside an allocation has the size alone: the rank makes it a process of a job. */
static inline long omnesMpiLauncherSize_(const char** variable) {
  static const char* const launchers[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                             {"PMI_SIZE", "PMI_RANK"},
                                             {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
  size_t i;
  for (i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
    const char* size = getenv(launchers[i][0]);
    if (size != NULL && getenv(launchers[i][1]) != NULL && strtol(size, NULL, 10) > 1) {
      *variable = launchers[i][0];
      return strtol(size, NULL, 10);
    }
  }
  return 1;
}

/* A program of one MPI under the launcher of another: each process is rank 0 of 1, and all of them
 * would compute alone and be content. */
static inline omnesResult_t omnesMpiCheckLauncher_(void) {
  char text[OMNES_MPI_TEXT_BYTES];
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  const char* variable = "";
  int size = 0, length = 0;
  long started;
  if (MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || size != 1) return omnesSuccess;
  started = omnesMpiLauncherSize_(&variable);
  if (started <= 1) return omnesSuccess;
  version[0] = '\0';
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = '\0';
  snprintf(text, sizeof text,
           "%s says that %ld processes were started, but MPI_COMM_WORLD has one rank: this program "
           "was built for another MPI (%.100s) than its launcher's; start it with the mpirun of "
           "that MPI, or build it with the mpicc of the launcher's",
           variable, started, version);
  return omnesMpiFail_(omnesInvalidUsage, text);
}

/* What one process can see by itself, before any other is concerned. */
static inline omnesResult_t omnesMpiCheckAlone_(MPI_Comm mpiComm) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (!initialized) {
    return omnesMpiFail_(omnesInvalidUsage,
                         "omnesCommInitMPI: MPI is not initialised; call MPI_Init first");
  }
  if (finalized) {
    return omnesMpiFail_(omnesInvalidUsage,
                         "omnesCommInitMPI: MPI has been finalised; call it before MPI_Finalize");
  }
  if (mpiComm == MPI_COMM_NULL) {
    return omnesMpiFail_(omnesInvalidArgument, "omnesCommInitMPI: mpiComm is MPI_COMM_NULL");
  }
  return omnesMpiCheckLauncher_();
}

/* All ranks learn whether one of them cannot go on, and its text, so that nobody waits for it. */
static inline omnesResult_t omnesMpiAgree_(omnesResult_t own, MPI_Comm mpiComm, int rank) {
  struct {
    int code;
    int rank;
  } mine, worst;
  char text[OMNES_MPI_TEXT_BYTES];
  mine.code = (int)own;
  mine.rank = rank;
  if (MPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, mpiComm) != MPI_SUCCESS) {
    return omnesMpiFail_(omnesSystemError, "omnesCommInitMPI: MPI_Allreduce failed");
  }
  if (worst.code == (int)omnesSuccess) return omnesSuccess;
  memset(text, 0, sizeof text);
  if (worst.rank == rank) {
    snprintf(text, sizeof text, "omnesCommInitMPI: rank %d: %s", rank, omnesGetLastError(NULL));
  }
  if (MPI_Bcast(text, (int)sizeof text, MPI_CHAR, worst.rank, mpiComm) != MPI_SUCCESS) {
    return omnesMpiFail_(omnesSystemError, "omnesCommInitMPI: MPI_Bcast failed");
  }
  return omnesMpiFail_((omnesResult_t)worst.code, text);
}

/* ---- public -----------------------------------------------------------------------------------
 */

/* Joins a communicator of the ranks of mpiComm, with the same ranks. Collective over mpiComm, which
 * is borrowed during the call; two MPI collectives run on it. *comm is set only on success and is
 * then owned by the caller; end it with omnesCommDestroy, before or after MPI_Finalize. config may
 * be NULL. Results as omnesCommInitRankConfig, and:
 * omnesInvalidUsage: MPI is not initialised or has been finalised, or the program was built for
 * another MPI than the launcher's, so that each process finds itself alone;
 * omnesInvalidArgument: comm is NULL, mpiComm is MPI_COMM_NULL or an intercommunicator;
 * omnesSystemError: MPI failed, if its error handler returns.
 * When rank 0 cannot make an id, or a rank has passed a NULL, all ranks return that rank's result.
 * Thread-safety: as the MPI library's collectives. */
static inline omnesResult_t omnesCommInitMPI(omnesComm_t* comm, MPI_Comm mpiComm,
                                             const omnesConfig_t* config) {
  omnesUniqueId id;
  omnesResult_t result = omnesMpiCheckAlone_(mpiComm);
  int rank = 0, size = 0, isInter = 0;
  if (result != omnesSuccess) return result;
  if (MPI_Comm_test_inter(mpiComm, &isInter) != MPI_SUCCESS || isInter) {
    return omnesMpiFail_(omnesInvalidArgument,
                         "omnesCommInitMPI: mpiComm is an intercommunicator; merge it first "
                         "(MPI_Intercomm_merge)");
  }
  if (MPI_Comm_rank(mpiComm, &rank) != MPI_SUCCESS ||
      MPI_Comm_size(mpiComm, &size) != MPI_SUCCESS) {
    return omnesMpiFail_(omnesSystemError, "omnesCommInitMPI: MPI does not say rank and size");
  }
  memset(&id, 0, sizeof id);
  if (comm == NULL) {
    result = omnesMpiFail_(omnesInvalidArgument, "comm is NULL");
  } else if (rank == 0) {
    result = omnesGetUniqueId(&id);
  }
  result = omnesMpiAgree_(result, mpiComm, rank);
  if (result != omnesSuccess) return result;
  if (MPI_Bcast(&id, (int)sizeof id, MPI_BYTE, 0, mpiComm) != MPI_SUCCESS) {
    return omnesMpiFail_(omnesSystemError, "omnesCommInitMPI: MPI_Bcast failed");
  }
  return omnesCommInitRankConfig(comm, size, id, rank, config);
}

#endif /* OMNES_OMNES_MPI_H_ */
