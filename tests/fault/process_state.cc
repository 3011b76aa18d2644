#include "fault/process_state.h"

#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace omnes::tests {
namespace {

// The entries of a folder of /proc, which are numbers all.
std::vector<int> numbersIn(const char* folder) {
  std::vector<int> numbers;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(folder, error);
       it != std::filesystem::directory_iterator(); it.increment(error))
    numbers.push_back(std::stoi(it->path().filename()));
  return numbers;
}

std::string allBeyond(const Held& before, const Held& now) {
  std::string text;
  for (const auto& [number, what] : now) {
    const auto found = before.find(number);
    if (found != before.end() && found->second == what) continue;
    text.append(text.empty() ? "" : ", ").append(std::to_string(number)).append(" ").append(what);
  }
  return text;
}

}  // namespace

Held heldThreads() {
  Held held;
  for (const int id : numbersIn("/proc/self/task")) {
    std::ifstream file("/proc/self/task/" + std::to_string(id) + "/comm");
    std::string name;
    if (std::getline(file, name)) held[id] = name;  // otherwise it has ended meanwhile
  }
  return held;
}

Held heldDescriptors() {
  Held held;
  for (const int number : numbersIn("/proc/self/fd")) {
    // The folder was one of them; it is closed now, and so is what was as short-lived.
    std::error_code error;
    const auto target =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(number), error);
    if (!error) held[number] = target;
  }
  return held;
}

Held usualThreads() {
  std::thread([] {}).join();
  return heldThreads();
}

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

std::string leftBeyond(const Held& before, Held (*now)()) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (true) {
    std::string left = allBeyond(before, now());
    if (left.empty() || std::chrono::steady_clock::now() > end) return left;
    poll(nullptr, 0, 5);
  }
}

}  // namespace omnes::tests
