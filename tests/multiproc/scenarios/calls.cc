// Calls that go on until something happens to a rank.
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <vector>

#include "multiproc/scenarios/scenario.h"

namespace omnes::tests::scenarios {
namespace {

int big(const Rank& rank) { return loop(rank, kBigCount); }
int small(const Rank& rank) { return loop(rank, 2); }

// One message round the ring, in a group in any case.
omnesResult_t passOn(const Rank& rank, const Buffer& out, const Buffer& in, size_t count) {
  const omnesStream_t stream = rank.way == Way::kStream ? rank.stream : nullptr;
  const int next = (rank.rank + 1) % rank.nranks;
  const int last = (rank.rank + rank.nranks - 1) % rank.nranks;
  omnesResult_t result = omnesGroupStart();
  if (result == omnesSuccess)
    result = omnesSend(out.data(), count, omnesFloat32, next, rank.comm, stream);
  if (result == omnesSuccess)
    result = omnesRecv(in.data(), count, omnesFloat32, last, rank.comm, stream);
  const omnesResult_t end = omnesGroupEnd();
  if (result == omnesSuccess) result = end;
  if (result != omnesSuccess || stream == nullptr) return result;
  return omnesStreamSynchronize(stream);
}

// Until one fails.
int messagesOf(const Rank& rank, size_t count) {
  const Buffer out(count), in(count);
  omnesResult_t result = passOn(rank, out, in, count);
  say("running");
  while (result == omnesSuccess) result = passOn(rank, out, in, count);
  return report(rank, result);
}
int messages(const Rank& rank) { return messagesOf(rank, kBigCount); }
int smallMessages(const Rank& rank) { return messagesOf(rank, 2); }

// The last rank joins and then never calls.
int absent(const Rank& rank) {
  const Buffer in(1000), out(1000);
  omnesResult_t result = allReduce(rank, in.data(), out.data(), 10);
  say("running");
  if (result == omnesSuccess && rank.isLast()) {
    // Not a sleep for synchronisation: this rank is absent until the others' error reaches it.
    omnesResult_t async = omnesSuccess;
    while (async == omnesSuccess) {
      timespec pause{0, 5'000'000};
      nanosleep(&pause, nullptr);
      omnesCommGetAsyncError(rank.comm, &async);
    }
    return report(rank, async);
  }
  if (result == omnesSuccess) result = allReduce(rank, in.data(), out.data(), 1000);
  return report(rank, result);
}

// The last rank leaves in order; the others go on without noticing and then call.
int leave(const Rank& rank) {
  const Buffer in(1000), out(1000);
  omnesResult_t result = allReduce(rank, in.data(), out.data(), 1000);
  say("running");
  if (rank.isLast()) {
    omnesCommDestroy(rank.comm);
    return report(result, "left");
  }
  if (result == omnesSuccess) result = allReduce(rank, in.data(), out.data(), 1000);
  report(rank, result);
  omnesCommDestroy(rank.comm);
  return 0;
}

// One all-reduce, every element checked.
const char* checked(const Rank& rank, size_t count, omnesResult_t* result) {
  const Buffer in(count, static_cast<float>(rank.rank + 1)), out(count, kPoison);
  *result = allReduce(rank, in.data(), out.data(), count);
  if (*result != omnesSuccess) return omnesGetLastError(rank.comm);
  for (size_t i = 0; i < count; ++i) {
    if (out.data()[i] == static_cast<float>(rank.nranks * (rank.nranks + 1) / 2)) continue;
    *result = omnesInternalError;
    return "a sum is wrong";
  }
  return "all sums are right";
}

// The collectives with a root, from and to every rank, and an all-to-all; what rank s has for rank
// d begins with 100 * s + d.
const char* checkedWithRoots(const Rank& rank, size_t count, omnesResult_t* result) {
  const auto n = static_cast<size_t>(rank.nranks);
  const auto value = [](int from, int to) { return 100 * from + to; };
  std::vector<int> mine(n * count), all(n * count), block(count);
  for (size_t i = 0; i < mine.size(); ++i)
    mine[i] = value(rank.rank, static_cast<int>(i / count)) + static_cast<int>(i % count) * 10000;
  const auto begins = [&](const std::vector<int>& data, size_t at, int first) {
    return data[at] == first && data[at + count - 1] == first + static_cast<int>(count - 1) * 10000;
  };
  bool isRight = true;
  for (int root = 0; root < rank.nranks && *result == omnesSuccess; ++root) {
    const omnesComm_t comm = rank.comm;
    const bool isRoot = rank.rank == root;
    *result = omnesScatter(mine.data(), block.data(), count, omnesInt32, root, comm, nullptr);
    isRight = isRight && begins(block, 0, value(root, rank.rank));
    if (*result == omnesSuccess)
      *result = omnesGather(block.data(), isRoot ? all.data() : nullptr, count, omnesInt32, root,
                            comm, nullptr);
    for (int r = 0; isRoot && r < rank.nranks; ++r)
      isRight = isRight && begins(all, static_cast<size_t>(r) * count, value(root, r));
    if (*result == omnesSuccess)
      *result = omnesBcast(block.data(), count, omnesInt32, root, comm, nullptr);
    isRight = isRight && begins(block, 0, value(root, root));
    if (*result == omnesSuccess)
      *result = omnesReduce(block.data(), isRoot ? block.data() : nullptr, count, omnesInt32,
                            omnesMax, root, comm, nullptr);
    isRight = isRight && begins(block, 0, value(root, root));
  }
  if (*result == omnesSuccess)
    *result = omnesAlltoAll(mine.data(), all.data(), count, omnesInt32, rank.comm, nullptr);
  for (int r = 0; r < rank.nranks; ++r)
    isRight = isRight && begins(all, static_cast<size_t>(r) * count, value(r, rank.rank));
  if (*result != omnesSuccess) return omnesGetLastError(rank.comm);
  if (!isRight) *result = omnesInternalError;
  return isRight ? "all blocks are right" : "a block is wrong";
}

int few(const Rank& rank) {
  omnesResult_t result = omnesSuccess;
  const char* text = "";
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{50000}})
    if (result == omnesSuccess) text = checkedWithRoots(rank, count, &result);
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{1} << 20})
    if (result == omnesSuccess) text = checked(rank, count, &result);
  return report(result, text);
}

