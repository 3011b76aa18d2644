// Times and checks one collective at one size on one rank.
//
// Thread safety: used by its rank's thread. All ranks must make the same calls in the same order;
// each returns false once the rank has failed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/buffers.h"
#include "common/collective.h"
#include "common/inputs.h"
#include "common/options.h"
#include "common/rank.h"
#include "common/table.h"
#include "common/watchdog.h"

namespace omnes::perf {

// Type, operator and the patterns that go with them; made once for all sizes.
struct Workload {
  TypeInfo type;
  Op op = Op::kNone;
  omnesRedOp_t handle = omnesSum;
  std::vector<Pattern> inputs;  // by rank; only those that the collective's results need
  Pattern reduced;
};

class Measurement {
 public:
  // Everything is borrowed until destruction. The buffers hold the largest layout.
  Measurement(const Collective& collective, const Options& options, Rank* self, Watchdog* watchdog,
              GuardedBuffer* send, GuardedBuffer* recv);

  // Measures and checks one side; the numbers are gathered over the ranks and equal on all.
  bool run(const Workload& workload, const Layout& layout, int root, bool inPlace, Side* side);

 private:
  struct Target;  // one side's pointers

  bool callOnce(const Target& target);
  bool warmUp(const Target& target);
  bool timeHot(const Target& target, double* usPerOp);
  bool timeFresh(const Target& target, double* usPerOp, std::vector<double>* timesUs);
  bool timeIterations(const Target& target, std::vector<double>* timesUs);
  bool gatherTime(double mine, double* shown);
  bool gatherIterations(std::vector<double> mine, std::optional<IterationStats>* stats);
  bool check(const Target& target, uint64_t* wrong);

  void writeInput(const Target& target) const;
  void poisonOutput(const Target& target) const;
  uint64_t countWrongHere(const Target& target) const;

  const Collective& collective_;
  const Options& options_;
  Rank& self_;
  Watchdog& watchdog_;
  GuardedBuffer& send_;
  GuardedBuffer& recv_;
};

}  // namespace omnes::perf
