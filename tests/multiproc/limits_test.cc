// Case C54: what is short of memory says so. Shared memory does not come from /dev/shm, and what
// cannot be had is an error with the bytes needed on every rank, never a signal.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/memfd.h"
#include "multiproc/process_group.h"

namespace omnes::tests {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLimit{60000};

// The rank program inside a shell that first does `before`.
std::vector<std::string> shell(const std::string& before) {
  return {"/bin/sh", "-c", before + " exec " + OMNES_RANK_PROGRAM + " few"};
}

int codeOf(const ProcessResult& result) {
  const size_t at = result.output.find("result ");
  return at == std::string::npos ? -1 : std::atoi(result.output.c_str() + at + 7);
}

void expectEnded(const ProcessResult& result) {
  EXPECT_TRUE(result.hasEnded) << result.output;
  EXPECT_EQ(result.signal, 0) << result.output;
  EXPECT_EQ(result.exitCode, 0) << result.output;
}

bool mayMount() {
  return std::system("unshare -m sh -c 'mount -t tmpfs -o size=1m tmpfs /dev/shm' 2>/dev/null") ==
         0;
}

class SmallDevShm : public ::testing::TestWithParam<const char*> {};

TEST_P(SmallDevShm, C54AJobOfFourRanksRuns) {
  if (!mayMount()) GTEST_SKIP() << "needs the right to mount in a namespace of its own (root)";
  ProcessGroup group;
  const std::string inside = std::string("mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 9; ") +
                             GetParam() + " exec \"$0\" few";
  group.startRanks(4,
                   {"/bin/sh", "-c", "exec unshare -m sh -c '" + inside + "' " OMNES_RANK_PROGRAM});
  for (const ProcessResult& result : group.waitForAll(kLimit)) {
    expectEnded(result);
    EXPECT_EQ(codeOf(result), 0) << result.output;
  }
}

INSTANTIATE_TEST_SUITE_P(C54, SmallDevShm,
                         ::testing::Values("",
                                           "dd if=/dev/zero of=/dev/shm/full bs=64k 2>/dev/null;"),
                         [](const auto& entry) { return entry.index == 0 ? "Empty" : "Full"; });

TEST(Limits, C54FileSizeLimitIsAClearError) {
  ProcessGroup group;
  group.startRanks(3,
                   shell("ulimit -f 1024;"));  // blocks of 512 or 1,024 bytes: too little in both
  for (const ProcessResult& result : group.waitForAll(kLimit)) {
    expectEnded(result);
    EXPECT_EQ(codeOf(result), 2) << result.output;
    EXPECT_NE(result.output.find("bytes needed"), std::string::npos) << result.output;
  }
}

TEST(Limits, C54OneLimitedRankEndsAll) {
  ProcessGroup group;
  const std::string address = freshAddress();
  for (const int rank : {0, 1, 2})
    group.start(
        shell(rank == 1 ? "ulimit -f 1024;" : ""),
        {{"OMNES_COMM_ID", address}, {"OMNES_NRANKS", "3"}, {"OMNES_RANK", std::to_string(rank)}});
  const auto& results = group.waitForAll(kLimit);
  for (const int rank : {0, 1, 2}) {
    expectEnded(results[rank]);
    EXPECT_EQ(codeOf(results[rank]), rank == 1 ? 2 : 6) << results[rank].output;
    EXPECT_NE(results[rank].output.find("bytes needed"), std::string::npos) << results[rank].output;
    if (rank != 1) {
      EXPECT_NE(results[rank].output.find("rank 1"), std::string::npos) << results[rank].output;
    }
  }
}

TEST(Limits, C54SlotsBeyondTheMemoryAreAClearError) {
  // One rank's segment alone is more than there is, so that nothing is ever allocated: two lanes,
  // each with two slots of 1 GiB for every other rank and two for all.
  constexpr uint64_t kRanks = 24, kNeeded = (2 * (kRanks - 1) + 2) * 2 * (uint64_t{1} << 30);
  const uint64_t available = base::availableMemoryBytes();
  if (available == 0 || available > kNeeded / 2)
    GTEST_SKIP() << available << " bytes are available: too many to try";
  ProcessGroup group;
  group.startRanks(kRanks, shell(""), {{"OMNES_SLOT_BYTES", "1G"}});
  for (const ProcessResult& result : group.waitForAll(kLimit)) {
    expectEnded(result);
    EXPECT_EQ(codeOf(result), 2) << result.output;
    EXPECT_NE(result.output.find("bytes needed"), std::string::npos) << result.output;
  }
}

// Each rank's segment would fit, all together do not: they must notice while they allocate. Takes
// much of the machine's memory for a moment, hence on demand (suite long-multiproc).
TEST(Limits, C54RanksThatTogetherAskForTooMuch) {
  if (std::getenv("OMNES_TEST_MUCH_MEMORY") == nullptr)
    GTEST_SKIP() << "set OMNES_TEST_MUCH_MEMORY=1 to run it";
  constexpr uint64_t kRanks = 4, kSlots = (2 * (kRanks - 1) + 2) * 2;
  const uint64_t slotMebi = base::availableMemoryBytes() * 7 / 10 / kSlots >> 20;
  if (slotMebi == 0 || slotMebi > 1024)
    GTEST_SKIP() << "slots of " << slotMebi << " MiB cannot be asked for";
  ProcessGroup group;
  group.startRanks(kRanks, shell(""), {{"OMNES_SLOT_BYTES", std::to_string(slotMebi) + "M"}});
  int refused = 0;
  for (const ProcessResult& result : group.waitForAll(kLimit)) {
    expectEnded(result);
    EXPECT_TRUE(codeOf(result) == 2 || codeOf(result) == 6) << result.output;
    EXPECT_NE(result.output.find("bytes needed"), std::string::npos) << result.output;
    refused += codeOf(result) == 2;
  }
  EXPECT_GE(refused, 1);
}

}  // namespace
}  // namespace omnes::tests
