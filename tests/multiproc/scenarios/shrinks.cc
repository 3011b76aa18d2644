// Survivors that make a communicator without the dead, and grow it again.
#include <omnes/omnes.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "multiproc/scenarios/scenario.h"

namespace omnes::tests::scenarios {
namespace {

int sizeOf(omnesComm_t comm) {
  int size = 0;
  omnesCommCount(comm, &size);
  return size;
}

// Whether an all-reduce adds up, and the text "sum N of SIZE ranks".
omnesResult_t check(omnesComm_t comm) {
  int64_t one = 1, sum = 0;
  const omnesResult_t result = omnesAllReduce(&one, &sum, 1, omnesInt64, omnesSum, comm, nullptr);
  if (result == omnesSuccess)
    std::printf("sum %lld of %d ranks\n", static_cast<long long>(sum), sizeOf(comm));
  std::fflush(stdout);
  return result == omnesSuccess && sum != sizeOf(comm) ? omnesInternalError : result;
}

void printId(const omnesUniqueId& id) {
  std::string text = "id ";
  char digits[3];
  for (const char byte : id.internal) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte) & 0xff);
    text += digits;
  }
  say((text + " end").c_str());
}

omnesUniqueId readId(const char* text) {
  omnesUniqueId id{};
  for (size_t i = 0; i < sizeof id.internal && text[2 * i] != 0; ++i)
    id.internal[i] =
        static_cast<char>(std::strtol(std::string(text + 2 * i, 2).c_str(), nullptr, 16));
  return id;
}

// Works until ranks die; then without them; then, with new ones, at the old size.
int survive(const Rank& rank) {
  int64_t value = 1, sum = 0;
  omnesResult_t result = omnesSuccess;
  bool isFirst = true;
  while (result == omnesSuccess) {
    result = omnesAllReduce(&value, &sum, 1, omnesInt64, omnesSum, rank.comm, nullptr);
    if (isFirst) say("running");
    isFirst = false;
  }
  const Stopwatch watch;
  omnesComm_t survivors = nullptr;
  for (;;) {
    result = omnesCommShrink(rank.comm, nullptr, 0, &survivors, nullptr, OMNES_SHRINK_FAILED);
    if (result == omnesSuccess) result = check(survivors);
    if (result != omnesRemoteError) break;
    omnesCommDestroy(survivors);
    survivors = nullptr;
  }
  if (result != omnesSuccess) return report(result, omnesGetLastError(survivors));
  int failed[64], n = 64;
  omnesCommGetFailedRanks(rank.comm, failed, &n);
  std::string text = "shrunk in " + std::to_string(watch.ms()) + " ms without";
  for (int i = 0; i < n; ++i) text += " " + std::to_string(failed[i]);
  say(text.c_str());
  int own = -1;
  omnesCommUserRank(survivors, &own);
  omnesUniqueId id{};
  if (own == 0) {
    result = omnesCommGetUniqueId(survivors, &id);
    printId(id);
  }
  omnesComm_t grown = nullptr;
  if (result == omnesSuccess)
    result = omnesCommGrow(survivors, rank.nranks, own == 0 ? &id : nullptr, -1, &grown, nullptr);
  if (result == omnesSuccess) result = check(grown);
  const int code = report(result, omnesGetLastError(grown));
  omnesCommDestroy(grown);
  omnesCommDestroy(survivors);
  return code;
}

// One of those that come instead of the dead.
int newcomer(const Rank&) {
  const omnesUniqueId id = readId(std::getenv("OMNES_TEST_ID"));
  omnesComm_t grown = nullptr;
  omnesResult_t result = omnesCommGrow(nullptr, std::atoi(std::getenv("OMNES_TEST_NRANKS")), &id,
                                       std::atoi(std::getenv("OMNES_TEST_RANK")), &grown, nullptr);
  if (result == omnesSuccess) result = check(grown);
  const int code = report(result, omnesGetLastError(grown));
  omnesCommDestroy(grown);
  return code;
}

constexpr Scenario kScenarios[] = {
    {"survive", survive},
    {"newcomer", newcomer, End::kKeeps, Start::kAlone},
};

}  // namespace

std::span<const Scenario> shrinkScenarios() { return kScenarios; }

}  // namespace omnes::tests::scenarios
