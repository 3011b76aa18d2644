// Aborts from another thread: in calls, beside dead and stopped peers, during init, twice.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "multiproc/scenarios/scenario.h"

namespace omnes::tests::scenarios {
namespace {

constexpr size_t kSmallCount = 1000;

// Calls until they fail. A rank that is told to aborts from another thread, and frees the buffers
// as soon as the abort has returned. The handle is then gone: this thread must be inside a call
// when that happens, hence waitUntilStuck().
int abortAtTrigger(const Rank& rank, size_t count, bool twice) {
  Buffer in(count), out(count);
  Watched watched;
  std::thread aborter([&] {
    waitForTrigger();
    watched.waitUntilStuck();
    timedAbort(rank.comm);
    in.free(), out.free();
    if (twice) timedAbort(rank.comm);
  });
  watched.begin();
  omnesResult_t result = allReduce(rank, in.data(), out.data(), count);
  say("running");
  while (result == omnesSuccess) {
    result = allReduce(rank, in.data(), out.data(), count);
    watched.count();
  }
  const std::string text = omnesGetLastError(nullptr);
  watched.end();
  say("ended");
  kill(getpid(), SIGUSR1);  // a rank that nobody has told to abort does so now
  aborter.join();
  return report(result, text.c_str());
}

int abortSmall(const Rank& rank) { return abortAtTrigger(rank, kSmallCount, false); }
int abortBig(const Rank& rank) { return abortAtTrigger(rank, kBigCount, false); }
int abortTwice(const Rank& rank) { return abortAtTrigger(rank, kSmallCount, true); }

// The last rank calls nothing and aborts when it is told to; the others are inside a call.
int abortByIdle(const Rank& rank) {
  if (!rank.isLast()) {
    loop(rank, kSmallCount);
    omnesCommDestroy(rank.comm);
    return 0;
  }
  const Buffer in(kSmallCount), out(kSmallCount);
  const omnesResult_t result = allReduce(rank, in.data(), out.data(), kSmallCount);
  say("running");
  waitForTrigger();
  timedAbort(rank.comm);
  return report(result, "aborted");
}

// C28: two communicators, each with calls under way on a thread of its own; both are aborted from a
// third one, the second first when the rank is told twice.
int abortBoth(const Rank& rank, bool secondFirst) {
  std::array<omnesComm_t, 2> comms{rank.comm, nullptr};
  const omnesResult_t made = makeSecond(rank, &comms[1]);
  if (made != omnesSuccess) return report(made, omnesGetLastError(nullptr));
  std::array<Watched, 2> watched;
  std::array<omnesResult_t, 2> results{};
  std::array<std::string, 2> texts;
  std::array<std::thread, 2> callers;
  std::array<Buffer, 2> in{Buffer(kBigCount), Buffer(kSmallCount)},
      out{Buffer(kBigCount), Buffer(kSmallCount)};
  for (const size_t i : {0, 1})
    callers[i] = std::thread([&, i] {
      const size_t count = i == 0 ? kBigCount : kSmallCount;
      watched[i].begin();
      while (results[i] == omnesSuccess) {
        results[i] = omnesAllReduce(in[i].data(), out[i].data(), count, omnesFloat32, omnesSum,
                                    comms[i], nullptr);
        watched[i].count();
      }
      texts[i] = omnesGetLastError(nullptr);
      watched[i].end();
    });
  say("running");
  waitForTrigger();
  for (const Watched& one : watched) one.waitUntilStuck();
  timedAbort(comms[secondFirst]);
  timedAbort(comms[!secondFirst]);
  for (std::thread& caller : callers) caller.join();
  if (results[0] != results[1]) return report(omnesInternalError, "the communicators differ");
  return report(results[0], (texts[0] + " / " + texts[1]).c_str());
}

int abortFirstSecond(const Rank& rank) { return abortBoth(rank, false); }
int abortSecondFirst(const Rank& rank) { return abortBoth(rank, true); }

// Ranks that never come, in the background; aborted (or destroyed) at once and in the middle.
int abortInit(const Rank&) {
  for (const int rank : {0, 1})
    for (const bool destroys : {false, true})
      for (const bool waits : {false, true}) {
        omnesUniqueId id;
        omnesResult_t result = omnesGetUniqueId(&id);
        if (result != omnesSuccess) return report(result, omnesGetLastError(nullptr));
        omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
        config.blocking = 0;
        omnesComm_t comm = nullptr;
        result = omnesCommInitRankConfig(&comm, 3, id, rank, &config);
        if (result != omnesInProgress || comm == nullptr)
          return report(omnesInternalError, "init is not in progress");
        // Until it has got somewhere: the time is of no importance, so none is promised.
        for (const Stopwatch watch; waits && watch.ms() < 100;) std::this_thread::yield();
        omnesResult_t async = omnesSuccess;
        omnesCommGetAsyncError(comm, &async);
        if (async != omnesInProgress) return report(async, "init has not been waiting");
        if (omnesBarrier(comm, nullptr) != omnesInvalidUsage)
          return report(omnesInternalError, "a call was not refused during init");
        const Stopwatch watch;
        if (!destroys)
          timedAbort(comm);
        else if (omnesCommDestroy(comm) != omnesSuccess || watch.ms() > 5000)
          return report(omnesInternalError, "destroy has failed or has taken long");
      }
  return report(omnesSuccess, "all were ended");
}

}  // namespace

std::span<const Scenario> abortScenarios() {
  static constexpr Scenario kTable[] = {
      {"abort", abortSmall, End::kKeeps},
      {"abort-big", abortBig, End::kKeeps},
      {"abort-twice", abortTwice, End::kKeeps},
      {"abort-idle", abortByIdle, End::kKeeps},
      {"abort-first-second", abortFirstSecond, End::kKeeps},
      {"abort-second-first", abortSecondFirst, End::kKeeps},
      {"abort-init", abortInit, End::kKeeps, Start::kAlone},
  };
  return kTable;
}

}  // namespace omnes::tests::scenarios
