#include "base/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/text.h"

namespace omnes::base {
namespace {

// "N:controllers:path" lines; v2 has an empty list of controllers.
void addAncestors(std::vector<std::string>& directories, const std::string& root,
                  std::string_view path) {
  while (!path.empty() && path != "/") {
    directories.push_back(root + std::string(path));
    path = path.substr(0, path.rfind('/'));
  }
  directories.push_back(root);
}

}  // namespace

std::string readProcFile(const std::string& path) {
  const UniqueFd fd =
      UniqueFd::open([&path] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  std::string text;
  char buffer[4096];
  while (fd.isOpen()) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

std::optional<uint64_t> leadingNumber(std::string_view text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto value = parseInt(text.substr(0, digits));
  if (!value.isOk()) return std::nullopt;
  return static_cast<uint64_t>(value.value());
}

std::vector<std::string> cgroupDirectories(std::string_view controller) {
  std::vector<std::string> directories;
  const std::string text = readProcFile("/proc/self/cgroup");
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers.empty()) {
      addAncestors(directories, "/sys/fs/cgroup", path);
      addAncestors(directories, "/sys/fs/cgroup/unified", path);  // v2 beside v1
      continue;
    }
    for (const std::string_view name : splitList(controllers)) {
      if (name == controller)
        addAncestors(directories, "/sys/fs/cgroup/" + std::string(controller), path);
    }
  }
  return directories;
}

}  // namespace omnes::base
