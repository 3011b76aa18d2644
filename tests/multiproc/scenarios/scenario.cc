#include "multiproc/scenarios/scenario.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace omnes::tests::scenarios {

void say(const char* text) {
  std::printf("%s\n", text);
  std::fflush(stdout);
}

int report(omnesResult_t result, const char* text) {
  std::printf("result %d %s\n", static_cast<int>(result), text);
  std::fflush(stdout);
  return 0;
}

int report(const Rank& rank, omnesResult_t result) {
  return report(result, omnesGetLastError(rank.comm));
}

omnesResult_t allReduce(const Rank& rank, const void* in, void* out, size_t count,
                        omnesDataType_t type, omnesRedOp_t op) {
  switch (rank.way) {
    case Way::kPlain: return omnesAllReduce(in, out, count, type, op, rank.comm, nullptr);
    case Way::kStream: {
      const omnesResult_t result = omnesAllReduce(in, out, count, type, op, rank.comm, rank.stream);
      return result != omnesSuccess ? result : omnesStreamSynchronize(rank.stream);
    }
    case Way::kGroup: break;
  }
  omnesResult_t result = omnesGroupStart();
  if (result != omnesSuccess) return result;
  result = omnesAllReduce(in, out, count, type, op, rank.comm, nullptr);
  const omnesResult_t end = omnesGroupEnd();
  return result != omnesSuccess ? result : end;
}

int loop(const Rank& rank, size_t count) {
  const Buffer in(count), out(count);
  omnesResult_t result = allReduce(rank, in.data(), out.data(), count);
  say("running");
  while (result == omnesSuccess) result = allReduce(rank, in.data(), out.data(), count);
  return report(rank, result);
}

namespace {

sigset_t trigger() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

void blockTrigger() {
  const sigset_t set = trigger();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void waitForTrigger() {
  const sigset_t set = trigger();
  while (sigwaitinfo(&set, nullptr) != SIGUSR1) {
  }
}

bool hasTrigger() {
  const sigset_t set = trigger();
  const timespec now{};
  return sigtimedwait(&set, nullptr, &now) == SIGUSR1;
}

Buffer::Buffer(size_t count, float value) : data_(std::make_unique<float[]>(count)) {
  std::fill_n(data_.get(), count, value);
}

void Watched::begin() {
  thread_.store(gettid(), std::memory_order_release);  // W3: pairs with W4
}

bool Watched::isAsleep() const {
  const pid_t thread = thread_.load(std::memory_order_acquire);  // W4: pairs with W3
  if (thread == 0) return false;
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name = line.rfind(')');
  return name != std::string::npos && line.compare(name, 3, ") S") == 0;
}

void Watched::waitUntilStuck() const {
  constexpr int kLooks = 60;  // of a millisecond; no operation under way takes that long asleep
  int looks = 0;
  uint64_t before = UINT64_MAX;
  while (!hasEnded() && looks < kLooks) {
    const uint64_t now = calls_.load(std::memory_order_relaxed);
    looks = now == before ? looks + isAsleep() : 0;
    before = now;
    poll(nullptr, 0, 1);
  }
}

omnesResult_t timedAbort(omnesComm_t comm) {
  const Stopwatch watch;
  const omnesResult_t result = omnesCommAbort(comm);
  std::printf("abort %d after %lld ms\n", static_cast<int>(result),
              static_cast<long long>(watch.ms()));
  std::fflush(stdout);
  return result;
}

omnesResult_t makeSecond(const Rank& rank, omnesComm_t* comm) {
  omnesUniqueId id{};
  omnesResult_t result = rank.rank == 0 ? omnesGetUniqueId(&id) : omnesSuccess;
  if (result != omnesSuccess) return result;
  result = omnesAllReduce(&id, &id, sizeof id, omnesUint8, omnesSum, rank.comm, nullptr);
  if (result != omnesSuccess) return result;
  return omnesCommInitRank(comm, rank.nranks, id, rank.rank);
}

}  // namespace omnes::tests::scenarios
