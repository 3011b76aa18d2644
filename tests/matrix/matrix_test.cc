// The matrix of collectives: thousands of exact cases through the C API (design.h says which).
//
// usage: matrix_test [--every N] [--repeats N] [--state FILE] [--no-processes]
//        matrix_test --worker GROUP RANK EVERY REPEATS ID      (a rank as a process; started by the
//        former)
//
// --every N plays every N-th case. --state FILE remembers the groups that are done; a run with the
// same file and the same options goes on behind them. Ends with the number of cases and of
// failures.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "matrix/design.h"
#include "matrix/play.h"
#include "omnes/omnes.h"

extern char** environ;

namespace omnes::tests::matrix {
namespace {

constexpr int kTimeoutMs = 120'000;
constexpr int kMostReports = 20;

struct Options {
  int every = 1;
  int repeats = 1;
  std::string state;
  bool processes = true;
};

std::vector<Case> chosenCases(const Group& group, const Options& options) {
  std::vector<Case> all = casesOf(group, options.repeats), out;
  // Another residue for every group, so that a sample has of everything.
  size_t at = 0;
  for (const char byte : group.text()) at = at * 31 + static_cast<uint8_t>(byte);
  for (const Case& c : all)
    if (at++ % static_cast<size_t>(options.every) == 0) out.push_back(c);
  return out;
}

omnesConfig_t configOf(const Group& group) {
  omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
  config.timeoutMs = kTimeoutMs;
  if (!group.algorithm.empty()) config.algo = group.algorithm.c_str();
  return config;
}

// One rank's part of a group; the text of the first failure, which ends it, since ranks would no
// longer agree on what comes next.
std::string playAll(const std::vector<Case>& cases, omnesComm_t comm, int32_t rank) {
  for (const Case& c : cases) {
    const std::string wrong = play(c, comm, rank);
    if (wrong.empty()) continue;
    omnesCommAbort(comm);
    return c.text() + ", rank " + std::to_string(rank) + ": " + wrong;
  }
  const omnesResult_t result = omnesCommDestroy(comm);
  return result == omnesSuccess ? "" : std::string("destroy: ") + omnesGetErrorString(result);
}

std::string joinAndPlay(const Group& group, const std::vector<Case>& cases, int32_t rank,
                        const omnesUniqueId& id) {
  const omnesConfig_t config = configOf(group);
  omnesComm_t comm = nullptr;
  const omnesResult_t result = omnesCommInitRankConfig(&comm, group.nranks, id, rank, &config);
  if (result != omnesSuccess)
    return group.text() + ", rank " + std::to_string(rank) +
           ": init: " + omnesGetLastError(nullptr);
  return playAll(cases, comm, rank);
}

std::vector<std::string> playThreads(const Group& group, const std::vector<Case>& cases) {
  omnesUniqueId id;
  if (omnesGetUniqueId(&id) != omnesSuccess) return {omnesGetLastError(nullptr)};
  std::vector<std::string> wrong(static_cast<size_t>(group.nranks));
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < group.nranks; ++rank)
    threads.emplace_back(
        [&, rank] { wrong[static_cast<size_t>(rank)] = joinAndPlay(group, cases, rank, id); });
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

std::string hexOf(const omnesUniqueId& id) {
  std::string out;
  char text[3];
  for (const char byte : id.internal) {
    std::snprintf(text, sizeof text, "%02x", static_cast<unsigned char>(byte));
    out += text;
  }
  return out;
}

omnesUniqueId idOf(const std::string& hex) {
  omnesUniqueId id{};
  for (size_t i = 0; i < sizeof id.internal; ++i)
    id.internal[i] = static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return id;
}

std::vector<std::string> playProcesses(size_t groupNumber, const Group& group,
                                       const Options& options, const char* program) {
  omnesUniqueId id;
  if (omnesGetUniqueId(&id) != omnesSuccess) return {omnesGetLastError(nullptr)};
  const std::string hex = hexOf(id);
  std::vector<pid_t> children;
  std::vector<std::string> wrong;
  for (int32_t rank = 0; rank < group.nranks; ++rank) {
    std::vector<std::string> words = {program,
                                      "--worker",
                                      std::to_string(groupNumber),
                                      std::to_string(rank),
                                      std::to_string(options.every),
                                      std::to_string(options.repeats),
                                      hex};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t child = -1;
    if (posix_spawn(&child, program, nullptr, nullptr, arguments.data(), environ) != 0)
      wrong.push_back("cannot start " + std::string(program));
    else
      children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    // A worker says itself what is wrong.
    if (status != 0)
      wrong.push_back(group.text() + ": a process ended with " + std::to_string(status));
  }
  return wrong;
}

int work(char** arguments) {
  const std::vector<Group> groups = allGroups();
  const Group& group = groups.at(std::stoul(arguments[0]));
  Options options;
  options.every = std::atoi(arguments[2]);
  options.repeats = std::atoi(arguments[3]);
  const std::string wrong =
      joinAndPlay(group, chosenCases(group, options), std::atoi(arguments[1]), idOf(arguments[4]));
  if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
  return wrong.empty() ? 0 : 1;
}

// The groups that are done, by number, one a line behind a line that names the design.
class State {
 public:
  State(const std::string& path, const std::string& design) : path_(path) {
    if (path.empty()) return;
    std::ifstream in(path);
    std::string line;
    if (std::getline(in, line) && line == design) {
      size_t group = 0, cases = 0;
      while (in >> group >> cases) done_[group] = cases;
      return;
    }
    std::ofstream(path) << design << "\n";
  }
  bool isDone(size_t group) const { return done_.contains(group); }
  void finish(size_t group, size_t cases) const {
    if (!path_.empty()) std::ofstream(path_, std::ios::app) << group << " " << cases << "\n";
  }

