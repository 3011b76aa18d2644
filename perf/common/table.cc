#include "common/table.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace omnes::perf {
namespace {

[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

std::string centred(const std::string& text, size_t width) {
  if (text.size() >= width) return text;
  const size_t left = (width - text.size()) / 2;
  return std::string(left, ' ') + text + std::string(width - text.size() - left, ' ');
}

// Two spaces stand before each column; the first one starts with '#' in headers.
std::string identityColumns(const char* size, const char* count, const char* type, const char* op,
                            const char* root) {
  return print("#%11s  %12s  %8s  %6s  %6s", size, count, type, op, root);
}

std::string sideColumns(const Options& options, const char* time, const char* bandwidth1,
                        const char* bandwidth2, const char* wrong, const char* us,
                        const char* percent) {
  std::string text = print("  %7s  %6s  %6s  %6s", time, bandwidth1, bandwidth2, wrong);
  if (!options.perIterTiming) return text;
  if (*us == 0) return text + print("  %7s  %7s  %7s  %6s", "i_min", "i_max", "i_p99", "i_cv%");
  return text + print("  %7s  %7s  %7s  %6s", us, us, us, percent);
}

std::string formatSide(const Side& side, const Options& options) {
  std::string text =
      print("  %7s  %6.2f  %6.2f", formatTime(side.timeUs).c_str(), side.algbw, side.busbw);
  text += side.wrong ? print("  %6llu", static_cast<unsigned long long>(*side.wrong))
                     : print("  %6s", "N/A");
  if (options.perIterTiming && side.iterations) {
    const IterationStats& stats = *side.iterations;
    text += print("  %7s  %7s  %7s  %6.1f", formatTime(stats.minUs).c_str(),
                  formatTime(stats.maxUs).c_str(), formatTime(stats.p99Us).c_str(),
                  stats.variationPercent);
  }
  return text;
}

double percentile(const std::vector<double>& sorted, double fraction) {
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[rank == 0 ? 0 : rank - 1];
}

}  // namespace

IterationStats iterationStats(std::vector<double> timesUs) {
  IterationStats stats;
  std::vector<double> sorted = timesUs;
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  double sum = 0, squares = 0;
  for (const double time : sorted) sum += time;
  stats.averageUs = sum / n;
  for (const double time : sorted) squares += (time - stats.averageUs) * (time - stats.averageUs);
  stats.stdevUs = std::sqrt(squares / n);
  stats.variationPercent = stats.averageUs > 0 ? 100 * stats.stdevUs / stats.averageUs : 0;
  stats.minUs = sorted.front();
  stats.maxUs = sorted.back();
  stats.p50Us = percentile(sorted, 0.50);
  stats.p95Us = percentile(sorted, 0.95);
  stats.p99Us = percentile(sorted, 0.99);
  stats.timesUs = std::move(timesUs);
  return stats;
}

double algorithmBandwidth(uint64_t bytes, double timeUs) {
  return timeUs > 0 ? static_cast<double>(bytes) / timeUs / 1e3 : 0;
}

std::string formatTime(double us) {
  if (us >= 9999.5) return print("%7.0f", us);
  if (us >= 99.995) return print("%7.1f", us);
  return print("%7.2f", us);
}

std::string formatParameters(const Options& options) {
  const bool factor = options.stepFactor > 1;
  std::string text = print(
      "# nThread %d nGpus 1 minBytes %llu maxBytes %llu step: %llu(%s) warmup iters: %d iters: %d "
      "agg iters: %d validation: %d graph: 0 unalign: %d",
      options.threads, static_cast<unsigned long long>(options.minBytes),
      static_cast<unsigned long long>(options.maxBytes),
      static_cast<unsigned long long>(factor ? options.stepFactor : options.stepBytes),
      factor ? "factor" : "bytes", options.warmupIters, options.iters, options.aggIters,
      options.check, options.unalign);
  if (options.fresh) text += " fresh: 1";
  return text + "\n";
}

std::string formatHeader(const Options& options) {
  const std::string identity = identityColumns("", "", "", "", "");
  const size_t sideWidth = sideColumns(options, "", "", "", "", "", "").size();
  std::string captions =
      identity + centred("out-of-place", sideWidth) + centred("in-place", sideWidth);
  captions.resize(captions.find_last_not_of(' ') + 1);

  const char* time = options.reportCpuTime ? "cputime" : "time";
  std::string names = identityColumns("size", "count", "type", "redop", "root");
  std::string units = identityColumns("(B)", "(elements)", "", "", "");
  for (int side = 0; side < 2; ++side) {
    names += sideColumns(options, time, "algbw", "busbw", "#wrong", "", "");
    units += sideColumns(options, "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(%)");
  }
  if (options.reportTimestamps) names += print("  %19s", "timestamp");
  units.resize(units.find_last_not_of(' ') + 1);
  return "#\n" + captions + "\n" + names + "\n" + units + "\n";
}

std::string formatRow(const Row& row, const Options& options) {
  std::string text =
      print("%12llu  %12llu  %8s  %6s  %6d", static_cast<unsigned long long>(row.bytes),
            static_cast<unsigned long long>(row.count), row.type.c_str(), row.op.c_str(), row.root);
  text += formatSide(row.outOfPlace, options);
  text += row.inPlace ? formatSide(*row.inPlace, options)
                      : sideColumns(options, "N/A", "N/A", "N/A", "N/A", "N/A", "N/A");
  if (options.reportTimestamps) text += print("  %19s", row.timestamp.c_str());
  return text + "\n";
}

}  // namespace omnes::perf
