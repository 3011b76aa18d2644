// Ranks as threads that meet, for the tests of src/core/bootstrap in tests/unit and tests/fault.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/event.h"
#include "core/bootstrap/meeting_host.h"
#include "core/bootstrap/meeting_point.h"
#include "core/bootstrap/rendezvous.h"
#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {

inline const base::Clock& realClock() { return base::Clock::monotonic(); }
inline base::Deadline inMs(int64_t ms) { return base::Deadline::afterMs(realClock(), ms); }
// Long enough that no healthy run comes near it, short enough that a hang is a failed test.
inline constexpr int64_t kPatientMs = 30'000;

using JoinResult = base::Result<std::unique_ptr<Rendezvous>>;

struct RankSetup {
  uint32_t rank = 0;
  uint32_t nranks = 1;
  std::string settings = "OMNES_ALGO=ring\nOMNES_SLOT_BYTES=0\n";
  int64_t timeoutMs = kPatientMs;
  int abortFd = -1;
};

inline JoinResult join(const MeetingPoint& point, const RankSetup& setup) {
  return Rendezvous::join(point, setup.rank, setup.nranks, setup.settings, inMs(setup.timeoutMs),
                          realClock(), setup.abortFd);
}

// One thread a setup; the results in their order.
inline std::vector<JoinResult> joinAll(const MeetingPoint& point,
                                       const std::vector<RankSetup>& setups) {
  std::vector<JoinResult> results;
  for (size_t i = 0; i < setups.size(); ++i) results.emplace_back(base::Status());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < setups.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = join(point, setups[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

inline std::vector<RankSetup> ranks(uint32_t nranks) {
  std::vector<RankSetup> setups(nranks);
  for (uint32_t i = 0; i < nranks; ++i) setups[i] = {.rank = i, .nranks = nranks};
  return setups;
}

struct Meetable {
  MeetingPoint point;
  std::shared_ptr<MeetingHost> host;
};
inline Meetable freshId(const std::string& address = {}) {
  auto hosted = makeHostedId({.isLocal = address.empty(), .address = address});
  EXPECT_TRUE(hosted.isOk()) << hosted.status().message();
  auto point = MeetingPoint::fromUniqueId(hosted.value().id);
  EXPECT_TRUE(point.isOk()) << point.status().message();
  return {std::move(point).value(), hosted.value().host};
}
inline MeetingPoint freshAddress() {
  EXPECT_TRUE(initCrypto().isOk());
  auto point = MeetingPoint::fromCommId(randomUnixAddress(), {});
  EXPECT_TRUE(point.isOk()) << point.status().message();
  return std::move(point).value();
}

inline void expectStatus(const base::Status& status, base::Code code,
                         std::initializer_list<const char*> parts) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const char* part : parts) {
    EXPECT_NE(status.message().find(part), std::string_view::npos)
        << "no '" << part << "' in: " << status.message();
  }
}

// Polls, since the end of a detached host has no event; true when it comes within the time.
inline bool eventually(const std::function<bool()>& condition, int64_t ms = kPatientMs) {
  const base::Deadline deadline = inMs(ms);
  while (!condition()) {
    if (deadline.hasPassed(realClock())) return false;
    std::this_thread::yield();
  }
  return true;
}
inline bool allHostsEnd() {
  return eventually([] { return MeetingHost::running() == 0; });
}

inline size_t openDescriptors() {
  size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

}  // namespace omnes::core::bootstrap
