// The rank that the process tests start: joins through the environment, plays one scenario, says
// how it ended.
//
//   rank_program SCENARIO
// Prints "ready" when joined, then "result CODE TEXT" with the code of the last call and the text
// of its error; exits 0 when it got that far. Output buffers are checked against poison where the
// contract says untouched.
#include <omnes/omnes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Rank {
  omnesComm_t comm = nullptr;
  int rank = 0;
  int nranks = 0;
};

constexpr float kPoison = -12345.0f;

void say(const char* text) {
  std::printf("%s\n", text);
  std::fflush(stdout);
}

int report(omnesResult_t result, const char* text) {
  std::printf("result %d %s\n", static_cast<int>(result), text);
  std::fflush(stdout);
  return 0;
}

omnesResult_t allReduce(const Rank& r, std::vector<float>* in, std::vector<float>* out,
                        size_t count, omnesDataType_t type = omnesFloat32,
                        omnesRedOp_t op = omnesSum) {
  return omnesAllReduce(in->data(), out->data(), count, type, op, r.comm, nullptr);
}

// All-reduces of `count` floats until one fails.
int loop(const Rank& r, size_t count) {
  std::vector<float> in(count, 1.0f), out(count);
  say("running");
  omnesResult_t result;
  do {
    result = allReduce(r, &in, &out, count);
  } while (result == omnesSuccess);
  return report(result, omnesGetLastError(r.comm));
}

// One call in which the last rank differs in one thing; outputs must stay untouched.
int mismatch(const Rank& r, const std::string& what) {
  const bool odd = r.rank == r.nranks - 1;
  const size_t count = what == "small" ? 100 : 40960;
  std::vector<float> in(2 * count, 1.0f), out(2 * count, kPoison);
  // One good call first, so that sequence numbers are not all 1.
  std::vector<float> warm(4);
  omnesResult_t result = allReduce(r, &in, &warm, 4);
  say("running");
  if (result == omnesSuccess) {
    if (odd && (what == "count" || what == "small"))
      result = allReduce(r, &in, &out, count - 2);
    else if (odd && what == "slices")
      result = allReduce(r, &in, &out, 2 * count);
    else if (odd && what == "type")
      result = allReduce(r, &in, &out, count, omnesInt32);
    else if (odd && what == "op")
      result = allReduce(r, &in, &out, count, omnesFloat32, omnesMax);
    else if (odd && what == "order")
      result = omnesBarrier(r.comm, nullptr);
    else if (odd && what == "collective")
      result =
          omnesReduceScatter(in.data(), out.data(), 16, omnesFloat32, omnesSum, r.comm, nullptr);
    else
      result = allReduce(r, &in, &out, count);
  }
  for (const float x : out)
    if (x != kPoison) return report(result, "the output was touched");
  // What failed stays failed, with the first cause.
  const std::string first = omnesGetLastError(r.comm);
  const omnesResult_t again = allReduce(r, &in, &out, count);
  if (again != result || first != omnesGetLastError(r.comm))
    return report(again, "the first cause was not kept");
  omnesResult_t async = omnesSuccess;
  omnesCommGetAsyncError(r.comm, &async);
  if (async != result) return report(async, "the asynchronous error differs");
  return report(result, omnesGetLastError(r.comm));
}

// The last rank joins and then never calls.
int absent(const Rank& r) {
  std::vector<float> in(1000, 1.0f), out(1000);
  omnesResult_t result = allReduce(r, &in, &out, 10);
  say("running");
  if (result == omnesSuccess && r.rank == r.nranks - 1) {
    // Not a sleep for synchronisation: this rank is absent until the others' error reaches it.
    omnesResult_t async = omnesSuccess;
    while (async == omnesSuccess) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      omnesCommGetAsyncError(r.comm, &async);
    }
    return report(async, omnesGetLastError(r.comm));
  }
  if (result == omnesSuccess) result = allReduce(r, &in, &out, 1000);
  return report(result, omnesGetLastError(r.comm));
}

// Another thread aborts the last rank while all are in operations.
int abortFromThread(const Rank& r) {
  if (r.rank != r.nranks - 1) return loop(r, 1000);
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    omnesCommAbort(r.comm);
  });
  std::vector<float> in(1000, 1.0f), out(1000);
  say("running");
  omnesResult_t result;
  do {
    result = allReduce(r, &in, &out, 1000);
  } while (result == omnesSuccess && omnesCommGetAsyncError(r.comm, &result) == omnesSuccess &&
           result == omnesSuccess);
  aborter.join();
  return report(result, "aborted");
}

