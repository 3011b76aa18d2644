// Random schedules of operations, groups, streams, callbacks, aborts and destroys, on several
// communicators from several threads, by seed: each ends, and every outcome is one that may be.
//
// Every thread plays one rank of each shared communicator, and all threads follow one script, so
// that operations cannot wait for each other in a circle; which stream or group a step goes to is
// each thread's own choice. Beside that a thread may have all ranks of a communicator of its own,
// whose calls it groups. OMNES_TEST_SEEDS says how many schedules; OMNES_TEST_FIRST_SEED where.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/thread_ranks.h"

namespace omnes::tests {
namespace {

constexpr std::chrono::seconds kLimit{kSanitized ? 120 : 30};

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBarrier, kEnd };
enum class End { kDestroy, kAbort, kAbortFromOtherThread, kFinalize };

struct ScriptStep {
  Kind kind = Kind::kAllReduce;
  int comm = 0;
  size_t count = 1;
  int groupWithNext = 0;  // how many of the following steps may be in one group with it
  End end = End::kDestroy;
  int ender = 0;  // the rank that ends
};

struct Script {
  uint64_t seed = 0;
  int ranks = 2;
  int comms = 2;
  std::vector<ScriptStep> steps;
};

Script makeScript(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upTo = [&](int most) { return static_cast<int>(random() % (most + 1u)); };
  Script script{seed, 2 + upTo(1), 1 + upTo(2), {}};
  constexpr size_t kCounts[] = {0, 1, 7, 1000, 30000};
  const int steps = 5 + upTo(25);
  for (int i = 0; i < steps; ++i) {
    ScriptStep step;
    step.kind = static_cast<Kind>(upTo(3));
    step.comm = upTo(script.comms - 1);
    step.count = kCounts[upTo(4)];
    step.groupWithNext = upTo(3) == 0 ? 1 + upTo(3) : 0;
    if (upTo(20) == 0) {
      step.kind = Kind::kEnd;
      step.end = static_cast<End>(upTo(3));
      step.ender = upTo(script.ranks - 1);
    }
    script.steps.push_back(step);
  }
  return script;
}

// One operation of one rank: its buffers, and what must be in them.
struct Operation {
  int comm = 0;
  std::vector<int32_t> in, out;
  std::vector<int32_t> expected;

  Operation(const ScriptStep& step, size_t number, int rank, int nranks) : comm(step.comm) {
    const auto value = [number](int r) { return static_cast<int32_t>(number % 1000) * 10 + r; };
    int32_t sum = 0;
    for (int r = 0; r < nranks; ++r) sum += value(r);
    const size_t n = static_cast<size_t>(nranks);
    switch (step.kind) {
      case Kind::kAllReduce:
        in.assign(step.count, value(rank));
        out.assign(step.count, -1);
        expected.assign(step.count, sum);
        break;
      case Kind::kReduceScatter:
        in.assign(step.count * n, value(rank));
        out.assign(step.count, -1);
        expected.assign(step.count, sum);
        break;
      case Kind::kAllGather:
        in.assign(step.count, value(rank));
        out.assign(step.count * n, -1);
        for (int r = 0; r < nranks; ++r) expected.insert(expected.end(), step.count, value(r));
        break;
      default: break;
    }
  }
  omnesResult_t call(const ScriptStep& step, omnesComm_t handle, omnesStream_t stream) {
    switch (step.kind) {
      case Kind::kAllReduce:
        return omnesAllReduce(in.data(), out.data(), step.count, omnesInt32, omnesSum, handle,
                              stream);
      case Kind::kReduceScatter:
        return omnesReduceScatter(in.data(), out.data(), step.count, omnesInt32, omnesSum, handle,
                                  stream);
      case Kind::kAllGather:
        return omnesAllGather(in.data(), out.data(), step.count, omnesInt32, handle, stream);
      default: return omnesBarrier(handle, stream);
    }
  }
};

// What has become of a shared communicator, as far as any rank may know. Set before it is ended.
struct Shared {
  std::vector<omnesComm_t> handles;  // by rank; each used by the rank's thread
  std::atomic<bool> mayFail{false};
};

// One thread of a schedule.
class Player {
 public:
  Player(const Script& script, std::vector<std::unique_ptr<Shared>>* comms, int rank)
      : script_(script), comms_(*comms), rank_(rank), random_(script.seed * 31 + rank + 1) {}

  void play() {
    for (omnesStream_t& stream : streams_) ASSERT_EQ(omnesStreamCreate(&stream), omnesSuccess);
    makeOwn();
    for (size_t i = 0; i < script_.steps.size();) {
      maybeUseOwn();
      const ScriptStep& step = script_.steps[i];
      if (step.kind == Kind::kEnd) {
        end(step);
        ++i;
        continue;
      }
      size_t behind = i + 1;
      while (behind < script_.steps.size() &&
             behind <= i + static_cast<size_t>(step.groupWithNext) &&
             script_.steps[behind].kind != Kind::kEnd)
        ++behind;
      run(i, behind);
      i = behind;
      if (upTo(5) == 0) synchronize();
    }
    finish();
  }