int fewCalls(const Rank& rank) {
  say("running");
  omnesResult_t result = omnesSuccess;
  const char* text = "";
  for (int call = 0; call < 200 && result == omnesSuccess; ++call)
    text = checked(rank, 1000, &result);
  return report(result, text);
}

// Checked calls of several sizes until rank 0 is told to end; all hear of it in the same call.
int steady(const Rank& rank) {
  const char* text = "";
  omnesResult_t result = omnesSuccess;
  int ends = 0;
  for (int call = 0; ends == 0 && result == omnesSuccess; ++call) {
    const int mine = rank.rank == 0 && hasTrigger() ? 1 : 0;
    result = allReduce(rank, &mine, &ends, 1, omnesInt32, omnesMax);
    if (result != omnesSuccess) return report(rank, result);
    text = checked(rank, call % 8 == 0 ? kBigCount / 16 : 3000, &result);
    if (call == 0) say("running");
  }
  return report(result, text);
}

std::atomic<uint64_t> ticks{0};
void onTick(int) { ticks.fetch_add(1, std::memory_order_relaxed); }  // relaxed: only a number

// C40: a timer without SA_RESTART, from before the communicator is made.
int timer(const Rank& told) {
  struct sigaction action {};
  action.sa_handler = onTick;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval interval{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &interval, nullptr);
  Rank rank = told;
  omnesResult_t result = omnesCommInitEnv(&rank.comm, nullptr);
  if (result != omnesSuccess) return report(result, omnesGetLastError(nullptr));
  omnesCommUserRank(rank.comm, &rank.rank);
  omnesCommCount(rank.comm, &rank.nranks);
  if (rank.way == Way::kStream) omnesStreamCreate(&rank.stream);
  const char* text = "";
  for (int call = 0; call < 10000 && result == omnesSuccess; ++call)
    text = checked(rank, call % 500 == 0 ? kBigCount / 16 : 1 + call % 700, &result);
  if (result == omnesSuccess && ticks.load(std::memory_order_relaxed) < 10)
    return report(omnesInternalError, "the timer has hardly run: nothing is shown");
  report(result, text);
  omnesStreamDestroy(rank.stream);
  omnesCommDestroy(rank.comm);
  return 0;
}

// More communicators from the environment beside the first one: each an n-th meeting.
int threeMeetings(const Rank& rank) {
  Buffer in(10, static_cast<float>(rank.rank + 1)), out(10);
  omnesResult_t result = allReduce(rank, in.data(), out.data(), 10);
  for (int meeting = 1; meeting < 3 && result == omnesSuccess; ++meeting) {
    Rank another = rank;
    result = omnesCommInitEnv(&another.comm, nullptr);
    if (result != omnesSuccess) return report(result, omnesGetLastError(nullptr));
    result = allReduce(another, in.data(), out.data(), 10);
    omnesCommDestroy(another.comm);
    if (result == omnesSuccess &&
        out.data()[9] != static_cast<float>(rank.nranks * (rank.nranks + 1) / 2))
      return report(omnesInternalError, "a sum is wrong");
  }
  return report(result,
                result == omnesSuccess ? "three communicators" : omnesGetLastError(rank.comm));
}

}  // namespace

std::span<const Scenario> callScenarios() {
  static constexpr Scenario kTable[] = {{"loop", big},
                                        {"loop-small", small},
                                        {"messages", messages},
                                        {"messages-small", smallMessages},
                                        {"absent", absent},
                                        {"leave", leave, End::kKeeps},
                                        {"few", few},
                                        {"few-calls", fewCalls},
                                        {"steady", steady},
                                        {"three-meetings", threeMeetings},
                                        {"absent-keeps", absent, End::kKeeps},
                                        {"timer", timer, End::kKeeps, Start::kAlone}};
  return kTable;
}

}  // namespace omnes::tests::scenarios
