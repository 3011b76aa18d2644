// probe: what the machine can do right now, measured without omnes; one line of "name value" pairs.
//
//   handover_ns  two processes on one processor pass a turn to and fro by sched_yield: time of one
//   pass line_ns      two processes on two processors pass a cache line to and fro: time of one
//   way; 0 with one processor
//
// A virtual machine's processors are moved by its host; the second figure tells whether they share
// a cache just now. usage: probe CPU0 [CPU1]
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

struct alignas(128) Turn {
  std::atomic<uint64_t> count{0};
};

bool pinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

// Takes the passes [first, last) that are this side's (first, first + 2, ...), then waits for the
// count to reach last.
void play(Turn* turn, uint64_t first, uint64_t last, bool yield) {
  const auto waitFor = [&](uint64_t wanted) {
    // A1: pairs with R1 below, in the other process.
    while (turn->count.load(std::memory_order_acquire) < wanted) {
      if (yield) sched_yield();
    }
  };
  for (uint64_t next = first; next < last; next += 2) {
    waitFor(next);
    // R1: pairs with A1 above, in the other process.
    turn->count.store(next + 1, std::memory_order_release);
  }
  waitFor(last);
}

constexpr uint64_t kStretches = 200;

// Nanoseconds of one pass in the best stretch of `stretch` passes (an even number); negative if it
// cannot be measured.
double measure(Turn* turn, int cpu0, int cpu1, uint64_t stretch, bool yield) {
  new (turn) Turn;
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!pinTo(cpu1)) _exit(1);
    play(turn, 1, kStretches * stretch, yield);
    _exit(0);
  }
  if (!pinTo(cpu0)) return -1;
  // The best of many short stretches is the machine's own figure: whatever else runs can only
  // lengthen one, and a bound that follows from a lengthened figure would be too lax. The first is
  // a warm-up.
  double best = std::numeric_limits<double>::max();
  for (uint64_t first = 0; first < kStretches * stretch; first += stretch) {
    const auto start = std::chrono::steady_clock::now();
    play(turn, first, first + stretch, yield);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    if (first > 0) best = std::min(best, took.count() / static_cast<double>(stretch));
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return -1;
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 6;
  const int cpu0 = std::atoi(argv[1]);
  void* shared =
      mmap(nullptr, sizeof(Turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  auto* turn = static_cast<Turn*>(shared);
  const double handover = measure(turn, cpu0, cpu0, 200, true);
  const double line = argc > 2 ? measure(turn, cpu0, std::atoi(argv[2]), 1000, false) : 0;
  if (handover < 0 || line < 0) {
    std::fprintf(stderr, "probe: cannot run on processors %s %s\n", argv[1],
                 argc > 2 ? argv[2] : "");
    return 1;
  }
  std::printf("handover_ns %.1f line_ns %.1f\n", handover, line);
  return 0;
}
