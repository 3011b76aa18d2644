#include "common/json_report.h"

#include <nlohmann/json.hpp>

#include "build_info.h"
#include "omnes/omnes.h"

namespace omnes::perf {
namespace {

using Json = nlohmann::ordered_json;

// The version of nccl-tests' JSON that the shared fields follow.
constexpr int kJsonVersion = 3;

Json iterationsJson(const IterationStats& stats) {
  return {{"min", stats.minUs},     {"max", stats.maxUs},           {"avg", stats.averageUs},
          {"p50", stats.p50Us},     {"p95", stats.p95Us},           {"p99", stats.p99Us},
          {"stdev", stats.stdevUs}, {"cv", stats.variationPercent}, {"times_us", stats.timesUs}};
}

Json sideJson(const Side& side) {
  Json json = {{"time", side.timeUs}, {"alg_bw", side.algbw}, {"bus_bw", side.busbw}};
  json["nwrong"] = side.wrong ? Json(*side.wrong) : Json("N/A");
  if (side.iterations) {
    json["p50"] = side.iterations->p50Us;
    json["p99"] = side.iterations->p99Us;
  }
  return json;
}

Json rowJson(const Row& row) {
  Json json = {{"size", row.bytes},
               {"count", row.count},
               {"type", row.type},
               {"redop", row.op},
               {"root", row.root}};
  json["out_of_place"] = sideJson(row.outOfPlace);
  json["in_place"] = row.inPlace ? sideJson(*row.inPlace) : Json();
  if (row.outOfPlace.iterations) {
    json["out_of_place_per_iter"] = iterationsJson(*row.outOfPlace.iterations);
  }
  if (row.inPlace && row.inPlace->iterations)
    json["in_place_per_iter"] = iterationsJson(*row.inPlace->iterations);
  if (!row.timestamp.empty()) json["timestamp"] = row.timestamp;
  return json;
}

Json configJson(const Options& options, const std::vector<DeviceInfo>& devices) {
  Json json = {{"nthreads", options.threads},
               {"ngpus", 1},
               {"minimum_bytes", options.minBytes},
               {"maximum_bytes", options.maxBytes},
               {"step_bytes", options.stepBytes},
               {"step_factor", options.stepFactor},
               {"iterations", options.iters},
               {"warmup_iterations", options.warmupIters},
               {"aggregated_iterations", options.aggIters},
               {"run_cycles", options.runCycles},
               {"validation", options.check},
               {"blocking", options.blocking},
               {"average", options.average},
               {"report_cputime", options.reportCpuTime},
               {"unalign", options.unalign},
               {"per_iter_skip", options.perIterSkip},
               {"fresh", options.fresh}};
  json["devices"] = Json::array();
  for (const DeviceInfo& device : devices) {
    json["devices"].push_back({{"rank", device.rank},
                               {"pid", device.pid},
                               {"hostname", device.host},
                               {"device", device.localIndex},
                               {"cpus", device.cpus}});
  }
  return json;
}

}  // namespace

std::string toJson(const JsonInput& input) {
  int version = 0;
  omnesGetVersion(&version);
  Json json = {{"version", kJsonVersion}, {"program", input.program}};
  json["args"] = input.arguments;
  json["env"] = input.environment;
  json["omnes_version"] = version;
  json["build"] = {{"commit", OMNES_PERF_COMMIT},
                   {"type", OMNES_PERF_BUILDTYPE},
                   {"compiler", OMNES_PERF_COMPILER}};
  json["cpu"] = input.cpu;
  json["start_time"] = input.startTime;
  json["end_time"] = input.endTime;
  json["config"] = configJson(*input.options, *input.devices);
  json["results"] = Json::array();
  for (const Row& row : *input.rows) json["results"].push_back(rowJson(row));
  json["out_of_bounds"] = {{"count", input.summary.failedTests},
                           {"okay", input.summary.failedTests == 0}};
  json["average_bus_bandwidth"] = {{"bandwidth", input.summary.averageBusbw},
                                   {"okay", input.summary.bandwidthOk}};
  json["errors"] = *input.errors;
  // Texts from outside (arguments, names) may not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace omnes::perf
