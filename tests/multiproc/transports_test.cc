// Ranks as processes that are joined by several transports, or by the network alone: right numbers,
// deaths that all ranks hear of, and what cannot be joined.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "multiproc/process_group.h"

namespace omnes::tests {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLimit{60000};
// The promised two seconds times five: ranks share cores here (docs/CONTRIBUTING.md).
constexpr milliseconds kDeathLimit{10000};

using Environment = std::map<std::string, std::string>;

struct Carrier {
  const char* name;
  std::vector<const char*> hosts;  // by rank
  Environment environment = {};
};
void PrintTo(const Carrier& carrier, std::ostream* out) { *out << carrier.name; }

std::vector<Carrier> carriers() {
  return {{"Tcp", {"", "", "", ""}, {{"OMNES_TRANSPORTS", "tcp"}}},
          {"FourSockets", {"", "", ""}, {{"OMNES_TRANSPORTS", "^shm"}, {"OMNES_TCP_SOCKETS", "4"}}},
          {"SmallSlots", {"a", "a", "b", "b"}, {{"OMNES_SLOT_BYTES", "640"}}},
          {"TwoAndTwo", {"a", "a", "b", "b"}},
          {"ThreeAndOne", {"a", "a", "a", "b"}},
          {"OneTwoTwo", {"a", "b", "b", "c", "c"}},
          {"AllApart", {"a", "b", "c"}}};
}

int codeOf(const ProcessResult& result) {
  const size_t at = result.output.find("result ");
  return at == std::string::npos ? -1 : std::atoi(result.output.c_str() + at + 7);
}

void expectEnd(const ProcessResult& result, int code, const std::string& text) {
  EXPECT_TRUE(result.hasEnded) << result.output;
  EXPECT_EQ(result.signal, 0) << result.output;
  EXPECT_EQ(codeOf(result), code) << result.output;
  EXPECT_NE(result.output.find(text), std::string::npos) << text << " is not in: " << result.output;
}

void start(ProcessGroup* group, const Carrier& carrier, const std::string& scenario) {
  const std::string address = freshAddress();
  for (size_t rank = 0; rank < carrier.hosts.size(); ++rank) {
    Environment environment = carrier.environment;
    environment["OMNES_COMM_ID"] = address;
    environment["OMNES_NRANKS"] = std::to_string(carrier.hosts.size());
    environment["OMNES_RANK"] = std::to_string(rank);
    environment["OMNES_HOST_ID"] = carrier.hosts[rank];
    group->start({OMNES_RANK_PROGRAM, scenario}, environment);
  }
}

// That nobody uses just now.
int freePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  close(fd);
  return ntohs(address.sin_port);
}

class Carried : public ::testing::TestWithParam<Carrier> {};

TEST_P(Carried, SumsAreRight) {
  ProcessGroup group;
  start(&group, GetParam(), "few");
  for (const ProcessResult& result : group.waitForAll(kLimit))
    expectEnd(result, 0, "all sums are right");
}

TEST_P(Carried, EveryRankHearsOfADeath) {
  const int nranks = static_cast<int>(GetParam().hosts.size());
  for (const char* scenario : {"loop", "loop-small"})
    for (const int victim : {0, 1, nranks - 1}) {
      SCOPED_TRACE(std::string(scenario) + ", victim " + std::to_string(victim));
      ProcessGroup group;
      start(&group, GetParam(), scenario);
      ASSERT_TRUE(group.waitForText("running", kLimit));
      group.mark();
      group.kill(static_cast<size_t>(victim), SIGKILL);
      const auto& results = group.waitForAll(kDeathLimit + milliseconds(5000));
      for (int rank = 0; rank < nranks; ++rank) {
        if (rank == victim) continue;
        expectEnd(results[rank], 6, "rank " + std::to_string(victim));
        EXPECT_LT(results[rank].endedAfter, kDeathLimit);
      }
    }
}

TEST_P(Carried, RankThatHasLeftIsNamedWhenItIsNeeded) {
  ProcessGroup group;
  start(&group, GetParam(), "leave");
  const auto& results = group.waitForAll(kLimit);
  const size_t last = results.size() - 1;
  for (size_t rank = 0; rank < last; ++rank)
    expectEnd(results[rank], 6, "rank " + std::to_string(last));
  EXPECT_NE(results[0].output.find("has destroyed its communicator"), std::string::npos)
      << results[0].output;
  expectEnd(results[last], 0, "left");
}

INSTANTIATE_TEST_SUITE_P(Transports, Carried, ::testing::ValuesIn(carriers()),
                         [](const auto& entry) { return std::string(entry.param.name); });

TEST(Transports, DifferentSocketsAreRefusedOnAllRanks) {
  ProcessGroup group;
  const std::string address = freshAddress();
  for (const char* rank : {"0", "1", "2"})
    group.start({OMNES_RANK_PROGRAM, "few"}, {{"OMNES_COMM_ID", address},
                                              {"OMNES_NRANKS", "3"},
                                              {"OMNES_RANK", rank},
                                              {"OMNES_TCP_SOCKETS", rank[0] == '1' ? "2" : "3"}});
  for (const ProcessResult& result : group.waitForAll(kLimit))
    expectEnd(result, 5, "OMNES_TCP_SOCKETS differs");
}

TEST(Transports, OneHostHasNoTcpPort) {
  ProcessGroup group;
  group.startRanks(3, {OMNES_RANK_PROGRAM, "few"}, {{"OMNES_DEBUG", "INFO"}});
  for (const ProcessResult& result : group.waitForAll(kLimit)) {
    expectEnd(result, 0, "by shm");
    EXPECT_EQ(result.output.find("by tcp"), std::string::npos) << result.output;
    EXPECT_EQ(result.output.find("tcp:"), std::string::npos) << result.output;
  }
}

// A rank as another user who calls himself by the first one's number: they seem to share a host,
// and the kernel does not let them share memory.
TEST(Transports, MemoryThatCannotBeHandedOverIsAnErrorWithTheRemedy) {
  const std::string stranger = "setpriv --reuid 12345 --regid 12345 --clear-groups unshare -r ";
  if (geteuid() != 0 || std::system((stranger + "true 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "needs root, setpriv and user namespaces";
  ProcessGroup group;
  // Over TCP the two can meet.
  const std::string address = "127.0.0.1:" + std::to_string(freePort());
  for (const bool isStranger : {false, true})
    group.start({"/bin/sh", "-c",
                 std::string("exec ") + (isStranger ? stranger : "") + OMNES_RANK_PROGRAM " few"},
                {{"OMNES_COMM_ID", address},
                 {"OMNES_NRANKS", "2"},
                 {"OMNES_RANK", isStranger ? "1" : "0"},
                 {"OMNES_INIT_TIMEOUT_MS", "20000"}});
  for (const ProcessResult& result : group.waitForAll(kLimit)) {
    EXPECT_TRUE(result.hasEnded) << result.output;
    EXPECT_NE(codeOf(result), 0) << result.output;
    EXPECT_NE(result.output.find("OMNES_TRANSPORTS=tcp"), std::string::npos) << result.output;
  }
}

}  // namespace
}  // namespace omnes::tests
