#include "common/launch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "common/number.h"

namespace omnes::perf {
namespace {

// A launcher is recognised by its size together with the variable that makes this process one of
// its ranks: a shell inside an allocation has the size alone.
struct Launcher {
  const char* size;
  const char* rank;
};
constexpr Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},  // Open MPI
    {"PMI_SIZE", "PMI_RANK"},                          // MPICH, Hydra
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},          // srun
    {"WORLD_SIZE", "RANK"},                            // torchrun
};

using Body = std::function<void(Rank&)>;

int failLaunch(const std::string& program, int exitCode, const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), text.c_str());
  return exitCode;
}

int failCall(const std::string& program, omnesResult_t result, const char* call) {
  return failLaunch(program, kExitLibrary, std::string(call) + ": " + failureText(result, nullptr));
}

int runThreads(int threads, const std::function<int(int thread)>& body) {
  std::vector<int> codes(static_cast<size_t>(threads), kExitOk);
  std::vector<std::thread> running;
  for (int thread = 1; thread < threads; ++thread) {
    running.emplace_back([&, thread] { codes[static_cast<size_t>(thread)] = body(thread); });
  }
  codes[0] = body(0);
  for (std::thread& thread : running) thread.join();
  return *std::max_element(codes.begin(), codes.end());
}

int runRank(const std::string& program, omnesComm_t comm, int rank, int nranks, int localIndex,
            const Body& body) {
  Rank self(program, comm, rank, nranks, localIndex);
  body(self);
  return self.exitCode();
}

// One process: all ranks are its threads.
int launchThreads(const Options& options, const std::string& program, const Body& body) {
  std::vector<omnesComm_t> comms(static_cast<size_t>(options.threads), nullptr);
  const omnesResult_t result = omnesCommInitAll(comms.data(), options.threads, nullptr);
  if (result != omnesSuccess) return failCall(program, result, "omnesCommInitAll");
  return runThreads(options.threads, [&](int thread) {
    return runRank(program, comms[static_cast<size_t>(thread)], thread, options.threads, thread,
                   body);
  });
}

// Threads that each join by themselves, in a communicator of processes * threads ranks.
int joinThreads(const Options& options, const std::string& program, const omnesUniqueId& id,
                int process, int processes, const Body& body) {
  return runThreads(options.threads, [&](int thread) {
    const int nranks = processes * options.threads;
    const int rank = process * options.threads + thread;
    omnesComm_t comm = nullptr;
    const omnesResult_t result = omnesCommInitRank(&comm, nranks, id, rank);
    if (result != omnesSuccess) return failCall(program, result, "omnesCommInitRank");
    return runRank(program, comm, rank, nranks, thread, body);
  });
}

// Agrees on the number of threads and hands the id of process 0 to all, over the processes' own
// communicator.
int agreeOnId(const Options& options, Rank& self, omnesUniqueId* id) {
  std::vector<int64_t> threads = {options.threads, -int64_t{options.threads}};
  if (!self.reduce(&threads, omnesMax)) return self.exitCode();
  if (threads[0] != -threads[1]) {
    self.fail(kExitInvalid, "option -t (--nthreads): processes have from " +
                                std::to_string(-threads[1]) + " to " + std::to_string(threads[0]) +
                                " threads; give all the same");
    return self.exitCode();
  }
  std::memset(id, 0, sizeof *id);
  if (self.rank() == 0 && !self.ok(omnesGetUniqueId(id), "omnesGetUniqueId")) {
    return self.exitCode();
  }
  self.ok(omnesAllReduce(id, id, sizeof *id, omnesUint8, omnesSum, self.comm(), nullptr),
          "omnesAllReduce");
  return self.exitCode();
}

int launchProcesses(const LaunchEnvironment& environment, const Options& options,
                    const std::string& program, const Body& body) {
  omnesComm_t comm = nullptr;
  const omnesResult_t result = omnesCommInitEnv(&comm, nullptr);
  if (result != omnesSuccess) return failCall(program, result, "omnesCommInitEnv");
  int process = 0, processes = 0;
  omnesCommUserRank(comm, &process);
  omnesCommCount(comm, &processes);
  if (processes == 1 && environment.launcherSize > 1) {
    omnesCommDestroy(comm);
    return failLaunch(program, kExitInvalid,
                      environment.launcherName + " says " +
                          std::to_string(environment.launcherSize) +
                          " processes, but omnes found this one alone (rank 0 of 1); unset "
                          "OMNES_NRANKS and OMNES_RANK, or set them for every process");
  }
  if (options.threads == 1) return runRank(program, comm, process, processes, 0, body);
  omnesUniqueId id;
  {
    Rank self(program, comm, process, processes, 0);
    if (const int code = agreeOnId(options, self, &id); code != kExitOk) return code;
  }
  return joinThreads(options, program, id, process, processes, body);
}

}  // namespace

LaunchEnvironment readLaunchEnvironment(const std::function<const char*(const char*)>& lookup) {
  LaunchEnvironment environment;
  for (const char* name : {"OMNES_RANK", "OMNES_NRANKS", "OMNES_COMM_ID"}) {
    if (lookup(name) != nullptr) environment.present = true;
  }
  for (const Launcher& launcher : kLaunchers) {
    const char* size = lookup(launcher.size);
    if (size == nullptr || lookup(launcher.rank) == nullptr) continue;
    environment.present = true;
    std::string problem;
    const auto value = parseInteger(size, 1, 1 << 30, &problem);
    if (!value || *value <= environment.launcherSize) continue;
    environment.launcherSize = static_cast<int>(*value);
    environment.launcherName = launcher.size;
  }
  return environment;
}

int launchRanks(const Options& options, const std::string& program, const Body& body) {
  const LaunchEnvironment environment = readLaunchEnvironment(std::getenv);
  if (environment.present) return launchProcesses(environment, options, program, body);
  if (!options.parallelInit) return launchThreads(options, program, body);
  omnesUniqueId id;
  const omnesResult_t result = omnesGetUniqueId(&id);
  if (result != omnesSuccess) return failCall(program, result, "omnesGetUniqueId");
  return joinThreads(options, program, id, 0, 1, body);
}

}  // namespace omnes::perf
