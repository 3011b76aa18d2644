#include "base/tasks.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/proc_file.h"

namespace omnes::base {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

bool isOurs(const std::string& folder) {
  return readProcFile(folder + "/comm").starts_with("omnes-");
}

// Seconds since boot at which the task was started; field 22 of its stat, in clock ticks.
std::optional<double> startOf(const std::string& folder) {
  const std::string stat = readProcFile(folder + "/stat");
  size_t at = stat.rfind(')');
  // Behind the name comes field 3.
  for (int field = 3; field <= 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return std::nullopt;
  const auto ticks = leadingNumber(std::string_view(stat).substr(at));
  if (!ticks) return std::nullopt;
  return static_cast<double>(*ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::optional<OtherTasks> otherTasks() {
  const std::string self = std::to_string(gettid());
  const std::string root = "/proc/self/task/";
  if (isOurs(root + self)) return std::nullopt;
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(root.c_str()));
  if (directory == nullptr) return std::nullopt;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double uptime = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  OtherTasks out;
  bool sawSelf = false;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name[0] == '.') continue;
    if (name == self) {
      sawSelf = true;
      continue;
    }
    if (isOurs(root + name)) continue;
    const double age = uptime - startOf(root + name).value_or(uptime);
    out.youngestAge = out.count == 0 ? age : std::min(out.youngestAge, age);
    ++out.count;
  }
  if (!sawSelf) return std::nullopt;
  return out;
}

}  // namespace omnes::base
