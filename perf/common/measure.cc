#include "common/measure.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

namespace omnes::perf {
namespace {

double readClock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Reads every line of the output, as an application would before its next step.
uint64_t readThrough(const unsigned char* data, uint64_t bytes) {
  uint64_t sum = 0;
  for (uint64_t at = 0; at + 8 <= bytes; at += 8) {
    uint64_t word;
    std::memcpy(&word, data + at, 8);
    sum ^= word;
  }
  return sum;
}

// Keeps the compiler from dropping a computation.
void keep(uint64_t value) { asm volatile("" : : "r"(value) : "memory"); }

}  // namespace

struct Measurement::Target {
  const Workload& workload;
  const Layout& layout;
  int root;
  bool inPlace;
  unsigned char* send;
  unsigned char* recv;
  clockid_t clock;

  uint64_t bytesOf(uint64_t elements) const { return elements * workload.type.bytes; }
};

Measurement::Measurement(const Collective& collective, const Options& options, Rank* self,
                         Watchdog* watchdog, GuardedBuffer* send, GuardedBuffer* recv)
    : collective_(collective),
      options_(options),
      self_(*self),
      watchdog_(*watchdog),
      send_(*send),
      recv_(*recv) {}

bool Measurement::run(const Workload& workload, const Layout& layout, int root, bool inPlace,
                      Side* side) {
  const uint64_t width = workload.type.bytes;
  unsigned char* base = recv_.data();
  Target target{workload,
                layout,
                root,
                inPlace,
                inPlace ? base + layout.inPlaceSend * width : send_.data(),
                inPlace ? base + layout.inPlaceRecv * width : base,
                options_.reportCpuTime ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC};
  send_.arm(inPlace ? 0 : layout.sendCount * width);
  recv_.arm((inPlace ? std::max(layout.sendCount, layout.recvCount) : layout.recvCount) * width);

  double mine = 0;
  std::vector<double> timesUs;
  // Touches the pages of both buffers, so that no first use is timed, even without a warm-up.
  poisonOutput(target);
  writeInput(target);
  if (!warmUp(target)) return false;
  if (options_.fresh) {
    if (!timeFresh(target, &mine, &timesUs)) return false;
  } else {
    if (!timeHot(target, &mine)) return false;
    // A pass of its own, so that reading the clock does not slow the times of the row.
    const bool wanted = options_.perIterTiming || !options_.outputFile.empty();
    if (wanted && !timeIterations(target, &timesUs)) return false;
  }
  if (!gatherTime(mine, &side->timeUs)) return false;
  if (!timesUs.empty() && !gatherIterations(std::move(timesUs), &side->iterations)) return false;
  side->algbw = algorithmBandwidth(layout.sizeCount * width, side->timeUs);
  side->busbw = side->algbw * collective_.busFactor(self_.nranks());
  if (options_.check == 0) return true;
  uint64_t wrong = 0;
  if (!check(target, &wrong)) return false;
  side->wrong = wrong;
  return true;
}

bool Measurement::callOnce(const Target& target) {
  const Call call{target.send,
                  target.recv,
                  target.layout.count,
                  target.workload.type.type,
                  target.workload.handle,
                  target.root,
                  self_.comm(),
                  self_.rank(),
                  self_.nranks(),
                  target.workload.type.bytes};
  return self_.ok(collective_.run(call), collective_.call);
}

bool Measurement::warmUp(const Target& target) {
  for (int iter = 0; iter < options_.warmupIters * options_.aggIters; ++iter) {
    if (!callOnce(target)) return false;
  }
  watchdog_.noteProgress();
  return self_.barrier();
}

bool Measurement::timeHot(const Target& target, double* usPerOp) {
  double outside = 0;  // time of barriers that do not count
  const double start = readClock(target.clock);
  for (int iter = 0; iter < options_.iters; ++iter) {
    for (int agg = 0; agg < options_.aggIters; ++agg) {
      if (!callOnce(target)) return false;
    }
    if (options_.blocking == 1 && !self_.barrier()) return false;
    if (options_.blocking == 3) {
      const double before = readClock(target.clock);
      if (!self_.barrier()) return false;
      outside += readClock(target.clock) - before;
    }
  }
  const double elapsed = readClock(target.clock) - start - outside;
  *usPerOp = elapsed / options_.iters / options_.aggIters;
  watchdog_.noteProgress();
  return self_.barrier();
}

bool Measurement::timeFresh(const Target& target, double* usPerOp, std::vector<double>* timesUs) {
  double total = 0;
  timesUs->reserve(static_cast<size_t>(options_.iters));
  for (int iter = 0; iter < options_.iters; ++iter) {
    double iteration = 0;
    for (int agg = 0; agg < options_.aggIters; ++agg) {
      writeInput(target);
      if (!self_.barrier()) return false;
      const double start = readClock(target.clock);
      if (!callOnce(target)) return false;
      iteration += readClock(target.clock) - start;
      keep(readThrough(target.recv, target.bytesOf(target.layout.recvCount)));
    }
    total += iteration;
    if (iter >= options_.perIterSkip) timesUs->push_back(iteration / options_.aggIters);
    watchdog_.noteProgress();
  }
  *usPerOp = total / options_.iters / options_.aggIters;
  return self_.barrier();
}

bool Measurement::timeIterations(const Target& target, std::vector<double>* timesUs) {
  timesUs->reserve(static_cast<size_t>(options_.iters));
  for (int iter = 0; iter < options_.iters; ++iter) {
    const double start = readClock(target.clock);
    for (int agg = 0; agg < options_.aggIters; ++agg) {
      if (!callOnce(target)) return false;
    }
    const double iteration = readClock(target.clock) - start;
    if (options_.blocking != 0 && options_.blocking != 2 && !self_.barrier()) return false;
    if (iter >= options_.perIterSkip) timesUs->push_back(iteration / options_.aggIters);
  }
  watchdog_.noteProgress();
  return self_.barrier();
}

bool Measurement::gatherTime(double mine, double* shown) {
  const bool onlyRank0 = options_.average == 0;
  std::vector<double> value = {onlyRank0 && self_.rank() != 0 ? 0 : mine};
  const omnesRedOp_t op = options_.average == 2   ? omnesMin
                          : options_.average == 3 ? omnesMax
                                                  : omnesSum;
  if (!self_.reduce(&value, op)) return false;
  *shown = options_.average == 1 ? value[0] / self_.nranks() : value[0];
  return true;
}

bool Measurement::gatherIterations(std::vector<double> mine, std::optional<IterationStats>* stats) {
  if (!self_.reduce(&mine, omnesMax)) return false;
  *stats = iterationStats(std::move(mine));
  return true;
}

bool Measurement::check(const Target& target, uint64_t* wrong) {
  *wrong = 0;
  for (int iter = 0; iter < options_.check; ++iter) {
    poisonOutput(target);
    writeInput(target);  // second: in place it lies inside the output
    if (!self_.barrier() || !callOnce(target)) return false;
    std::vector<int64_t> count = {static_cast<int64_t>(countWrongHere(target))};
    if (!self_.reduce(&count, omnesSum)) return false;
    *wrong = std::max(*wrong, static_cast<uint64_t>(count[0]));
    watchdog_.noteProgress();
  }
  return true;
}

void Measurement::writeInput(const Target& target) const {
  target.workload.inputs[static_cast<size_t>(self_.rank())].fill(target.send, 0,
                                                                 target.layout.sendCount);
}

void Measurement::poisonOutput(const Target& target) const {
  // Inverted expected values cannot be right by chance, unlike any constant.
  for (const Piece& piece : target.layout.expected) {
    const Pattern& pattern = piece.source == kReduced
                                 ? target.workload.reduced
                                 : target.workload.inputs[static_cast<size_t>(piece.source)];
    pattern.fillInverted(target.recv + target.bytesOf(piece.at), piece.from, piece.count);
  }
}

uint64_t Measurement::countWrongHere(const Target& target) const {
  const Workload& workload = target.workload;
  uint64_t wrong = 0;
  for (const Piece& piece : target.layout.expected) {
    const bool reduced = piece.source == kReduced;
    const Pattern& pattern =
        reduced ? workload.reduced : workload.inputs[static_cast<size_t>(piece.source)];
    const uint64_t tolerance = reduced ? toleranceUlps(workload.type, workload.op) : 0;
    wrong += pattern.countWrong(target.recv + target.bytesOf(piece.at), piece.from, piece.count,
                                tolerance);
  }
  // A changed input or a byte written outside the buffers is as wrong as a wrong element.
  uint64_t changed = 0, outside = send_.damagedBytes() + recv_.damagedBytes();
  if (!target.inPlace) {
    changed = workload.inputs[static_cast<size_t>(self_.rank())].countWrong(
        target.send, 0, target.layout.sendCount, 0);
  }
  if (wrong + changed + outside > 0) {
    std::fprintf(stderr,
                 "%s: rank %d: %s, %llu %s %s, %s: %llu wrong elements, %llu input elements "
                 "changed, %llu bytes written outside the buffers\n",
                 collective_.program, self_.rank(), collective_.call,
                 static_cast<unsigned long long>(target.layout.count), workload.type.name,
                 opName(workload.op), target.inPlace ? "in place" : "out of place",
                 static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(changed),
                 static_cast<unsigned long long>(outside));
  }
  return wrong + changed + outside;
}

}  // namespace omnes::perf
