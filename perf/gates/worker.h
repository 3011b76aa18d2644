/* The measured loop of the gates, once for both sides: ours.c and peer_mpi.c differ in the calls
 * alone, so that a comparison compares the libraries.
 *
 * A worker is one rank. It stays up for the whole gate and parks in a blocking read of its own pipe
 * (DIR/cmd.RANK) whenever it is not its turn, never in a library's spinning wait. Rank 0 answers on
 * DIR/out, one line a command: trial BYTES FRESH ITERS   -> "trial US WRONG"               US:
 * slowest rank's time of one operation latency COUNT             -> "latency MEDIAN P99 SLOWEST
 * WRONG" pooled over ranks and calls; SLOWEST: median of each call's slowest rank quit Not
 * thread-safe; one worker a process. */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* What a library must offer; each call ends the process if it fails. */
struct Library {
  int rank;
  int nranks;
  void (*sumFloats)(const float* send, float* recv, size_t count);
  void (*sumDoubles)(double* values, size_t count); /* in place */
  void (*barrier)(void);
};

struct Worker {
  const struct Library* library;
  float* send;
  float* recv;
  FILE* commands;
  FILE* answers; /* rank 0 only */
};

enum { kLargestBytes = 64 << 20 };

static void die(const char* what) {
  perror(what);
  exit(1);
}

static double nowUs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* "2" pins every rank to processor 2; "2/3" pins rank r to the r-th of them; "2,3" lets every rank
 * use both. */
static void pinTo(const char* cpus, int rank) {
  cpu_set_t set;
  const int oneEach = strchr(cpus, '/') != NULL;
  int index = 0;
  CPU_ZERO(&set);
  for (const char* at = cpus; *at != 0; ++index) {
    char* end;
    const long cpu = strtol(at, &end, 10);
    if (!oneEach || index == rank) CPU_SET((size_t)cpu, &set);
    at = *end == 0 ? end : end + 1;
  }
  if (sched_setaffinity(0, sizeof set, &set) != 0) die("sched_setaffinity");
}

enum { kPeriod = 13 };