 private:
  int upTo(int most) { return static_cast<int>(random_() % (most + 1u)); }
  omnesStream_t anyStream() {
    const int i = upTo(2);
    return i == 2 ? nullptr : streams_[i];
  }
  bool isAlive(int comm) const {
    return comms_[static_cast<size_t>(comm)]->handles[static_cast<size_t>(rank_)] != nullptr &&
           dead_.count(comm) == 0;
  }
  // No thread of ours is about to.
  bool mayEnd(int comm) const { return isAlive(comm) && othersEnd_.count(comm) == 0; }
  bool mayFail(int comm) const {
    return comms_[static_cast<size_t>(comm)]->mayFail.load(std::memory_order_acquire);
  }
  void check(const Operation& op) {
    ASSERT_EQ(op.out, op.expected) << "seed " << script_.seed << " comm " << op.comm;
  }

  // Steps first..behind-1, in one group if they are more than one. A group of several
  // communicators, one of which has been ended here, runs without it.
  void run(size_t first, size_t behind) {
    const bool grouped = behind - first > 1 || upTo(4) == 0;
    std::vector<std::unique_ptr<Operation>> waited;
    bool failureAllowed = false, refused = false;
    const size_t pendingBefore = pending_.size();
    omnesResult_t result = omnesSuccess;
    if (grouped) {
      ASSERT_EQ(omnesGroupStart(), omnesSuccess);
    }
    for (size_t i = first; i < behind; ++i) {
      const ScriptStep& step = script_.steps[i];
      if (!isAlive(step.comm)) continue;
      auto op = std::make_unique<Operation>(step, i, rank_, script_.ranks);
      const omnesStream_t stream = anyStream();
      const omnesResult_t called = op->call(
          step, comms_[static_cast<size_t>(step.comm)]->handles[static_cast<size_t>(rank_)],
          stream);
      if (called != omnesSuccess) {
        ASSERT_TRUE(mayFail(step.comm)) << where(i) << describe(called);
        if (called == omnesInvalidArgument) dead_.insert(step.comm);
        result = called;
        refused = true;
        continue;
      }
      (stream == nullptr ? waited : pending_).push_back(std::move(op));
    }
    if (grouped) result = omnesGroupEnd();
    // One of the communicators was aborted in between.
    refused = refused || result == omnesInvalidArgument;
    for (size_t i = first; i < behind; ++i)
      failureAllowed = failureAllowed || mayFail(script_.steps[i].comm);
    if (result != omnesSuccess) {
      ASSERT_TRUE(failureAllowed) << where(first) << describe(result);
      // In a group the refusal of one call drops all others, here and on no other rank: their
      // communicators are out of step and must go.
      if (grouped && refused) {
        pending_.resize(pendingBefore);
        loseStep(first, behind);
      }
      return;
    }
    for (const auto& op : waited) check(*op);
  }

  void loseStep(size_t first, size_t behind) {
    for (size_t i = first; i < behind; ++i) {
      Shared& shared = *comms_[static_cast<size_t>(script_.steps[i].comm)];
      shared.mayFail.store(true, std::memory_order_release);
      if (mayEnd(script_.steps[i].comm)) abortHere(script_.steps[i].comm, false);
    }
  }

  void end(const ScriptStep& step) {
    if (step.ender != rank_ || !mayEnd(step.comm)) return;
    Shared& shared = *comms_[static_cast<size_t>(step.comm)];
    shared.mayFail.store(true, std::memory_order_release);
    omnesComm_t& handle = shared.handles[static_cast<size_t>(rank_)];
    switch (step.end) {
      case End::kAbort: abortHere(step.comm, false); return;
      case End::kAbortFromOtherThread: abortHere(step.comm, true); return;
      case End::kFinalize: {
        const omnesResult_t result = omnesCommFinalize(handle);
        ASSERT_NE(result, omnesInvalidArgument) << describe(result);
        [[fallthrough]];
      }
      case End::kDestroy: ASSERT_EQ(describe(omnesCommDestroy(handle)), "0"); handle = nullptr;
    }
  }

  // With another thread the abort may come at any time in what this one does next.
  void abortHere(int comm, bool fromOther) {
    omnesComm_t& handle = comms_[static_cast<size_t>(comm)]->handles[static_cast<size_t>(rank_)];
    if (!fromOther) {
      ASSERT_EQ(describe(omnesCommAbort(handle)), "0");
      handle = nullptr;
      // Nobody is in them: under Address sanitizer this would show.
      std::erase_if(pending_, [comm](const auto& op) { return op->comm == comm; });
      return;
    }
    aborters_.emplace_back([aborted = handle, delay = upTo(200)] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(delay);
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      EXPECT_EQ(describe(omnesCommAbort(aborted)), "0");
    });
    othersEnd_.insert(comm);
  }

