#include "common/runner.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <utility>

#include "common/measure.h"
#include "common/number.h"
#include "common/sweep.h"

namespace omnes::perf {
namespace {

// The rank's own programme; one object a rank.
class RankRun {
 public:
  RankRun(const RunContext& context, Rank* self)
      : collective_(context.collective),
        options_(context.options),
        watchdog_(context.watchdog),
        report_(context.report),
        self_(*self) {}

  bool run() {
    if (!checkRanks() || !openOutput() || !gatherDevices() || !agreeOnSizes() || !openBuffers())
      return false;
    if (self_.rank() == 0) report_.begin(devices_, sizeNote_);
    for (int cycle = 0; options_.runCycles == 0 || cycle < options_.runCycles; ++cycle) {
      if (!sweep()) return false;
    }
    return conclude();
  }

 private:
  bool checkRanks();
  bool openOutput();
  bool gatherDevices();
  bool agreeOnSizes();
  bool openBuffers();
  bool sweep();
  bool sweepWorkload(const TypeInfo& type, Op op);
  bool prepare(const TypeInfo& type, Op op, Workload* workload);
  bool measureRow(Measurement* measurement, const Workload& workload, uint64_t bytes, int root);
  bool conclude();

  const Collective& collective_;
  const Options& options_;
  Watchdog& watchdog_;
  Report& report_;
  Rank& self_;

