// How processes meet, and what they are told when they cannot: cases of reports from the field.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "multiproc/process_group.h"

namespace omnes::tests {
namespace {

constexpr std::chrono::milliseconds kLimit{60'000};
// Ranks share the cores of the machine that runs this.
constexpr int kSlack = 5;

using Environment = std::map<std::string, std::string>;

class MeetingCases : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/omnes-id-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    ::unlink((folder_ + "/id").c_str());
    ::unlink((folder_ + "/id.half").c_str());
    ::rmdir(folder_.c_str());
  }
  std::vector<std::string> idRank(int rank, int nranks, const char* scenario) const {
    return {OMNES_ID_PROGRAM, std::to_string(rank), std::to_string(nranks), folder_ + "/id",
            scenario};
  }
  // Ranks that meet at one address; `rank` and `nranks` as each of them believes.
  struct Claim {
    int rank;
    int nranks;
  };
  std::vector<ProcessResult> meet(const std::vector<Claim>& claims,
                                  const Environment& extra = {}) const {
    ProcessGroup group;
    const std::string address = freshAddress();
    for (const Claim& claim : claims) {
      Environment environment = extra;
      environment.emplace("OMNES_COMM_ID", address);
      environment.emplace("OMNES_RANK", std::to_string(claim.rank));
      environment.emplace("OMNES_NRANKS", std::to_string(claim.nranks));
      group.start({OMNES_RANK_PROGRAM, "few"}, environment);
    }
    return group.waitForAll(kLimit);
  }
  std::string folder_;
};

void expectOutput(const ProcessResult& result, std::initializer_list<const char*> parts) {
  EXPECT_TRUE(result.hasEnded);
  EXPECT_EQ(result.exitCode, 0) << result.output;
  for (const char* part : parts)
    EXPECT_NE(result.output.find(part), std::string::npos) << part << " in " << result.output;
}

// The milliseconds of a line "result CODE MS TEXT".
int millisecondsOf(const std::string& output, const std::string& result) {
  const size_t at = output.find(result);
  if (at == std::string::npos) return -1;
  return std::atoi(output.c_str() + at + result.size());
}

TEST_F(MeetingCases, C41ASpentIdIsRefusedWithinTwoSeconds) {
  for (const char* scenario : {"again", "twice"}) {
    SCOPED_TRACE(scenario);
    ProcessGroup group;
    for (int rank = 0; rank < 3; ++rank) group.start(idRank(rank, 3, scenario), {});
    for (const ProcessResult& result : group.waitForAll(kLimit)) {
      expectOutput(result, {"result 5 ", "spent"});
      EXPECT_LT(millisecondsOf(result.output, "result 5 "), 2000 * kSlack) << result.output;
      if (scenario == std::string("twice")) expectOutput(result, {"result 0 "});
    }
    ::unlink((folder_ + "/id").c_str());
  }
}

TEST_F(MeetingCases, C42TwoProcessesThatClaimOneRankAreRefusedAtOnce) {
  for (const ProcessResult& result : meet({{0, 3}, {1, 3}, {1, 3}})) {
    expectOutput(result, {"result 5 ", "two processes claim rank 1 of 3"});
    EXPECT_LT(result.endedAfter, kSlack * std::chrono::seconds(1));
  }
}

TEST_F(MeetingCases, C42MissingRanksAreListedAtTheDeadline) {
  for (const ProcessResult& result : meet({{0, 3}, {1, 3}}, {{"OMNES_INIT_TIMEOUT_MS", "1000"}})) {
    expectOutput(result, {"result 8 ", "rank 2 of 3 has not joined"});
    EXPECT_LT(result.endedAfter, std::chrono::seconds(1) + kSlack * std::chrono::seconds(1));
  }
}

TEST_F(MeetingCases, C42DifferentNumbersOfRanksAreRefusedAtOnce) {
  for (const ProcessResult& result : meet({{0, 3}, {1, 4}, {2, 3}})) {
    expectOutput(result, {"result 5 ", "disagree on their number", "3", "4"});
    EXPECT_LT(result.endedAfter, kSlack * std::chrono::seconds(1));
  }
}

TEST_F(MeetingCases, C43AnInterfaceThatDoesNotExistIsNamedAtTheStart) {
  ProcessGroup group;
  group.start(idRank(0, 2, "once"), {{"OMNES_IFNAME", "nope0"}});
  const ProcessResult result = group.waitForAll(kLimit)[0];
  expectOutput(result, {"result 5 ", "OMNES_IFNAME", "nope0", "lo ("});
  EXPECT_LT(result.endedAfter, kSlack * std::chrono::seconds(1));
}

// Also where the ranks would have needed no network.
TEST_F(MeetingCases, C43AnInterfaceThatDoesNotExistIsNamedByTheEnvironmentsRanks) {
  ProcessGroup group;
  group.startRanks(2, {OMNES_RANK_PROGRAM, "few"}, {{"OMNES_IFNAME", "nope0"}});
  for (const ProcessResult& result : group.waitForAll(kLimit)) {
    expectOutput(result, {"result 5 ", "OMNES_IFNAME", "nope0", "lo ("});
    EXPECT_LT(result.endedAfter, kSlack * std::chrono::seconds(1));
  }
}

TEST_F(MeetingCases, C43TheInterfaceThatIsNamedIsUsed) {
  ProcessGroup group;
  for (int rank = 0; rank < 2; ++rank)
    group.start(idRank(rank, 2, "once"), {{"OMNES_IFNAME", "nope0,lo"}});
  const auto& results = group.waitForAll(kLimit);
  expectOutput(results[0], {"address 127.0.0.1", "result 0 "});
  expectOutput(results[1], {"result 0 "});
}

// Of a machine without a network: with the loopback, ids lead over it; without, they are local.
TEST_F(MeetingCases, C45LoopbackOnlyOrNothing) {
  const auto shell = [](const std::string& script) {
    return std::vector<std::string>{"/bin/sh", "-c", "exec unshare -n /bin/sh -c \"$0\"", script};
  };
  {
    ProcessGroup probe;
    probe.start(shell("ip link set lo up"), {});
    if (probe.waitForAll(kLimit)[0].exitCode != 0)
      GTEST_SKIP() << "no network namespaces here: they need root, unshare and ip";
  }
  for (const bool hasLoopback : {false, true}) {
    SCOPED_TRACE(hasLoopback);
    std::string script = hasLoopback ? "ip link set lo up; " : "";
    for (int rank = 0; rank < 2; ++rank) {
      for (const std::string& word : idRank(rank, 2, "once")) script += word + " ";
      script += rank == 0 ? "& first=$!; " : "&& wait $first";
    }
    ProcessGroup group;
    group.start(shell(script), {});
    const ProcessResult result = group.waitForAll(kLimit)[0];
    expectOutput(result, {hasLoopback ? "address 127.0.0.1\n" : "address unix\n", "result 0 "});
    EXPECT_NE(result.output.find("result 0 "), result.output.rfind("result 0 ")) << result.output;
    ::unlink((folder_ + "/id").c_str());
  }
}

// A port of the loopback that somebody has, listening or not.
class TakenPort {
 public:
  explicit TakenPort(bool listens) {
    fd_ = base::UniqueFd::open([] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); });
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* name = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(fd_.get(), name, length), 0);
    EXPECT_TRUE(!listens || ::listen(fd_.get(), 1) == 0);
    EXPECT_EQ(::getsockname(fd_.get(), name, &length), 0);
    port_ = std::to_string(ntohs(address.sin_port));
  }
  const std::string& text() const { return port_; }

 private:
  base::UniqueFd fd_;
  std::string port_;
};

