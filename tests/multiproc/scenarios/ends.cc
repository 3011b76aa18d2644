// Processes that end without Destroy, and those that make and destroy again and again.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "multiproc/scenarios/scenario.h"

namespace omnes::tests::scenarios {
namespace {

int noDestroy(const Rank& rank) {
  const Buffer in(1000), out(1000);
  const omnesResult_t first = allReduce(rank, in.data(), out.data(), 1000);
  if (first != omnesSuccess) return report(rank, first);
  // Nobody leaves before all have done the first call. In the second one a rank may see that
  // another, which needs no more of it, has gone without a goodbye.
  const omnesResult_t second = allReduce(rank, in.data(), out.data(), 1000);
  return report(second == omnesRemoteError ? omnesSuccess : second, "leaving as it is");
}

// Buffers of what goes on while main() returns: they must live for as long as the process.
struct Endless {
  std::array<float, 4096> in{}, out{};
};

// main() returns while another thread is inside a call.
int busyExit(const Rank& rank) {
  static Endless endless;
  static Watched watched;
  std::thread([rank] {
    watched.begin();
    while (allReduce(rank, endless.in.data(), endless.out.data(), 4096) == omnesSuccess)
      watched.count();
    watched.end();
  }).detach();
  // The last rank leaves in the middle; the others wait for it in vain, and leave then.
  if (!rank.isLast()) watched.waitUntilStuck();
  return report(omnesSuccess, "leaving with a call under way");
}

// main() returns with operations in a stream that can never be carried out.
int streamExit(const Rank& told) {
  static Endless endless;
  Rank rank = told;
  if (rank.stream == nullptr && omnesStreamCreate(&rank.stream) != omnesSuccess)
    return report(omnesInternalError, "no stream");
  const int calls = rank.isLast() ? 20 : 40;
  omnesResult_t result = omnesSuccess;
  for (int call = 0; call < calls && result == omnesSuccess; ++call)
    result = omnesAllReduce(endless.in.data(), endless.out.data(), 4096, omnesFloat32, omnesSum,
                            rank.comm, rank.stream);
  // A rank that has left may be noticed while this one still enqueues.
  if (result == omnesRemoteError) result = omnesSuccess;
  return report(result, "leaving with a stream under way");
}

// Joins and leaves at one address, many times, with a call in between.
int cycle(const Rank&) {
  const int cycles = std::atoi(std::getenv("OMNES_TEST_CYCLES"));
  for (int i = 0; i < cycles; ++i) {
    Rank rank;
    omnesResult_t result = omnesCommInitEnv(&rank.comm, nullptr);
    if (result != omnesSuccess)
      return report(result, (std::to_string(i) + ": " + omnesGetLastError(nullptr)).c_str());
    float value = 1;
    result = omnesAllReduce(&value, &value, 1, omnesFloat32, omnesSum, rank.comm, nullptr);
    if (result != omnesSuccess) return report(rank, result);
    omnesCommDestroy(rank.comm);
  }
  return report(omnesSuccess, "all were made and destroyed");
}

// Says what must stay secret (the id is the test's own), and then everything that may be said.
int canary(const Rank&) {
  const char* path = std::getenv("OMNES_TEST_ID_FILE");
  std::FILE* file = path != nullptr ? std::fopen(path, "wb") : nullptr;
  omnesUniqueId id;
  omnesResult_t result = omnesGetUniqueId(&id);
  if (file == nullptr || result != omnesSuccess)
    return report(omnesInternalError, "no file or no id");
  std::fwrite(id.internal, 1, sizeof id.internal, file);
  std::fclose(file);
  // The second round fails: rank 1 is claimed twice.
  for (const int claimed : {1, 0}) {
    std::array<std::thread, 2> threads;
    for (const int i : {0, 1})
      threads[i] = std::thread([&, i] {
        omnesComm_t comm = nullptr;
        omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
        config.initTimeoutMs = 3000;
        omnesResult_t one = omnesCommInitRankConfig(&comm, 2, id, i * claimed, &config);
        float value = 1;
        if (one == omnesSuccess)
          one = omnesAllReduce(&value, &value, 1, omnesFloat32, omnesSum, comm, nullptr);
        std::printf("rank %d: %d %s\n", i, static_cast<int>(one), omnesGetLastError(nullptr));
        omnesCommDestroy(comm);
      });
    for (std::thread& thread : threads) thread.join();
  }
  // A damaged id: the error must not show it.
  id.internal[20] ^= 1;
  omnesComm_t comm = nullptr;
  result = omnesCommInitRank(&comm, 2, id, 0);
  std::printf("damaged: %d %s\n", static_cast<int>(result), omnesGetLastError(nullptr));
  return report(omnesSuccess, "all has been said");
}

}  // namespace

std::span<const Scenario> endScenarios() {
  static constexpr Scenario kTable[] = {{"no-destroy", noDestroy, End::kKeeps},
                                        {"busy-exit", busyExit, End::kKeeps},
                                        {"stream-exit", streamExit, End::kKeeps},
                                        {"cycle", cycle, End::kKeeps, Start::kAlone},
                                        {"canary", canary, End::kKeeps, Start::kAlone}};
  return kTable;
}

}  // namespace omnes::tests::scenarios
