// Ranks that meet through a store of the user's, or by several ids.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/thread_ranks.h"

namespace omnes::tests {
namespace {

constexpr std::chrono::seconds kLimit{kSanitized ? 240 : 60};
constexpr int kRanks = 3;

int64_t countOf(omnesComm_t comm) {
  int64_t value = 1;
  EXPECT_EQ(describe(omnesAllReduce(&value, &value, 1, omnesInt64, omnesSum, comm, nullptr)), "0");
  return value;
}

// A store in memory that can fail and hang.
struct MemoryStore {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;  // guarded by mutex
  std::atomic<omnesResult_t> putResult{omnesSuccess};
  bool hangs = false;    // guarded by mutex; in wait, until released
  int insideOfHang = 0;  // guarded by mutex

  omnesStore_t handle(const char* prefix) {
    omnesStore_t store = OMNES_STORE_INITIALIZER;
    store.user = this;
    store.prefix = prefix;
    store.put = [](void* user, const char* key, const void* value, size_t bytes) {
      auto* self = static_cast<MemoryStore*>(user);
      if (self->putResult.load() != omnesSuccess) return self->putResult.load();
      const std::lock_guard<std::mutex> lock(self->mutex);
      self->values[key].assign(static_cast<const char*>(value), bytes);
      self->changed.notify_all();
      return omnesSuccess;
    };
    store.get = [](void* user, const char* key, void* value, size_t capacity, size_t* bytes) {
      auto* self = static_cast<MemoryStore*>(user);
      const std::lock_guard<std::mutex> lock(self->mutex);
      const auto found = self->values.find(key);
      if (found == self->values.end()) return omnesInvalidArgument;
      *bytes = found->second.size();
      std::memcpy(value, found->second.data(), std::min(capacity, found->second.size()));
      return omnesSuccess;
    };
    store.wait = [](void* user, const char* key, int timeoutMs) {
      auto* self = static_cast<MemoryStore*>(user);
      std::unique_lock<std::mutex> lock(self->mutex);
      ++self->insideOfHang;
      self->changed.wait(lock, [self] { return !self->hangs; });
      --self->insideOfHang;
      self->changed.notify_all();
      const bool isThere = self->changed.wait_for(lock, std::chrono::milliseconds(timeoutMs),
                                                  [&] { return self->values.contains(key); });
      return isThere ? omnesSuccess : omnesTimeout;
    };
    return store;
  }
};

TEST(InitStore, RanksMeetAndPrefixesKeepThemApart) {
  MemoryStore memory;
  runThreads(2 * kRanks, "two communicators by one store", kLimit, [&](int thread) {
    const omnesStore_t store = memory.handle(thread < kRanks ? "one" : "two");
    omnesComm_t comm = nullptr;
    ASSERT_EQ(describe(omnesCommInitStore(&comm, kRanks, thread % kRanks, &store, nullptr)), "0");
    EXPECT_EQ(countOf(comm), kRanks);
    omnesCommDestroy(comm);
  });
  // Used up, and said so.
  const omnesStore_t store = memory.handle("one");
  omnesComm_t comm = nullptr;
  EXPECT_EQ(omnesCommInitStore(&comm, kRanks, 1, &store, nullptr), omnesInvalidUsage);
}

TEST(InitStore, ArgumentsAreChecked) {
  MemoryStore memory;
  omnesComm_t comm = nullptr;
  omnesStore_t store = memory.handle("p");
  EXPECT_EQ(omnesCommInitStore(nullptr, 1, 0, &store, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommInitStore(&comm, 0, 0, &store, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommInitStore(&comm, 2, 2, &store, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommInitStore(&comm, 1, 0, nullptr, nullptr), omnesInvalidArgument);
  store.prefix = "";
  EXPECT_EQ(omnesCommInitStore(&comm, 1, 0, &store, nullptr), omnesInvalidArgument);
  store = memory.handle("p");
  store.get = nullptr;
  EXPECT_EQ(omnesCommInitStore(&comm, 1, 0, &store, nullptr), omnesInvalidArgument);
  store = memory.handle("p");
  store.size = 8;
  EXPECT_EQ(omnesCommInitStore(&comm, 1, 0, &store, nullptr), omnesInvalidArgument);
  EXPECT_EQ(comm, nullptr);
}

TEST(InitStore, FailureOfACallbackIsNamed) {
  MemoryStore memory;
  memory.putResult = omnesInternalError;
  const omnesStore_t store = memory.handle("p");
  omnesComm_t comm = nullptr;
  EXPECT_EQ(omnesCommInitStore(&comm, 2, 0, &store, nullptr), omnesSystemError);
  const std::string text = omnesGetLastError(nullptr);
  EXPECT_NE(text.find("callback put returned 3"), std::string::npos) << text;
  EXPECT_NE(text.find("'p/id'"), std::string::npos) << text;
}

TEST(InitStore, SomethingElseUnderTheKeyIsRefused) {
  MemoryStore memory;
  memory.values["p/id"] = std::string(5000, 'x');
  memory.values["q/id"] = "short";
  omnesComm_t comm = nullptr;
  for (const char* prefix : {"p", "q"}) {
    const omnesStore_t store = memory.handle(prefix);
    EXPECT_EQ(omnesCommInitStore(&comm, 2, 1, &store, nullptr), omnesInvalidUsage);
  }
}

TEST(InitStore, CallbackThatDoesNotReturnIsLeftBehindAtTheDeadline) {
  MemoryStore memory;
  memory.hangs = true;
  const omnesStore_t store = memory.handle("p");
  omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
  config.initTimeoutMs = 200;
  omnesComm_t comm = nullptr;
  const Watchdog watchdog("hanging store", kLimit);
  EXPECT_EQ(omnesCommInitStore(&comm, 2, 1, &store, &config), omnesTimeout);
  const std::string text = omnesGetLastError(nullptr);
  EXPECT_NE(text.find("waiting for rank 0 to put 'p/id'"), std::string::npos) << text;
  // In the background an abort ends it.
  config.blocking = 0;
  config.initTimeoutMs = 0;
  EXPECT_EQ(omnesCommInitStore(&comm, 2, 1, &store, &config), omnesInProgress);
  EXPECT_EQ(describe(omnesCommAbort(comm)), "0");
  // The store must live until its callbacks have returned: the key ends their waits.
  std::unique_lock<std::mutex> lock(memory.mutex);
  memory.hangs = false;
  memory.values["p/id"] = "";
  memory.changed.notify_all();
  memory.changed.wait(lock, [&] { return memory.insideOfHang == 0; });
}

TEST(InitRankScalable, SeveralIdsMakeOneCommunicator) {
  for (int nId = 1; nId <= kRanks; ++nId) {
    std::vector<omnesUniqueId> ids(static_cast<size_t>(nId));
    for (omnesUniqueId& id : ids) ASSERT_EQ(describe(omnesGetUniqueId(&id)), "0");
    runThreads(kRanks, "several ids", kLimit, [&](int rank) {
      omnesComm_t comm = nullptr;
      ASSERT_EQ(describe(omnesCommInitRankScalable(&comm, kRanks, rank, nId, ids.data(), nullptr)),
                "0");
      EXPECT_EQ(countOf(comm), kRanks);
      omnesComm_t half = nullptr;
      ASSERT_EQ(describe(omnesCommSplit(comm, 0, 0, &half, nullptr)), "0");
      EXPECT_EQ(countOf(half), kRanks);
      omnesCommDestroy(half);
      omnesCommDestroy(comm);
    });
  }
}

TEST(InitRankScalable, ErrorsAreNamed) {
  omnesUniqueId ids[2];
  for (omnesUniqueId& id : ids) ASSERT_EQ(describe(omnesGetUniqueId(&id)), "0");
  omnesComm_t comm = nullptr;
  EXPECT_EQ(omnesCommInitRankScalable(nullptr, 2, 0, 1, ids, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommInitRankScalable(&comm, 2, 0, 0, ids, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommInitRankScalable(&comm, 1, 0, 2, ids, nullptr), omnesInvalidArgument);
  EXPECT_EQ(omnesCommInitRankScalable(&comm, 2, 0, 1, nullptr, nullptr), omnesInvalidArgument);
  const omnesUniqueId same[2] = {ids[0], ids[0]};
  EXPECT_EQ(omnesCommInitRankScalable(&comm, 2, 0, 2, same, nullptr), omnesInvalidArgument);
  // One rank has another second id.
  omnesUniqueId third;
  ASSERT_EQ(describe(omnesGetUniqueId(&third)), "0");
  runThreads(2, "different ids", kLimit, [&](int rank) {
    const omnesUniqueId mine[2] = {ids[0], rank == 0 ? ids[1] : third};
    omnesComm_t made = nullptr;
    EXPECT_EQ(omnesCommInitRankScalable(&made, 2, rank, 2, mine, nullptr), omnesInvalidUsage);
    const std::string text = omnesGetLastError(nullptr);
    EXPECT_NE(text.find("unique ids differs"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace omnes::tests