  void synchronize() {
    bool allGood = true, mayFailAny = false;
    for (const omnesStream_t stream : streams_) {
      const omnesResult_t result = omnesStreamSynchronize(stream);
      if (result == omnesSuccess) continue;
      allGood = false;
      for (int comm = 0; comm < script_.comms; ++comm) mayFailAny = mayFailAny || mayFail(comm);
      ASSERT_TRUE(mayFailAny) << "seed " << script_.seed << ": " << describe(result);
      ASSERT_TRUE(result == omnesRemoteError || result == omnesInvalidUsage) << describe(result);
    }
    for (const auto& op : pending_)
      if (allGood || !mayFail(op->comm)) check(*op);
    pending_.clear();
  }

  // All ranks of a communicator that only this thread uses, and whose ranks share a stream.
  void makeOwn() {
    if (upTo(1) == 0) return;
    own_.assign(static_cast<size_t>(1 + upTo(2)), nullptr);
    ASSERT_EQ(describe(omnesCommInitAll(own_.data(), static_cast<int>(own_.size()), nullptr)), "0");
  }
  void maybeUseOwn() {
    if (own_.empty() || upTo(2) != 0) return;
    std::vector<int64_t> values(own_.size(), 3);
    const omnesStream_t stream = anyStream();
    ASSERT_EQ(omnesGroupStart(), omnesSuccess);
    for (size_t r = 0; r < own_.size(); ++r)
      ASSERT_EQ(omnesAllReduce(&values[r], &values[r], 1, omnesInt64, omnesSum, own_[r], stream),
                omnesSuccess);
    ASSERT_EQ(describe(omnesGroupEnd()), "0");
    if (stream != nullptr) {
      if (upTo(1) == 0) {
        ASSERT_EQ(omnesStreamAddCallback(stream, count, &callbacks_, 0), omnesSuccess);
        ++callbacksExpected_;
      }
      synchronize();
    }
    ASSERT_EQ(values, std::vector<int64_t>(own_.size(), 3 * static_cast<int64_t>(own_.size())));
  }
  static void count(omnesStream_t, omnesResult_t, void* number) { ++*static_cast<int*>(number); }

  void finish() {
    // Some leave with operations pending: destroying waits for them.
    if (upTo(1) == 0) synchronize();
    for (std::thread& aborter : aborters_) aborter.join();
    for (const int comm : othersEnd_)
      comms_[static_cast<size_t>(comm)]->handles[static_cast<size_t>(rank_)] = nullptr;
    for (const auto& shared : comms_) {
      const omnesComm_t handle = shared->handles[static_cast<size_t>(rank_)];
      EXPECT_EQ(describe(omnesCommDestroy(handle)), "0") << "seed " << script_.seed;
    }
    for (const omnesComm_t comm : own_) EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
    synchronize();
    for (const omnesStream_t stream : streams_)
      EXPECT_EQ(describe(omnesStreamDestroy(stream)), "0");
    EXPECT_EQ(callbacks_, callbacksExpected_);
  }
  std::string where(size_t step) const {
    return "seed " + std::to_string(script_.seed) + " step " + std::to_string(step) + " rank " +
           std::to_string(rank_) + ": ";
  }

  const Script& script_;
  std::vector<std::unique_ptr<Shared>>& comms_;
  const int rank_;
  std::mt19937_64 random_;
  omnesStream_t streams_[2] = {};
  std::vector<std::unique_ptr<Operation>> pending_;
  std::vector<omnesComm_t> own_;
  std::vector<std::thread> aborters_;
  std::set<int> dead_;       // found so by a call
  std::set<int> othersEnd_;  // aborted by a thread of ours
  int callbacks_ = 0, callbacksExpected_ = 0;
};

void playSchedule(uint64_t seed) {
  const Script script = makeScript(seed);
  std::vector<std::unique_ptr<Shared>> comms;
  for (int i = 0; i < script.comms; ++i) {
    comms.push_back(std::make_unique<Shared>());
    comms.back()->handles.assign(static_cast<size_t>(script.ranks), nullptr);
    ASSERT_EQ(describe(omnesCommInitAll(comms.back()->handles.data(), script.ranks, nullptr)), "0");
  }
  runThreads(script.ranks, "schedule of seed " + std::to_string(seed), kLimit,
             [&](int rank) { Player(script, &comms, rank).play(); });
}

uint64_t numberFrom(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(Schedules, RandomOnesEndAsTheyMay) {
  const uint64_t seeds = numberFrom("OMNES_TEST_SEEDS", kSanitized ? 60 : 200);
  const uint64_t first = numberFrom("OMNES_TEST_FIRST_SEED", std::random_device{}());
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + seeds - 1));
  std::fflush(stdout);
  for (uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) playSchedule(seed);
}

}  // namespace
}  // namespace omnes::tests