TEST_F(MeetingCases, C49APortThatIsTakenIsSaidWithinASecond) {
  for (const bool listens : {false, true}) {
    const TakenPort port(listens);
    const std::string address = "127.0.0.1:" + port.text();
    ProcessGroup group;
    group.start({OMNES_RANK_PROGRAM, "few"},
                {{"OMNES_COMM_ID", address}, {"OMNES_RANK", "0"}, {"OMNES_NRANKS", "2"}});
    group.start(idRank(0, 2, "once"), {{"OMNES_IFNAME", "lo"}, {"OMNES_PORT_RANGE", port.text()}});
    const auto& results = group.waitForAll(kLimit);
    expectOutput(results[0], {"result 2 ", "address in use", address.c_str()});
    expectOutput(results[1], {"result 2 ", "address in use", "OMNES_PORT_RANGE"});
    for (const ProcessResult& result : results)
      EXPECT_LT(result.endedAfter, kSlack * std::chrono::seconds(1));
  }
}

// A rank 0 that may not open what its meeting takes says so at once. If it can be reached at all,
// it tells those who come while its process lives; the others find nobody, as if it had never come.
TEST_F(MeetingCases, C57AHostWithoutDescriptorsEndsTheMeeting) {
  constexpr int kRanks = 8;
  for (const int limit : {8, 10, 12, 14, 16, 18}) {
    SCOPED_TRACE(limit);
    ProcessGroup group;
    const std::string address = freshAddress();
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string few = "exec \"$0\" few";
      // A search for leaks would need descriptors of its own.
      const std::string tight = "export ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\"; ulimit -n " +
                                std::to_string(limit) + "; " + few;
      group.start({"/bin/sh", "-c", rank == 0 ? tight : few, OMNES_RANK_PROGRAM},
                  {{"OMNES_COMM_ID", address},
                   {"OMNES_RANK", std::to_string(rank)},
                   {"OMNES_NRANKS", std::to_string(kRanks)},
                   {"OMNES_INIT_TIMEOUT_MS", "3000"}});
    }
    const auto& results = group.waitForAll(kLimit);
    expectOutput(results[0], {"result 2 ", "ulimit -n"});
    EXPECT_LT(results[0].endedAfter, kSlack * std::chrono::seconds(1)) << results[0].output;
    int told = 0;
    for (const ProcessResult& result : results) {
      expectOutput(result, {"result "});
      EXPECT_EQ(result.output.find("result 0 "), std::string::npos) << result.output;
      EXPECT_LT(result.endedAfter, std::chrono::seconds(3) + kSlack * std::chrono::seconds(1));
      told += result.output.find("cannot accept all ranks") != std::string::npos ? 1 : 0;
    }
    // With these, rank 0 and others are members before it runs out.
    EXPECT_TRUE(limit < 16 || told >= 2) << told;
  }
}

TEST_F(MeetingCases, ARangeOfPortsThatIsNoneIsRefused) {
  ProcessGroup group;
  group.start(idRank(0, 2, "once"), {{"OMNES_PORT_RANGE", "5100-5000"}});
  expectOutput(group.waitForAll(kLimit)[0], {"result 4 ", "OMNES_PORT_RANGE", "5100-5000"});
}

}  // namespace
}  // namespace omnes::tests
