#include "common/options.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <utility>

#include "common/exit_code.h"
#include "common/number.h"

namespace omnes::perf {
namespace {

// Reads the text of one option into the options; sets *problem if it may not be.
using Reader = std::function<void(const std::string& text, Options* options, std::string* problem)>;

struct OptionSpec {
  const char* names;
  const char* help;
  Reader read;
};

Reader integerInto(int Options::*member, int lowest, int highest) {
  return [=](const std::string& text, Options* options, std::string* problem) {
    if (const auto value = parseInteger(text, lowest, highest, problem)) {
      options->*member = static_cast<int>(*value);
    }
  };
}

Reader switchInto(bool Options::*member) {
  return [=](const std::string& text, Options* options, std::string* problem) {
    if (const auto value = parseInteger(text, 0, 1, problem)) options->*member = *value == 1;
  };
}

Reader bytesInto(uint64_t Options::*member) {
  return [=](const std::string& text, Options* options, std::string* problem) {
    if (const auto value = parseBytes(text, problem)) options->*member = *value;
  };
}

// Options that only mean something on a GPU: their default passes, so that command lines carry
// over.
Reader onlyDefault(const char* value) {
  return [=](const std::string& text, Options*, std::string* problem) {
    if (text != value) *problem = std::string("it concerns GPUs; leave it out, or give ") + value;
  };
}

Reader notYet(const char* value, const char* what) {
  return [=](const std::string& text, Options*, std::string* problem) {
    if (text != value) *problem = std::string(what) + "; leave it out, or give " + value;
  };
}

void readFactor(const std::string& text, Options* options, std::string* problem) {
  if (const auto value = parseInteger(text, 1, 1 << 30, problem)) {
    options->stepFactor = static_cast<uint64_t>(*value);
  }
}

void readOps(const std::string& text, Options* options, std::string* problem) {
  if (auto ops = parseOps(text, problem)) options->ops = std::move(*ops);
}

void readTypes(const std::string& text, Options* options, std::string* problem) {
  if (auto types = parseTypes(text, problem)) options->types = std::move(*types);
}

void readOutputFile(const std::string& text, Options* options, std::string* problem) {
  if (!text.ends_with(".json")) *problem = "write the name of a file that ends in .json";
  options->outputFile = text;
}

void readMinBusbw(const std::string& text, Options* options, std::string* problem) {
  if (const auto value = parseReal(text, problem)) options->minBusbw = *value;
}

constexpr int kMany = 1000000000;

std::vector<OptionSpec> optionTable() {
  return {
      {"-t,--nthreads", "ranks of this process, one thread each (1)",
       integerInto(&Options::threads, 1, 4096)},
      {"-g,--ngpus", "only 1: a thread drives one rank",
       notYet("1", "a thread drives one rank here, use -t for more ranks")},
      {"-b,--minbytes", "smallest size (32M)", bytesInto(&Options::minBytes)},
      {"-e,--maxbytes", "largest size (32M)", bytesInto(&Options::maxBytes)},
      {"-i,--stepbytes", "step between sizes (1M)", bytesInto(&Options::stepBytes)},
      {"-f,--stepfactor", "factor between sizes, instead of a step (off)", readFactor},
      {"-n,--iters", "timed iterations (20)", integerInto(&Options::iters, 1, kMany)},
      {"-w,--warmup_iters", "warm-up iterations (1)", integerInto(&Options::warmupIters, 0, kMany)},
      {"-m,--agg_iters", "operations of one iteration (1)",
       integerInto(&Options::aggIters, 1, kMany)},
      {"-N,--run_cycles", "repeat the sweep; 0 = for ever (1)",
       integerInto(&Options::runCycles, 0, kMany)},
      {"-p,--parallel_init", "threads join on their own, side by side (0)",
       switchInto(&Options::parallelInit)},
      {"-c,--check", "checked iterations; 0 = no check (1)",
       integerInto(&Options::check, 0, kMany)},
      {"-o,--op", "sum prod min max avg mulsum band bor bxor, or all (sum)", readOps},
      {"-d,--datatype", "a type as int8 half float bfloat16 f8e4m3, or all (float)", readTypes},
      {"-r,--root", "root rank, -1 = each in turn (0)", integerInto(&Options::root, -1, kMany)},
      {"-z,--blocking", "1 barrier in each iteration, 2 = 0, 3 barrier outside the time (0)",
       integerInto(&Options::blocking, 0, 3)},
      {"-y,--stream_null", "GPU only", onlyDefault("0")},
      {"-T,--timeout", "seconds without progress until exit code 4; 0 = off (0)",
       integerInto(&Options::timeoutSeconds, 0, kMany)},
      {"-G,--cudagraph", "GPU only", onlyDefault("0")},
      {"-C,--report_cputime", "report processor time instead of elapsed time (0)",
       switchInto(&Options::reportCpuTime)},
      {"-S,--report_timestamps", "add the time of day to each row (0)",
       switchInto(&Options::reportTimestamps)},
      {"-J,--output_file", "also write JSON to this file (*.json)", readOutputFile},
      {"-a,--average", "time shown: 0 of rank 0, 1 mean, 2 min, 3 max of the ranks (1)",
       integerInto(&Options::average, 0, 3)},
      {"-R,--local_register", "only 0 in this version",
       notYet("0", "this version cannot register buffers")},
      {"-x,--cta_policy", "GPU only", onlyDefault("-1")},
      {"-D,--device_implementation", "GPU only", onlyDefault("0")},
      {"-V,--device_cta_count", "GPU only", onlyDefault("16")},
      {"-M,--memory", "report the memory used (0)", switchInto(&Options::memoryReport)},
      {"-u,--unalign", "move buffers off their alignment by this many elements (0)",
       integerInto(&Options::unalign, 0, 4096)},
      {"-I,--per_iter_timing", "time each iteration: i_min i_max i_p99 i_cv% (0)",
       switchInto(&Options::perIterTiming)},
      {"-K,--per_iter_skip", "iterations left out of these (0)",
       integerInto(&Options::perIterSkip, 0, kMany)},
      {"--min_bw", "fail if the average bus bandwidth is below 0.9 of this (GB/s)", readMinBusbw},
  };
}

// What only shows when all options are known.
std::string contradictions(const Options& options) {
  if (options.minBytes > options.maxBytes) {
    return "option -b (--minbytes): " + std::to_string(options.minBytes) +
           " is above -e (--maxbytes): " + std::to_string(options.maxBytes) +
           "; give -b at most -e (both are 32M if left out)";
  }
  if (options.stepFactor == 1 && options.stepBytes == 0 && options.minBytes < options.maxBytes) {
    return "option -i (--stepbytes): 0 never gets from -b to -e; give a step above 0, or -f";
  }
  if (options.perIterSkip > 0 && options.perIterSkip >= options.iters) {
    return "option -K (--per_iter_skip): " + std::to_string(options.perIterSkip) +
           " leaves none of the " + std::to_string(options.iters) + " iterations of -n";
  }
  for (const Op op : options.ops) {
    for (const TypeInfo& type : options.types) {
      if (isDefined(op, type)) return {};
    }
  }
  return std::string("option -o (--op): ") + opName(options.ops.front()) +
         " is for integer types; give -d int8, uint8, int16, uint16, int32, uint32, int64, uint64 "
         "or all";
}

ParsedOptions refuse(const std::string& program, const std::string& why) {
  return {std::nullopt, kExitInvalid, program + ": " + why + " (-h lists the options)\n"};
}

// "-b,--minbytes" -> "-b (--minbytes)".
std::string spokenName(const std::string& names) {
  const size_t comma = names.find(',');
  if (comma == std::string::npos) return names;
  return names.substr(0, comma) + " (" + names.substr(comma + 1) + ")";
}

}  // namespace

ParsedOptions parseOptions(int argc, const char* const* argv, const std::string& program) {
  const std::vector<OptionSpec> table = optionTable();
  std::vector<std::string> texts(table.size());
  std::vector<CLI::Option*> parsed;
  bool fresh = false, help = false;
  CLI::App app{"Times a collective of omnes and checks its results.", program};
  app.set_help_flag();
  for (size_t i = 0; i < table.size(); ++i) {
    CLI::Option* option = app.add_option(table[i].names, texts[i], table[i].help);
    // The last one counts, so that a script's defaults can be overridden.
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    parsed.push_back(option);
  }
  app.add_flag("--fresh", fresh,
               "rewrite the input before each operation and time only the operation");
  app.add_flag("-h,--help", help, "print this text");
  // CLI11 reports by exceptions; they end here.
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    return refuse(program, error.what());
  }
  if (help) return {std::nullopt, kExitOk, app.help()};

  Options options;
  options.types = *parseTypes("float", &texts.emplace_back());
  options.fresh = fresh;
  for (size_t i = 0; i < table.size(); ++i) {
    if (parsed[i]->count() == 0) continue;
    std::string problem;
    table[i].read(texts[i], &options, &problem);
    if (!problem.empty()) {
      return refuse(program, "option " + spokenName(table[i].names) + ": '" + texts[i] +
                                 "' is refused: " + problem);
    }
  }
  if (const std::string why = contradictions(options); !why.empty()) return refuse(program, why);
  return {std::move(options), kExitOk, {}};
}

}  // namespace omnes::perf
