#include "base/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "base/proc_file.h"

namespace omnes::base {
namespace {

// No machine has a million cores; the bound only ends the search for a large enough mask.
constexpr size_t kMaxCpus = size_t{1} << 20;
constexpr size_t kBitsPerWord = 8 * sizeof(unsigned long);

std::optional<int> roundUp(std::optional<uint64_t> quota, std::optional<uint64_t> period) {
  if (!quota.has_value() || !period.has_value() || *quota == 0 || *period == 0) return std::nullopt;
  const uint64_t cores = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  return static_cast<int>(std::min<uint64_t>(cores, std::numeric_limits<int>::max()));
}

}  // namespace

namespace internal {

std::optional<int> quotaFromV2(std::string_view cpuMax) {
  const size_t space = cpuMax.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return roundUp(leadingNumber(cpuMax.substr(0, space)), leadingNumber(cpuMax.substr(space + 1)));
}

std::optional<int> quotaFromV1(std::string_view quota, std::string_view period) {
  return roundUp(leadingNumber(quota), leadingNumber(period));
}

}  // namespace internal

int onlineCpus() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

std::vector<int> allowedCpus(pid_t thread) {
  // The kernel refuses a mask smaller than its own with EINVAL, so the mask grows until it is
  // accepted.
  for (size_t bits = 1024; bits <= kMaxCpus; bits *= 2) {
    std::vector<unsigned long> mask(bits / kBitsPerWord);
    const size_t bytes = mask.size() * sizeof(unsigned long);
    if (sched_getaffinity(thread, bytes, reinterpret_cast<cpu_set_t*>(mask.data())) != 0) {
      if (errno == EINVAL) continue;
      return {};
    }
    std::vector<int> cpus;
    for (size_t i = 0; i < bits; ++i) {
      if ((mask[i / kBitsPerWord] >> (i % kBitsPerWord) & 1) != 0)
        cpus.push_back(static_cast<int>(i));
    }
    return cpus;
  }
  return {};
}

std::optional<int> cpuQuota() {
  std::optional<int> least;
  for (const std::string& directory : cgroupDirectories("cpu")) {
    for (const auto quota :
         {internal::quotaFromV2(readProcFile(directory + "/cpu.max")),
          internal::quotaFromV1(readProcFile(directory + "/cpu.cfs_quota_us"),
                                readProcFile(directory + "/cpu.cfs_period_us"))}) {
      if (quota.has_value()) least = std::min(*quota, least.value_or(*quota));
    }
  }
  return least;
}

int usableCores(std::span<const pid_t> peers) {
  std::vector<int> shared = allowedCpus();
  for (const pid_t peer : peers) {
    const std::vector<int> theirs = allowedCpus(peer);
    std::vector<int> both;
    std::set_union(shared.begin(), shared.end(), theirs.begin(), theirs.end(),
                   std::back_inserter(both));
    shared = std::move(both);
  }
  const int cores = shared.empty() ? onlineCpus() : static_cast<int>(shared.size());
  return std::max(1, std::min(cores, cpuQuota().value_or(cores)));
}

}  // namespace omnes::base
