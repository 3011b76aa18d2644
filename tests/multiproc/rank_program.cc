// The rank that the process tests start: joins through the environment, plays one scenario
// (scenarios/), says how it ended.
//
//   rank_program SCENARIO [plain|stream|group]
// Prints "ready" when joined, then "result CODE TEXT" with the code of the last call and the text
// of its error; exits 0 when it got that far.
#include <cstdio>
#include <cstring>

#include "multiproc/scenarios/scenario.h"

namespace omnes::tests::scenarios {
namespace {

const Scenario* find(const char* name) {
  for (const auto& table : {callScenarios(), mismatchScenarios(), abortScenarios(), forkScenarios(),
                            endScenarios(), shrinkScenarios()})
    for (const Scenario& scenario : table)
      if (std::strcmp(scenario.name, name) == 0) return &scenario;
  return nullptr;
}

int run(const Scenario& scenario, const char* way) {
  Rank rank;
  if (std::strcmp(way, "stream") == 0) rank.way = Way::kStream;
  if (std::strcmp(way, "group") == 0) rank.way = Way::kGroup;
  if (scenario.start == Start::kAlone) return scenario.play(rank);
  const omnesResult_t result = omnesCommInitEnv(&rank.comm, nullptr);
  if (result != omnesSuccess) return report(result, omnesGetLastError(nullptr));
  omnesCommUserRank(rank.comm, &rank.rank);
  omnesCommCount(rank.comm, &rank.nranks);
  if (rank.way == Way::kStream && omnesStreamCreate(&rank.stream) != omnesSuccess) return 3;
  say("ready");
  const int code = scenario.play(rank);
  if (scenario.end == End::kKeeps) return code;
  omnesStreamDestroy(rank.stream);
  omnesCommDestroy(rank.comm);
  return code;
}

}  // namespace
}  // namespace omnes::tests::scenarios

int main(int argc, char** argv) {
  using namespace omnes::tests::scenarios;
  blockTrigger();
  const Scenario* scenario = argc >= 2 ? find(argv[1]) : nullptr;
  if (scenario == nullptr) {
    std::fprintf(stderr, "usage: %s SCENARIO [plain|stream|group]\n", argv[0]);
    return 2;
  }
  return run(*scenario, argc >= 3 ? argv[2] : "plain");
}
