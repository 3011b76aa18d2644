#include "multiproc/process_group.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <span>

#include "base/random.h"

extern char** environ;

namespace omnes::tests {

std::string freshAddress() {
  uint64_t bits = 0;
  if (!base::randomBytes(std::as_writable_bytes(std::span(&bits, 1))).isOk()) std::abort();
  char text[64];
  std::snprintf(text, sizeof text, "unix:@omnes-test-%016llx",
                static_cast<unsigned long long>(bits));
  return text;
}

std::string freshTcpAddress() {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd.get(), generic, bytes) != 0 || getsockname(fd.get(), generic, &bytes) != 0)
    std::abort();
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

ProcessGroup::~ProcessGroup() {
  for (size_t i = 0; i < processes_.size(); ++i)
    if (!results_[i].hasEnded) kill(i, SIGKILL);
  for (int round = 0; round < 50; ++round) pump(100);
}

void ProcessGroup::start(const std::vector<std::string>& command,
                         const std::map<std::string, std::string>& environment) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (environment.count(text.substr(0, text.find('='))) == 0) variables.push_back(text);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : variables) envp.push_back(const_cast<char*>(variable.c_str()));
  argv.push_back(nullptr), envp.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // The same descriptors whoever runs the tests: some count them.
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  Process process;
  if (posix_spawn(&process.pid, argv[0], &actions, nullptr, argv.data(), envp.data()) != 0) {
    std::perror(argv[0]);
    std::abort();
  }
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  process.out.reset(ends[0]);
  process.pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  processes_.push_back(std::move(process));
  results_.emplace_back();
}

void ProcessGroup::startRanks(int nranks, const std::vector<std::string>& command,
                              const std::map<std::string, std::string>& environment) {
  auto all = environment;
  all.emplace("OMNES_COMM_ID", freshAddress());
  all.emplace("OMNES_NRANKS", std::to_string(nranks));
  for (int rank = 0; rank < nranks; ++rank) {
    all["OMNES_RANK"] = std::to_string(rank);
    start(command, all);
  }
}

void ProcessGroup::pump(int ms) {
  std::vector<pollfd> fds;
  bool alive = false;
  for (size_t i = 0; i < processes_.size(); ++i) {
    fds.push_back({processes_[i].out.get(), POLLIN, 0});
    fds.push_back({results_[i].hasEnded ? -1 : processes_[i].pidfd.get(), POLLIN, 0});
    alive = alive || !results_[i].hasEnded;
  }
  if (!alive) ms = 0;
  poll(fds.data(), fds.size(), ms);
  for (size_t i = 0; i < processes_.size(); ++i) {
    char buffer[4096];
    ssize_t got;
    while (processes_[i].out.isOpen() &&
           (got = read(processes_[i].out.get(), buffer, sizeof buffer)) > 0)
      results_[i].output.append(buffer, static_cast<size_t>(got));
    if (results_[i].hasEnded || !(fds[2 * i + 1].revents & POLLIN)) continue;
    int status = 0;
    if (waitpid(processes_[i].pid, &status, WNOHANG) != processes_[i].pid) continue;
    results_[i].hasEnded = true;
    results_[i].exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    results_[i].signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    results_[i].endedAfter = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start_);
    while ((got = read(processes_[i].out.get(), buffer, sizeof buffer)) > 0)
      results_[i].output.append(buffer, static_cast<size_t>(got));
    // A forked child of it may hold the other end for longer than we care.
    processes_[i].out.reset();
  }
}

bool ProcessGroup::waitForText(const std::string& text, std::chrono::milliseconds limit,
                               int except) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    bool all = true, isHopeless = false;
    for (size_t i = 0; i < results_.size(); ++i) {
      if (static_cast<int>(i) == except || results_[i].output.find(text) != std::string::npos)
        continue;
      all = false;
      isHopeless = isHopeless || results_[i].hasEnded;
    }
    if (all) return true;
    if (isHopeless || std::chrono::steady_clock::now() >= end) return false;
    pump(20);
  }
}

bool ProcessGroup::waitForTextOf(size_t index, const std::string& text,
                                 std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (results_[index].output.find(text) == std::string::npos) {
    if (results_[index].hasEnded || std::chrono::steady_clock::now() >= end) return false;
    pump(20);
  }
  return true;
}

void ProcessGroup::kill(size_t index, int signal) {
  // A process that has been reaped may have given its number to another.
  if (!results_[index].hasEnded) ::kill(processes_[index].pid, signal);
}

void ProcessGroup::keepFor(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    pump(20);
    poll(nullptr, 0, 1);  // when all have ended, pump() does not wait
  }
}

const std::vector<ProcessResult>& ProcessGroup::waitForAll(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  const auto someoneLives = [&] {
    for (const ProcessResult& result : results_)
      if (!result.hasEnded) return true;
    return false;
  };
  while (someoneLives() && std::chrono::steady_clock::now() < end) pump(20);
  return results_;
}

}  // namespace omnes::tests
