#include "common/report.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string_view>
#include <utility>

#include "common/json_report.h"
#include "omnes/omnes.h"

extern char** environ;

namespace omnes::perf {
namespace {

// Only what concerns this run, and never a secret.
std::vector<std::string> relevantEnvironment() {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("OMNES_") &&
        text.substr(0, text.find('=')).find("SECRET") == std::string_view::npos) {
      found.emplace_back(text);
    }
  }
  return found;
}

std::string versionText(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

bool writeAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

}  // namespace

Report::Report(std::string program, std::vector<std::string> arguments, const Options& options)
    : program_(std::move(program)),
      arguments_(std::move(arguments)),
      options_(options),
      startTime_(timeOfDay()) {}

Report::~Report() {
  if (outputFd_ >= 0) close(outputFd_);
}

bool Report::openOutput(std::string* problem) {
  if (options_.outputFile.empty()) return true;
  constexpr int kMostNames = 1000;
  for (int attempt = 0; attempt < kMostNames; ++attempt) {
    outputName_ = options_.outputFile;
    if (attempt > 0) outputName_ += "." + std::to_string(attempt);
    outputFd_ = open(outputName_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (outputFd_ >= 0) return true;
    if (errno != EEXIST) break;
  }
  *problem =
      "option -J (--output_file): cannot create '" + outputName_ + "': " + std::strerror(errno);
  return false;
}

void Report::begin(const std::vector<DeviceInfo>& devices, const std::string& sizeNote) {
  devices_ = devices;
  int version = 0;
  omnesGetVersion(&version);
  std::printf("# omnes %s headers %s library %s\n", program_.c_str(),
              versionText(OMNES_VERSION_CODE).c_str(), versionText(version).c_str());
  std::printf("# Collective test starting: %s\n", program_.c_str());
  std::printf("%s#\n# Using devices\n", formatParameters(options_).c_str());
  const std::string model = cpuModel();
  for (const DeviceInfo& device : devices) {
    std::printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [cpus %s] %s\n", device.rank, 0,
                device.pid, device.host.c_str(), device.localIndex, device.cpus.c_str(),
                model.c_str());
  }
  if (!sizeNote.empty()) std::printf("# %s\n", sizeNote.c_str());
  std::printf("%s", formatHeader(options_).c_str());
  if (!outputName_.empty() && outputName_ != options_.outputFile) {
    std::printf("# JSON goes to %s: %s exists\n", outputName_.c_str(), options_.outputFile.c_str());
  }
  std::fflush(stdout);
}

void Report::addRow(const Row& row) {
  std::printf("%s", formatRow(row, options_).c_str());
  std::fflush(stdout);
  // An endless run must not grow; the file then has the last rows.
  constexpr size_t kMostRows = 1000000;
  if (rows_.size() < kMostRows) rows_.push_back(row);
}

void Report::addError(const std::string& text) {
  const std::lock_guard<std::mutex> lock(errorsMutex_);
  errors_.push_back(text);
}

void Report::finish(const Summary& summary) {
  summary_ = summary;
  std::printf("# Out of bounds values : %llu %s\n",
              static_cast<unsigned long long>(summary.failedTests),
              summary.failedTests == 0 ? "OK" : "FAILED");
  const char* verdict = options_.minBusbw == 0 ? "" : summary.bandwidthOk ? " OK" : " FAILED";
  std::printf("# Avg bus bandwidth    : %g%s\n#\n", summary.averageBusbw, verdict);
  std::printf("# Collective test concluded: %s\n", program_.c_str());
  if (!summary.memory.empty()) std::printf("# %s\n", summary.memory.c_str());
  std::printf("#\n");
  std::fflush(stdout);
}

bool Report::writeOutput() {
  if (outputFd_ < 0) return true;
  JsonInput input{program_,   arguments_,  relevantEnvironment(),
                  startTime_, timeOfDay(), cpuModel(),
                  &options_,  &devices_,   &rows_,
                  &errors_,   summary_};
  const std::lock_guard<std::mutex> lock(errorsMutex_);
  const bool written = writeAll(outputFd_, toJson(input));
  const bool closed = close(std::exchange(outputFd_, -1)) == 0;
  if (!written || !closed) {
    std::fprintf(stderr, "%s: cannot write '%s': %s\n", program_.c_str(), outputName_.c_str(),
                 std::strerror(errno));
  }
  return written && closed;
}

std::string allowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "?";
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpu);
    if (last > cpu) text += "-" + std::to_string(last);
    cpu = last;
  }
  return text;
}

std::string hostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

std::string cpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "CPU";
}

std::string timeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

}  // namespace omnes::perf
