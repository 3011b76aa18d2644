#include "comm/thread_ranks.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <utility>

namespace omnes::tests {

struct Watchdog::State {
  std::mutex mutex;
  std::condition_variable ended;
  bool hasEnded = false;
  std::thread thread;
};

Watchdog::Watchdog(std::string what, std::chrono::seconds limit)
    : state_(std::make_unique<State>()) {
  state_->thread = std::thread([state = state_.get(), what = std::move(what), limit] {
    std::unique_lock<std::mutex> lock(state->mutex);
    // A deadline of the system clock: waiting for a steady one is not seen by older thread
    // sanitizers.
    const auto end = std::chrono::system_clock::now() + limit;
    if (state->ended.wait_until(lock, end, [state] { return state->hasEnded; })) return;
    std::fprintf(stderr, "watchdog: %s has not ended within %lld s\n", what.c_str(),
                 static_cast<long long>(limit.count()));
    std::abort();
  });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->hasEnded = true;
  }
  state_->ended.notify_all();
  state_->thread.join();
}

void runThreads(int n, const std::string& what, std::chrono::seconds limit,
                const std::function<void(int)>& body) {
  const Watchdog watchdog(what, limit);
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

bool isAsleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name = line.rfind(')');
  return name != std::string::npos && line.compare(name, 3, ") S") == 0;
}

std::string describe(omnesResult_t result) {
  std::string text = std::to_string(static_cast<int>(result));
  if (result != omnesSuccess) text.append(" ").append(omnesGetLastError(nullptr));
  return text;
}

std::vector<std::string> hostsOf(const std::vector<int>& ranksPerHost) {
  std::vector<std::string> out;
  for (size_t host = 0; host < ranksPerHost.size(); ++host)
    out.insert(out.end(), static_cast<size_t>(ranksPerHost[host]),
               "test-host-" + std::to_string(host));
  return out;
}

ThreadRanks::ThreadRanks(int nranks, RanksOptions options)
    : options_(std::move(options)), comms_(static_cast<size_t>(nranks), nullptr) {
  const bool isPlain = options_.algo.empty() && options_.transports.empty() &&
                       options_.hostIds.empty() &&
                       options_.deterministic == OMNES_CONFIG_UNDEF_INT &&
                       options_.timeoutMs == OMNES_CONFIG_UNDEF_INT;
  if (isPlain) {
    const Watchdog watchdog("omnesCommInitAll", options_.limit);
    const std::string result = describe(omnesCommInitAll(comms_.data(), nranks, nullptr));
    EXPECT_EQ(result, "0");
    ready_ = result == "0";
    return;
  }
  omnesUniqueId id;
  EXPECT_EQ(describe(omnesGetUniqueId(&id)), "0");
  std::vector<std::string> results(static_cast<size_t>(nranks));
  runThreads(nranks, "omnesCommInitRankConfig", options_.limit, [&](int rank) {
    omnesConfig_t config = OMNES_CONFIG_INITIALIZER;
    if (!options_.algo.empty()) config.algo = options_.algo.c_str();
    if (!options_.transports.empty()) config.transports = options_.transports.c_str();
    if (!options_.hostIds.empty()) config.hostId = options_.hostIds[rank].c_str();
    config.deterministic = options_.deterministic;
    config.timeoutMs = options_.timeoutMs;
    results[rank] = describe(omnesCommInitRankConfig(&comms_[rank], nranks, id, rank, &config));
  });
  ready_ = true;
  for (int rank = 0; rank < nranks; ++rank) {
    EXPECT_EQ(results[rank], "0") << "rank " << rank;
    ready_ = ready_ && results[rank] == "0";
  }
}

ThreadRanks::~ThreadRanks() {
  for (omnesComm_t comm : comms_) EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
}

omnesComm_t ThreadRanks::release(int rank) { return std::exchange(comms_[rank], nullptr); }

void ThreadRanks::run(const Body& body) {
  ASSERT_TRUE(ready_);
  const std::string what = std::to_string(size()) + " ranks" +
                           (options_.algo.empty() ? "" : " with " + options_.algo) + " in " +
                           ::testing::UnitTest::GetInstance()->current_test_info()->name();
  runThreads(size(), what, options_.limit, [&](int rank) { body(rank, comms_[rank]); });
}

}  // namespace omnes::tests
