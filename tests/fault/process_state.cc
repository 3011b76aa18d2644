#include "fault/process_state.h"

#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace omnes::tests {
namespace {

size_t entriesOf(const char* folder) {
  size_t count = 0;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(folder, error);
       it != std::filesystem::directory_iterator(); it.increment(error))
    ++count;
  return count;
}

}  // namespace

size_t openDescriptors() { return entriesOf("/proc/self/fd"); }
size_t threads() { return entriesOf("/proc/self/task"); }

int64_t heapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

int64_t residentBytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::set<std::string> sharedFiles() {
  std::set<std::string> names;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator("/dev/shm", error);
       it != std::filesystem::directory_iterator(); it.increment(error))
    names.insert(it->path().filename());
  return names;
}

std::set<std::string> omnesSockets() {
  std::set<std::string> names;
  std::ifstream file("/proc/self/net/unix");
  for (std::string line; std::getline(file, line);)
    if (const size_t at = line.find("@omnes"); at != std::string::npos)
      names.insert(line.substr(at));
  return names;
}

std::set<std::string> listeningPorts() {
  std::set<std::string> ports;
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      if (state == "0A") ports.insert(local);  // LISTEN
    }
  }
  return ports;
}

bool comesDownTo(size_t most, size_t (*now)()) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (now() > most) {
    if (std::chrono::steady_clock::now() > end) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

}  // namespace omnes::tests
