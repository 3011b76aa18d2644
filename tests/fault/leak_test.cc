// Nothing grows and nothing is left: over many lives of communicators in one process, in processes
// that are killed, and where descriptors run out.
//
// OMNES_TEST_CYCLES, OMNES_TEST_KILLS and OMNES_TEST_INITS set how many; the suite long-fault has
// the full counts.
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "comm/thread_ranks.h"
#include "fault/fault_job.h"
#include "fault/process_state.h"

namespace omnes::tests {
namespace {

using std::chrono::milliseconds;

int countFrom(const char* name, int usual) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : usual;
}

// Before any test.
const Held threadsBefore = usualThreads();

enum class Use { kCalls, kStreams };

// One life of three ranks.
void live(Use use) {
  constexpr int kRanks = 3;
  std::array<omnesComm_t, kRanks> comms{};
  ASSERT_EQ(describe(omnesCommInitAll(comms.data(), kRanks, nullptr)), "0");
  runThreads(kRanks, "one life", std::chrono::seconds(60), [&](int rank) {
    omnesStream_t stream = nullptr;
    if (use == Use::kStreams) {
      EXPECT_EQ(describe(omnesStreamCreate(&stream)), "0");
    }
    std::array<int32_t, 1000> in{}, out{};
    in.fill(rank);
    EXPECT_EQ(describe(omnesAllReduce(in.data(), out.data(), in.size(), omnesInt32, omnesSum,
                                      comms[rank], stream)),
              "0");
    if (stream != nullptr) {
      EXPECT_EQ(describe(omnesStreamSynchronize(stream)), "0");
      EXPECT_EQ(describe(omnesStreamDestroy(stream)), "0");
    }
    EXPECT_EQ(out[999], kRanks * (kRanks - 1) / 2);
    EXPECT_EQ(describe(omnesCommDestroy(comms[rank])), "0");
  });
}

struct State {
  int64_t heap, resident;
  static State now() { return {heapBytes(), residentBytes()}; }
};

class Lives : public ::testing::TestWithParam<Use> {};

TEST_P(Lives, C57LeaveNoDescriptorThreadOrMemory) {
  const int cycles = countFrom("OMNES_TEST_CYCLES", kSanitized ? 30 : 150);
  const std::set<std::string> files = sharedFiles();
  // What the first lives keep for all later ones (tables, thread stacks) comes before the count.
  for (int i = 0; i < cycles / 3; ++i) live(GetParam());
  ASSERT_EQ(leftBeyond(threadsBefore, heldThreads), "");
  const Held descriptors = heldDescriptors();
  const State before = State::now();
  for (int i = 0; i < cycles; ++i) live(GetParam());
  EXPECT_EQ(leftBeyond(threadsBefore, heldThreads), "") << "threads that are left";
  EXPECT_EQ(leftBeyond(descriptors, heldDescriptors), "") << "descriptors that are left";
  EXPECT_EQ(sharedFiles(), files);
  // Sanitizers keep freed memory for a while, and find what is lost themselves.
  if (kSanitized) return;
  const State after = State::now();
  constexpr int64_t kHeapSlope = 64, kResidentSlope = 4096, kResidentNoise = 1 << 20;
  EXPECT_LE(after.heap - before.heap, cycles * kHeapSlope);
  EXPECT_LE(after.resident - before.resident, cycles * kResidentSlope + kResidentNoise);
}

INSTANTIATE_TEST_SUITE_P(Leak, Lives, ::testing::Values(Use::kCalls, Use::kStreams),
                         [](const auto& entry) {
                           return entry.param == Use::kCalls ? "Calls" : "Streams";
                         });

// Few descriptors: a clear error, nothing half built, and all is well when there are more.
TEST(Leak, C57FewDescriptorsAreAClearError) {
  constexpr int kMany = 24;
  live(Use::kCalls);
  ASSERT_EQ(leftBeyond(threadsBefore, heldThreads), "");
  const Held descriptors = heldDescriptors();
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit few{48, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::array<omnesComm_t, kMany> comms{};
  {
    const Watchdog watchdog("init with few descriptors", std::chrono::seconds(60));
    const omnesResult_t result = omnesCommInitAll(comms.data(), kMany, nullptr);
    EXPECT_EQ(result, omnesSystemError) << describe(result);
    EXPECT_NE(describe(result).find("ulimit -n"), std::string::npos) << describe(result);
  }
  for (const omnesComm_t comm : comms) EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(leftBeyond(threadsBefore, heldThreads), "") << "threads that are left";
  EXPECT_EQ(leftBeyond(descriptors, heldDescriptors), "") << "descriptors that are left";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  live(Use::kCalls);
}

// C33: ranks of a communicator start up to 300 ms apart, sixteen communicators at a time.
TEST(Leak, C33InitsWithSkewedStartsDoNotHang) {
  constexpr int kSideBySide = 16;
  const int inits = countFrom("OMNES_TEST_INITS", kSanitized ? 48 : 240);
  const auto seed = static_cast<uint32_t>(countFrom("OMNES_TEST_SEED", 33));
  RecordProperty("seed", static_cast<int>(seed));
  std::printf("seed %u\n", seed);
  std::atomic<int> next{0};
  const auto limit = std::chrono::seconds(60 + inits / 4);
  runThreads(kSideBySide, "skewed inits", limit, [&](int lane) {
    std::mt19937 random(seed * 1000 + static_cast<uint32_t>(lane));
    // Relaxed: only a ticket.
    while (next.fetch_add(1, std::memory_order_relaxed) < inits) {
      const int nranks = 2 + static_cast<int>(random() % 3);
      std::array<int, 4> skew{};
      for (int& one : skew) one = static_cast<int>(random() % 300);
      omnesUniqueId id;
      EXPECT_EQ(describe(omnesGetUniqueId(&id)), "0");
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < nranks; ++rank)
        ranks.emplace_back([&, rank] {
          poll(nullptr, 0, skew[rank]);  // the case itself: ranks that start late
          omnesComm_t comm = nullptr;
          EXPECT_EQ(describe(omnesCommInitRank(&comm, nranks, id, rank)), "0");
          if (comm == nullptr) return;
          int32_t value = 1;
          EXPECT_EQ(
              describe(omnesAllReduce(&value, &value, 1, omnesInt32, omnesSum, comm, nullptr)),
              "0");
          EXPECT_EQ(value, nranks);
          EXPECT_EQ(describe(omnesCommDestroy(comm)), "0");
        });
      for (std::thread& rank : ranks) rank.join();
    }
  });
}

// Processes make and destroy at one address, each in turn with the others.
TEST(Leak, ProcessesMakeAndDestroyAgainAndAgain) {
  const int cycles = countFrom("OMNES_TEST_CYCLES", kSanitized ? 15 : 60);
  for (const Carrier& carrier : {kShm, kTcp}) {
    SCOPED_TRACE(carrier.name);
    ProcessGroup group;
    group.mark();
    startJob(&group, carrier, 3, "cycle", {{"OMNES_TEST_CYCLES", std::to_string(cycles)}});
    const milliseconds limit{60000 + cycles * 200};
    expectAll(group.waitForAll(limit), {0, {}, limit});
  }
}

bool bringLoopbackUp() {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  request.ifr_name[0] = 'l', request.ifr_name[1] = 'o';
  if (ioctl(fd.get(), SIOCGIFFLAGS, &request) != 0) return false;
  request.ifr_flags |= IFF_UP;
  return ioctl(fd.get(), SIOCSIFFLAGS, &request) == 0;
}

// Last in this file: it moves the process to a network namespace of its own, in which all sockets
// are of this test.
TEST(Leak, ZzKilledJobsLeaveNothing) {
  if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "needs root: a network namespace of its own";
  ASSERT_TRUE(bringLoopbackUp());
  const int kills = countFrom("OMNES_TEST_KILLS", kSanitized ? 6 : 30);
  const std::set<std::string> files = sharedFiles();
  std::mt19937 random(static_cast<uint32_t>(countFrom("OMNES_TEST_SEED", 57)));
  for (int i = 0; i < kills; ++i) {
    const Carrier& carrier = i % 3 == 2 ? kTcp : kShm;
    ProcessGroup group;
    startJob(&group, carrier, 3, i % 2 == 0 ? "loop-small" : "loop");
    // In the middle of init as well as of calls.
    group.keepFor(milliseconds(random() % 150));
    for (int rank = 0; rank < 3; ++rank) group.kill(rank, SIGKILL);
    for (const ProcessResult& result : group.waitForAll(kStartLimit))
      ASSERT_TRUE(result.hasEnded) << "a killed process is still there";
  }
  EXPECT_EQ(sharedFiles(), files);
  EXPECT_EQ(omnesSockets(), std::set<std::string>());
  EXPECT_EQ(listeningPorts(), std::set<std::string>());
}

}  // namespace
}  // namespace omnes::tests
