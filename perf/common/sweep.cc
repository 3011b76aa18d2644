#include "common/sweep.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace omnes::perf {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// The first number of a file; kUnlimited if there is none ("max").
uint64_t numberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : kUnlimited;
}

uint64_t memAvailable(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string key;
    uint64_t kib = 0;
    if (fields >> key >> kib && key == "MemAvailable:") return kib * 1024;
  }
  return kUnlimited;
}

uint64_t leftBelow(const std::string& limitFile, const std::string& usageFile) {
  const uint64_t limit = numberIn(limitFile), usage = numberIn(usageFile);
  if (limit == kUnlimited || usage == kUnlimited) return limit;
  return limit > usage ? limit - usage : 0;
}

// Every group from ours up to the root can limit us.
uint64_t leftInGroups(const std::string& mount, std::string group, const char* limit,
                      const char* usage) {
  uint64_t left = kUnlimited;
  for (;;) {
    const std::string folder = mount + group + "/";
    left = std::min(left, leftBelow(folder + limit, folder + usage));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return left;
    group.resize(slash);
  }
}

uint64_t leftInControlGroups(const std::string& root) {
  uint64_t left = kUnlimited;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {  // hierarchy:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers.empty()) {
      left = std::min(left,
                      leftInGroups(root + "/sys/fs/cgroup", group, "memory.max", "memory.current"));
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      left = std::min(left, leftInGroups(root + "/sys/fs/cgroup/memory", group,
                                         "memory.limit_in_bytes", "memory.usage_in_bytes"));
    }
  }
  return left;
}

}  // namespace

std::vector<uint64_t> sweepSizes(const Options& options) {
  std::vector<uint64_t> sizes;
  uint64_t size = options.minBytes;
  while (size <= options.maxBytes) {
    sizes.push_back(size);
    uint64_t next = 0;
    const bool overflow = options.stepFactor > 1
                              ? __builtin_mul_overflow(size, options.stepFactor, &next)
                              : __builtin_add_overflow(size, options.stepBytes, &next);
    if (overflow) break;
    if (options.stepFactor > 1) next = std::max(next, size + 1);  // 0 times a factor stays 0
    if (next <= size) break;
    size = next;
  }
  return sizes;
}

uint64_t availableMemory() { return availableMemoryUnder(""); }

uint64_t availableMemoryUnder(const std::string& root) {
  return std::min(memAvailable(root), leftInControlGroups(root));
}

uint64_t largestSizeFor(uint64_t available, int localRanks, int buffersPerRank) {
  constexpr uint64_t kReservePerRank = 16u << 20;  // slots, tables, stacks
  const auto ranks = static_cast<uint64_t>(localRanks);
  const uint64_t usable = available / 10 * 9;
  const uint64_t reserve = std::min(usable, ranks * kReservePerRank);
  const uint64_t size = (usable - reserve) / ranks / static_cast<uint64_t>(buffersPerRank);
  return size & ~uint64_t{4095};
}

}  // namespace omnes::perf