  std::vector<DeviceInfo> devices_;
  int localRanks_ = 1;
  Options swept_;  // the options with -e capped
  std::string sizeNote_;
  GuardedBuffer send_;
  GuardedBuffer recv_;
  uint64_t failedTests_ = 0;
  double busbwSum_ = 0;
  uint64_t busbwCount_ = 0;
};

bool RankRun::checkRanks() {
  const std::string why =
      collective_.refuses == nullptr ? std::string() : collective_.refuses(self_.nranks());
  if (why.empty()) return true;
  return self_.rank() == 0 ? self_.fail(kExitInvalid, why) : self_.leave(kExitInvalid);
}

// Only rank 0 writes, but all must stop if it cannot.
bool RankRun::openOutput() {
  std::string problem;
  const bool opened = self_.rank() != 0 || report_.openOutput(&problem);
  std::vector<int64_t> failed = {opened ? 0 : 1};
  if (!self_.reduce(&failed, omnesMax)) return false;
  if (failed[0] == 0) return true;
  // The others leave quietly: one line is enough.
  return opened ? self_.leave(kExitInvalid) : self_.fail(kExitInvalid, problem);
}

bool RankRun::gatherDevices() {
  const std::string mine = hostName() + "\n" + std::to_string(getpid()) + "\n" +
                           std::to_string(self_.localIndex()) + "\n" + allowedCpus();
  std::vector<std::string> all;
  if (!self_.gatherTexts(mine, &all)) return false;
  localRanks_ = 0;
  for (int rank = 0; rank < self_.nranks(); ++rank) {
    std::string text = all[static_cast<size_t>(rank)];
    std::vector<std::string> fields;
    for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      fields.push_back(text.substr(0, end));
    }
    fields.push_back(text);
    fields.resize(4);
    devices_.push_back(
        {rank, std::atoi(fields[1].c_str()), std::atoi(fields[2].c_str()), fields[0], fields[3]});
    if (fields[0] == hostName()) ++localRanks_;
  }
  return true;
}

// Every rank may see another amount of memory; the smallest counts.
bool RankRun::agreeOnSizes() {
  swept_ = options_;
  const uint64_t available = availableMemory();
  const uint64_t fits = std::min<uint64_t>(largestSizeFor(available, localRanks_, 2),
                                           std::numeric_limits<int64_t>::max());
  std::vector<int64_t> smallest = {static_cast<int64_t>(fits)};
  if (!self_.reduce(&smallest, omnesMin)) return false;
  const auto limit = static_cast<uint64_t>(smallest[0]);
  if (options_.maxBytes <= limit) return true;
  const std::string why = std::to_string(options_.maxBytes) +
                          " does not fit: " + std::to_string(localRanks_) +
                          " ranks with 2 buffers each, " + formatBytes(available) + " available";
  if (options_.minBytes > limit) {
    if (self_.rank() != 0) return self_.leave(kExitInvalid);
    return self_.fail(kExitInvalid, "option -b (--minbytes): " + std::to_string(options_.minBytes) +
                                        " is above what fits into memory, " +
                                        std::to_string(limit) + " bytes; -e " + why);
  }
  swept_.maxBytes = limit;
  sizeNote_ = "maxBytes capped to " + std::to_string(limit) + ": " + why;
  return true;
}

bool RankRun::openBuffers() {
  // A layout may round up to whole blocks; one page more covers that.
  const uint64_t bytes = swept_.maxBytes + 4096;
  uint64_t widest = 1;
  for (const TypeInfo& type : options_.types) widest = std::max<uint64_t>(widest, type.bytes);
  const uint64_t offset = static_cast<uint64_t>(options_.unalign) * widest;
  std::vector<int64_t> failed = {send_.open(bytes, offset) && recv_.open(bytes, offset) ? 0 : 1};
  if (!self_.reduce(&failed, omnesMax)) return false;
  if (failed[0] == 0) return true;
  return self_.fail(kExitInternal, "no memory for buffers of " + formatBytes(bytes));
}

bool RankRun::sweep() {
  for (const TypeInfo& type : options_.types) {
    if (!collective_.reduces) {
      if (!sweepWorkload(type, Op::kNone)) return false;
      continue;
    }
    for (const Op op : options_.ops) {
      if (isDefined(op, type) && !sweepWorkload(type, op)) return false;
    }
  }
  return true;
}

bool RankRun::prepare(const TypeInfo& type, Op op, Workload* workload) {
  workload->type = type;
  workload->op = op;
  workload->handle = builtinOp(op);
  const int nranks = self_.nranks();
  workload->inputs.resize(static_cast<size_t>(nranks));
  for (int rank = 0; rank < nranks; ++rank) {
    // A reducing collective never shows another rank's input.
    if (collective_.reduces && rank != self_.rank()) continue;
    workload->inputs[static_cast<size_t>(rank)] = inputPattern(type, op, nranks, rank);
  }
  if (collective_.reduces) workload->reduced = expectedPattern(type, op, nranks);
  if (op != Op::kMulSum) return true;
  uint64_t scalar = scalarBits(type, self_.rank());  // little-endian: its first bytes are the value
  return self_.ok(omnesRedOpCreatePreMulSum(&workload->handle, &scalar, type.type,
                                            omnesScalarHostImmediate, self_.comm()),
                  "omnesRedOpCreatePreMulSum");
}

bool RankRun::sweepWorkload(const TypeInfo& type, Op op) {
  Workload workload;
  if (!prepare(type, op, &workload)) return false;
  Measurement measurement(collective_, options_, &self_, &watchdog_, &send_, &recv_);
  const int firstRoot = !collective_.rooted ? -1 : std::max(options_.root, 0);
  const int lastRoot = collective_.rooted && options_.root == -1 ? self_.nranks() - 1 : firstRoot;
  if (lastRoot >= self_.nranks()) {
    return self_.fail(kExitInvalid, "option -r (--root): " + std::to_string(options_.root) +
                                        " is no rank of " + std::to_string(self_.nranks()));
  }
  for (const uint64_t bytes : sweepSizes(swept_)) {
    for (int root = firstRoot; root <= lastRoot; ++root) {
      if (!measureRow(&measurement, workload, bytes, root)) return false;
    }
  }
  if (op != Op::kMulSum) return true;
  return self_.ok(omnesRedOpDestroy(workload.handle, self_.comm()), "omnesRedOpDestroy");
}

bool RankRun::measureRow(Measurement* measurement, const Workload& workload, uint64_t bytes,
                         int root) {
  const uint64_t elements = bytes / workload.type.bytes;
  const Layout layout = collective_.layout(elements, self_.nranks(), self_.rank(), root);
  Row row;
  row.bytes = layout.sizeCount * workload.type.bytes;
  row.count = layout.count;
  row.type = workload.type.name;
  row.op = opName(workload.op);
  row.root = root;
  if (!measurement->run(workload, layout, root, false, &row.outOfPlace)) return false;
  if (collective_.hasInPlace &&
      !measurement->run(workload, layout, root, true, &row.inPlace.emplace()))
    return false;
  if (options_.reportTimestamps) row.timestamp = timeOfDay();
  for (const Side* side : {&row.outOfPlace, row.inPlace ? &*row.inPlace : nullptr}) {
    if (side == nullptr) continue;
    busbwSum_ += side->busbw;
    ++busbwCount_;
    if (side->wrong.value_or(0) > 0) ++failedTests_;
  }
  if (self_.rank() == 0) report_.addRow(row);
  return true;
}

// The most memory that this process had in use, in bytes.
uint64_t peakMemory() {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

bool RankRun::conclude() {
  Summary summary;
  summary.failedTests = failedTests_;
  summary.averageBusbw = busbwCount_ == 0 ? 0 : busbwSum_ / static_cast<double>(busbwCount_);
  summary.bandwidthOk = summary.averageBusbw >= 0.9 * options_.minBusbw;
  if (options_.memoryReport) {
    std::vector<int64_t> peak = {static_cast<int64_t>(peakMemory())};
    if (!self_.reduce(&peak, omnesMax)) return false;
    summary.memory = "Memory used            : " + formatBytes(static_cast<uint64_t>(peak[0])) +
                     " in the largest process";
  }
  if (self_.rank() == 0) report_.finish(summary);
  if (failedTests_ > 0 || !summary.bandwidthOk) self_.setVerdict(kExitWrong);
  return true;
}

}  // namespace

int runRank(const RunContext& context, Rank* self) {
  RankRun run(context, self);
  if (!run.run() && !self->error().empty()) context.report.addError(self->error());
  return self->exitCode();
}

}  // namespace omnes::perf