// The last rank leaves in order; the others go on without noticing and then call.
int leave(const Rank& r) {
  std::vector<float> in(1000, 1.0f), out(1000);
  omnesResult_t result = allReduce(r, &in, &out, 1000);
  say("running");
  if (r.rank == r.nranks - 1) {
    omnesCommDestroy(r.comm);
    return report(result, "left");
  }
  if (result == omnesSuccess) result = allReduce(r, &in, &out, 1000);
  return report(result, omnesGetLastError(r.comm));
}

// A few all-reduces of several sizes, checked.
int few(const Rank& r) {
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
    std::vector<float> in(count, static_cast<float>(r.rank + 1)), out(count, kPoison);
    const omnesResult_t result = allReduce(r, &in, &out, count);
    if (result != omnesSuccess) return report(result, omnesGetLastError(r.comm));
    for (const float x : out)
      if (x != static_cast<float>(r.nranks * (r.nranks + 1) / 2))
        return report(omnesInternalError, "a sum is wrong");
  }
  return report(omnesSuccess, "all sums are right");
}

int fewCalls(const Rank& r) {
  std::vector<float> in(1000, 1.0f), out(1000);
  say("running");
  omnesResult_t result = omnesSuccess;
  for (int call = 0; call < 200 && result == omnesSuccess; ++call)
    result = allReduce(r, &in, &out, 1000);
  return report(result, omnesGetLastError(r.comm));
}

// More communicators from the environment beside the first one: each an n-th meeting.
int threeMeetings(const Rank& r) {
  std::vector<float> in(10, static_cast<float>(r.rank + 1)), out(10);
  omnesResult_t result = allReduce(r, &in, &out, 10);
  for (int meeting = 1; meeting < 3 && result == omnesSuccess; ++meeting) {
    Rank another = r;
    result = omnesCommInitEnv(&another.comm, nullptr);
    if (result != omnesSuccess) return report(result, omnesGetLastError(nullptr));
    result = allReduce(another, &in, &out, 10);
    omnesCommDestroy(another.comm);
    if (result == omnesSuccess && out[9] != static_cast<float>(r.nranks * (r.nranks + 1) / 2))
      return report(omnesInternalError, "a sum is wrong");
  }
  return report(result, result == omnesSuccess ? "three communicators" : omnesGetLastError(r.comm));
}

int play(const Rank& r, const std::string& scenario) {
  if (scenario == "few") return few(r);
  if (scenario == "loop") return loop(r, 16 << 20);  // 64 MiB
  if (scenario == "loop-small") return loop(r, 2);
  if (scenario == "absent") return absent(r);
  if (scenario == "abort") return abortFromThread(r);
  if (scenario == "leave") return leave(r);
  if (scenario == "no-destroy") {
    std::vector<float> in(1000, 1.0f), out(1000);
    return report(allReduce(r, &in, &out, 1000), "leaving as it is");
  }
  if (scenario == "forked-child") {
    // A child that outlives its parent keeps copies of all descriptors.
    if (r.rank == r.nranks - 1 && fork() == 0) {
      alarm(20);
      pause();
      _exit(0);
    }
    return loop(r, 16 << 20);
  }
  if (scenario == "three-meetings") return threeMeetings(r);
  if (scenario == "few-calls") return fewCalls(r);
  if (scenario == "child-destroys") {
    const pid_t child = r.rank == r.nranks - 1 ? fork() : -1;
    if (child == 0) _exit(static_cast<int>(omnesCommDestroy(r.comm)));
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    if (child > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != omnesInvalidUsage))
      return report(omnesInternalError, "the child was not refused");
    return fewCalls(r);
  }
  if (scenario.rfind("mismatch-", 0) == 0) return mismatch(r, scenario.substr(9));
  std::fprintf(stderr, "unknown scenario %s\n", scenario.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string scenario = argv[1];
  Rank r;
  const omnesResult_t result = omnesCommInitEnv(&r.comm, nullptr);
  if (result != omnesSuccess) return report(result, omnesGetLastError(nullptr));
  omnesCommUserRank(r.comm, &r.rank);
  omnesCommCount(r.comm, &r.nranks);
  say("ready");
  const int code = play(r, scenario);
  const bool isLast = r.rank == r.nranks - 1;
  if (scenario == "no-destroy" || (isLast && (scenario == "leave" || scenario == "abort")))
    return code;
  omnesCommDestroy(r.comm);
  return code;
}