/* Fills values[i] = factor * (i + 1). */
static void period(float* values, size_t factor) {
  for (size_t i = 0; i < kPeriod; ++i) values[i] = (float)(factor * (i + 1));
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static void writeInput(const struct Worker* worker, size_t count) {
  float values[kPeriod];
  period(values, (size_t)worker->library->rank + 1);
  for (size_t i = 0; i < count; i += kPeriod) {
    memcpy(worker->send + i, values, smaller(kPeriod, count - i) * sizeof(float));
  }
}

static long countWrong(const struct Worker* worker, size_t count) {
  const size_t n = (size_t)worker->library->nranks;
  float values[kPeriod];
  long wrong = 0;
  period(values, n * (n + 1) / 2);
  for (size_t i = 0; i < count; ++i) wrong += worker->recv[i] != values[i % kPeriod];
  return wrong;
}

/* Reads the output, as an application would. */
static void readOutput(const struct Worker* worker, size_t count) {
  float sum = 0;
  for (size_t i = 0; i < count; i += 4) sum += worker->recv[i];
  __asm__ __volatile__("" : : "r"(&sum) : "memory");
}

/* Everyone's value, by rank; the caller frees it. */
static double* gather(const struct Library* library, const double* mine, size_t count) {
  double* all = calloc(count * (size_t)library->nranks, sizeof *all);
  if (all == NULL) die("calloc");
  memcpy(all + count * (size_t)library->rank, mine, count * sizeof *all);
  library->sumDoubles(all, count * (size_t)library->nranks);
  return all;
}

static void runTrial(struct Worker* worker, size_t bytes, int fresh, long iters) {
  const struct Library* library = worker->library;
  const size_t count = bytes / sizeof(float);
  double elapsed = 0;
  memset(worker->recv, 0, bytes);
  writeInput(worker, count);
  library->barrier();
  if (fresh) {
    for (long i = 0; i < iters; ++i) {
      writeInput(worker, count);
      library->barrier();
      const double start = nowUs();
      library->sumFloats(worker->send, worker->recv, count);
      elapsed += nowUs() - start;
      readOutput(worker, count);
    }
  } else {
    const double start = nowUs();
    for (long i = 0; i < iters; ++i) library->sumFloats(worker->send, worker->recv, count);
    elapsed = nowUs() - start;
  }
  const double mine[2] = {elapsed / (double)iters, (double)countWrong(worker, count)};
  double* all = gather(library, mine, 2);
  double slowest = 0, wrong = 0;
  for (int rank = 0; rank < library->nranks; ++rank) {
    if (all[2 * rank] > slowest) slowest = all[2 * rank];
    wrong += all[2 * rank + 1];
  }
  if (worker->answers != NULL) fprintf(worker->answers, "trial %.6f %.0f\n", slowest, wrong);
  free(all);
}

static int compareDoubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void runLatency(struct Worker* worker, size_t calls) {
  const struct Library* library = worker->library;
  const size_t count = 2, ranks = (size_t)library->nranks;
  double* mine = malloc(calls * sizeof *mine);
  double* slowest = calloc(calls, sizeof *slowest);
  if (mine == NULL || slowest == NULL) die("malloc");
  double wrong = 0;
  writeInput(worker, count);
  for (int i = 0; i < 100; ++i) library->sumFloats(worker->send, worker->recv, count);
  library->barrier();
  for (size_t i = 0; i < calls; ++i) {
    worker->recv[0] = worker->recv[1] = 0;
    const double start = nowUs();
    library->sumFloats(worker->send, worker->recv, count);
    mine[i] = nowUs() - start;
    wrong += (double)countWrong(worker, count);
  }
  double* all = gather(library, mine, calls);
  double* wrongs = gather(library, &wrong, 1);
  wrong = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    wrong += wrongs[rank];
    for (size_t i = 0; i < calls; ++i) {
      if (all[rank * calls + i] > slowest[i]) slowest[i] = all[rank * calls + i];
    }
  }
  qsort(all, calls * ranks, sizeof *all, compareDoubles);
  qsort(slowest, calls, sizeof *slowest, compareDoubles);
  if (worker->answers != NULL) {
    fprintf(worker->answers, "latency %.6f %.6f %.6f %.0f\n", all[calls * ranks / 2],
            all[(calls * ranks * 99 + 99) / 100 - 1], slowest[calls / 2], wrong);
  }
  free(all);
  free(wrongs);
  free(mine);
  free(slowest);
}

static float* mapBuffer(void) {
  void* buffer =
      mmap(NULL, kLargestBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED) die("mmap");
  memset(buffer, 0, kLargestBytes);
  return buffer;
}

static FILE* openPipe(const char* directory, const char* name, const char* mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE* file = fopen(path, mode);
  if (file == NULL) die(path);
  return file;
}

/* argv: DIR CPUS. Returns when told to quit, or when the gate is gone. */
static void serve(const struct Library* library, char** argv) {
  struct Worker worker = {library, NULL, NULL, NULL, NULL};
  pinTo(argv[2], library->rank);
  worker.send = mapBuffer();
  worker.recv = mapBuffer();
  char name[32], line[256];
  snprintf(name, sizeof name, "cmd.%d", library->rank);
  worker.commands = openPipe(argv[1], name, "r");
  if (library->rank == 0) worker.answers = openPipe(argv[1], "out", "w");
  while (fgets(line, sizeof line, worker.commands) != NULL) {
    unsigned long bytes, calls;
    int fresh;
    long iters;
    if (sscanf(line, "trial %lu %d %ld", &bytes, &fresh, &iters) == 3 && bytes <= kLargestBytes) {
      runTrial(&worker, bytes, fresh, iters);
    } else if (sscanf(line, "latency %lu", &calls) == 1) {
      runLatency(&worker, calls);
    } else {
      break;
    }
    if (worker.answers != NULL) fflush(worker.answers);
  }
  fclose(worker.commands);
  if (worker.answers != NULL) fclose(worker.answers);
}