 private:
  std::string path_;
  std::map<size_t, size_t> done_;
};

int run(const Options& options, const char* program) {
  const std::vector<Group> groups = allGroups();
  Coverage coverage;
  size_t total = 0, played = 0, failed = 0, resumed = 0;
  for (const Group& group : groups) total += chosenCases(group, options).size();
  const State state(options.state, "matrix of " + std::to_string(groups.size()) + " groups, " +
                                       std::to_string(total) + " cases");
  const auto start = std::chrono::steady_clock::now();
  auto lastWord = start;
  for (size_t number = 0; number < groups.size(); ++number) {
    const Group& group = groups[number];
    if (group.ranks == Ranks::kProcesses && !options.processes) continue;
    const std::vector<Case> cases = chosenCases(group, options);
    for (const Case& c : cases) coverage.add(c);
    if (cases.empty()) continue;
    played += cases.size();
    if (state.isDone(number)) {
      resumed += cases.size();
      continue;
    }
    const std::vector<std::string> wrong = group.ranks == Ranks::kThreads
                                               ? playThreads(group, cases)
                                               : playProcesses(number, group, options, program);
    bool good = true;
    for (const std::string& text : wrong) {
      if (text.empty()) continue;
      if (good && failed < kMostReports) std::printf("WRONG: %s\n", text.c_str());
      good = false;
    }
    failed += good ? 0 : 1;
    if (good) state.finish(number, cases.size());
    const auto now = std::chrono::steady_clock::now();
    if (now - lastWord < std::chrono::seconds(15)) continue;
    lastWord = now;
    std::printf("%zu of %zu cases after %lld s: %s\n", played, total,
                static_cast<long long>(
                    std::chrono::duration_cast<std::chrono::seconds>(now - start).count()),
                group.text().c_str());
    std::fflush(stdout);
  }
  const Coverage::Count pairs = coverage.pairs(), triples = coverage.triples();
  std::printf(
      "covered: %zu of %zu pairs of values, %zu of %zu triples of operator, type and algorithm\n",
      pairs.seen, pairs.all, triples.seen, triples.all);
  const bool isWhole = options.every == 1 && options.processes;
  const std::string missing = isWhole ? coverage.firstMissing() : "";
  if (!missing.empty()) std::printf("NOT COVERED: %s\n", missing.c_str());
  std::printf("matrix: %zu cases (%zu of an earlier run), %zu groups failed\n", played, resumed,
              failed);
  return failed == 0 && missing.empty() && played > 0 ? 0 : 1;
}

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--no-processes") {
      options->processes = false;
      continue;
    }
    if (value == nullptr) return false;
    ++i;
    if (word == "--every")
      options->every = std::atoi(value);
    else if (word == "--repeats")
      options->repeats = std::atoi(value);
    else if (word == "--state")
      options->state = value;
    else
      return false;
  }
  return options->every > 0 && options->repeats > 0;
}

}  // namespace
}  // namespace omnes::tests::matrix

int main(int argc, char** argv) {
  using namespace omnes::tests::matrix;
  if (argc == 7 && std::strcmp(argv[1], "--worker") == 0) return work(argv + 2);
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr, "usage: %s [--every N] [--repeats N] [--state FILE] [--no-processes]\n",
                 argv[0]);
    return 2;
  }
  return run(options, "/proc/self/exe");
}
