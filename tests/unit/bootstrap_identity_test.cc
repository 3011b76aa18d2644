// Ids, secrets, addresses and what launchers leave behind.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "bootstrap_ranks.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/rank_list.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/unique_id.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Config;
using base::LauncherVariables;

std::array<uint8_t, kUniqueIdBytes> encoded(const UniqueId& id) {
  std::array<uint8_t, kUniqueIdBytes> bytes{};
  EXPECT_TRUE(id.encode(bytes).isOk());
  return bytes;
}

TEST(UniqueId, ComesBackAsItWas) {
  ASSERT_TRUE(initCrypto().isOk());
  const UniqueId id = UniqueId::make(randomUnixAddress());
  const auto decoded = UniqueId::decode(encoded(id));
  ASSERT_TRUE(decoded.isOk()) << decoded.status().message();
  EXPECT_EQ(decoded.value().secret, id.secret);
  EXPECT_EQ(decoded.value().commId, id.commId);
  EXPECT_EQ(decoded.value().address, id.address);
  EXPECT_NE(UniqueId::make("x").secret, id.secret);
}

TEST(UniqueId, EveryFlippedBitIsNoticed) {
  ASSERT_TRUE(initCrypto().isOk());
  const auto good = encoded(UniqueId::make(randomUnixAddress()));
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    EXPECT_FALSE(UniqueId::decode(bad).isOk()) << "bit " << bit;
  }
}

TEST(UniqueId, SaysWhatIsWrong) {
  ASSERT_TRUE(initCrypto().isOk());
  expectStatus(UniqueId::decode(std::array<uint8_t, kUniqueIdBytes>{}).status(),
               Code::kInvalidArgument, {"omnesGetUniqueId"});
  auto newer = encoded(UniqueId::make("unix:@x"));
  putLe<uint32_t>(&newer[8], 7);
  expectStatus(UniqueId::decode(newer).status(), Code::kInvalidUsage,
               {"wire version 7", "wire version 1"});
  std::array<uint8_t, kUniqueIdBytes> out{};
  expectStatus(UniqueId::make(std::string(88, 'x')).encode(out), Code::kInvalidArgument, {"87"});
}

TEST(MeetingPoint, TakesAddressesOfAllForms) {
  for (const char* good : {"127.0.0.1:5000", "[::1]:5000", "localhost:1", "unix:@name"}) {
    const auto point = MeetingPoint::fromCommId(good, {});
    EXPECT_TRUE(point.isOk()) << good << ": " << point.status().message();
  }
  for (const char* bad : {"", "host", "host:", ":5000", "::1:5000", "[::1:5000", "host:65536",
                          "host:-1", "host:5x"}) {
    const auto point = MeetingPoint::fromCommId(bad, {});
    EXPECT_EQ(point.status().code(), Code::kInvalidUsage) << bad;
  }
  for (const char* zero : {"127.0.0.1:0", "[::1]:000"}) {
    expectStatus(MeetingPoint::fromCommId(zero, {}).status(), Code::kInvalidUsage,
                 {"OMNES_COMM_ID", zero, "port 0"});
  }
  EXPECT_TRUE(MeetingPoint::fromJob(std::string(500, 'j'), {}).isOk());
  EXPECT_NE(MeetingPoint::fromJob("1", {}).value().address,
            MeetingPoint::fromJob("2", {}).value().address);
}

TEST(SocketAddress, NoticesAConnectionToItself) {
  const base::UniqueFd own(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(own.get(), name, length), 0);
  ASSERT_EQ(::getsockname(own.get(), name, &length), 0);
  EXPECT_FALSE(isConnectedToItself(own.get())) << "not connected at all";
  ASSERT_EQ(::connect(own.get(), name, length), 0);
  EXPECT_TRUE(isConnectedToItself(own.get()));

  for (const std::string& where : {std::string("tcp:127.0.0.1:0"), randomUnixAddress()}) {
    auto listening = listenOn(where);
    ASSERT_TRUE(listening.isOk()) << listening.status().message();
    auto attempt = connectOnce(listening.value().address, {inMs(kPatientMs), &realClock()});
    ASSERT_TRUE(attempt.isOk()) << attempt.status().message();
    ASSERT_EQ(attempt.value().error, 0) << where;
    EXPECT_FALSE(isConnectedToItself(attempt.value().fd.get())) << where;
  }
}

TEST(MeetingPoint, ASecretThatIsRequiredMustBeReal) {
  EXPECT_TRUE(MeetingPoint::fromCommId("host:1", {}).value().isSecretDerived);
  expectStatus(MeetingPoint::fromCommId("host:1", {.isRequired = true}).status(),
               Code::kInvalidUsage, {"OMNES_REQUIRE_SECRET", "OMNES_SECRET_FILE"});
  expectStatus(MeetingPoint::fromJob("job", {.isRequired = true}).status(), Code::kInvalidUsage,
               {"OMNES_REQUIRE_SECRET"});
}

class SecretFile : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(initCrypto().isOk());
    char name[] = "/tmp/omnes-secret-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/secret";
  }
  void TearDown() override {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  void write(const std::string& content, mode_t mode) {
    ::unlink(path_.c_str());
    const base::UniqueFd fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    ASSERT_TRUE(fd.isOpen());
    ASSERT_EQ(::fchmod(fd.get(), mode), 0);
    ASSERT_EQ(::write(fd.get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
  }
  std::string folder_, path_;
};

TEST_F(SecretFile, MustBePrivateAndLong) {
  const std::string canary = "canary-secret-0123456789";
  write(canary, 0600);
  const auto point = MeetingPoint::fromCommId("host:1", {.file = path_, .isRequired = true});
  ASSERT_TRUE(point.isOk()) << point.status().message();
  EXPECT_FALSE(point.value().isSecretDerived);
  for (const mode_t mode : {0640, 0604, 0660}) {
    write(canary, mode);
    expectStatus(Secret::fromFile(path_).status(), Code::kInvalidUsage, {"chmod 600"});
  }
  write("too short", 0600);
  expectStatus(Secret::fromFile(path_).status(), Code::kInvalidUsage, {"9 bytes", "16"});
  write(std::string(4097, 'x'), 0600);
  expectStatus(Secret::fromFile(path_).status(), Code::kInvalidUsage, {"4097 bytes"});
  ::unlink(path_.c_str());
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);  // must not block
  expectStatus(Secret::fromFile(path_).status(), Code::kInvalidUsage, {"not a regular file"});
  ::unlink(path_.c_str());
  expectStatus(Secret::fromFile(path_).status(), Code::kInvalidUsage, {"cannot be opened"});
}

TEST_F(SecretFile, LetsRanksMeetAndKeepsOthersOut) {
  write("one secret of sixteen bytes", 0600);
  const std::string address = randomUnixAddress();
  const auto point = MeetingPoint::fromCommId(address, {.file = path_});
  write("another secret of sixteen bytes", 0600);
  const auto other = MeetingPoint::fromCommId(address, {.file = path_});
  ASSERT_TRUE(point.isOk() && other.isOk());
  std::thread stranger([&] {
    const auto refused = join(other.value(), {.rank = 1, .nranks = 2});
    expectStatus(refused.status(), Code::kInvalidUsage,
                 {"the secrets differ", "OMNES_SECRET_FILE"});
  });
  // Rank 0 listens until the real rank 1 comes, which is after the stranger.
  std::thread rankZero([&] { EXPECT_TRUE(join(point.value(), {.rank = 0, .nranks = 2}).isOk()); });
  stranger.join();
  EXPECT_TRUE(join(point.value(), {.rank = 1, .nranks = 2}).isOk());
  rankZero.join();
}

// Every way in which six bytes in a row of a secret could be printed.
bool showsSecret(const std::string& text, std::span<const uint8_t> secret) {
  constexpr size_t kPiece = 6;
  for (size_t at = 0; at + kPiece <= secret.size(); ++at) {
    const std::string raw(reinterpret_cast<const char*>(&secret[at]), kPiece);
    std::string lower, upper;
    for (const char byte : raw) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
      lower += digits;
      std::snprintf(digits, sizeof digits, "%02X", static_cast<unsigned char>(byte));
      upper += digits;
    }
    for (const std::string& piece : {raw, lower, upper})
      if (text.find(piece) != std::string::npos) return true;
  }
  return false;
}

// What the log says at its most talkative level.
class WholeLog {
 public:
  WholeLog() {
    base::LogSettings loud;
    loud.level = base::DebugLevel::kTrace;
    EXPECT_TRUE(base::configureLog(loud).isOk());
    base::setLogSink(
        [](void* cookie, base::LogLevel, const char* line, size_t bytes) {
          static_cast<std::string*>(cookie)->append(line, bytes).append("\n");
        },
        &text_);
  }
  ~WholeLog() {
    base::setLogSink(nullptr, nullptr);
    EXPECT_TRUE(base::configureLog({}).isOk());
  }
  // Only between runs of ranks.
  std::string& text() { return text_; }

 private:
  std::string text_;
};

TEST_F(SecretFile, CanaryIsInNoLineOfTheLogAndInNoError) {
  const std::string canary = "kanarie-7f3c9e51-Xq0vZt";
  write(canary, 0600);
  WholeLog log;
  std::vector<std::string> errors;
  std::vector<std::vector<uint8_t>> secrets{{canary.begin(), canary.end()}};
  const auto note = [&](const base::Status& status) { errors.emplace_back(status.message()); };
  const auto meetAndFail = [&](const MeetingPoint& point) {
    secrets.emplace_back(point.secret.bytes().begin(), point.secret.bytes().end());
    for (const JoinResult& result : joinAll(point, ranks(2))) note(result.status());
    auto late = ranks(2);
    late[0].timeoutMs = late[1].timeoutMs = 100;
    late[1].rank = 0;  // spent, or two of one rank
    for (const JoinResult& result : joinAll(point, late)) note(result.status());
    MeetingPoint wrong = point;
    wrong.secret = Secret::derive("test", bytesOf("wrong"));
    note(join(wrong, {.rank = 1, .nranks = 2, .timeoutMs = 100}).status());
  };
  for (const char* address : {"", "tcp:127.0.0.1:0"}) {
    const auto hosted = makeHostedId({.isLocal = *address == 0, .address = address});
    ASSERT_TRUE(hosted.isOk()) << hosted.status().message();
    const auto id = UniqueId::decode(hosted.value().id);
    secrets.emplace_back(id.value().secret.begin(), id.value().secret.end());
    meetAndFail(MeetingPoint::fromUniqueId(hosted.value().id).value());
    auto damaged = hosted.value().id;
    damaged[100] ^= 1;
    note(MeetingPoint::fromUniqueId(damaged).status());
    damaged[8] ^= 1;
    note(MeetingPoint::fromUniqueId(damaged).status());
    hosted.value().host->stop();
  }
  meetAndFail(MeetingPoint::fromCommId(randomUnixAddress(), {.file = path_}).value());
  write(canary, 0644);
  note(Secret::fromFile(path_).status());
  ASSERT_TRUE(allHostsEnd());

  OMNES_LOG_WARN(Bootstrap, "%s", "the log is heard");
  EXPECT_NE(log.text().find("the log is heard"), std::string::npos);
  EXPECT_TRUE(showsSecret("x" + canary, secrets[0])) << "the search finds nothing";
  for (const auto& secret : secrets) {
    EXPECT_FALSE(showsSecret(log.text(), secret)) << log.text();
    for (const std::string& error : errors) EXPECT_FALSE(showsSecret(error, secret)) << error;
  }
  EXPECT_GE(std::count_if(errors.begin(), errors.end(), [](auto& text) { return !text.empty(); }),
            10);
}

LauncherVariables launched(const char* launcher, std::optional<int> rank, std::optional<int> size,
                           std::optional<int> localSize = {}, const char* jobId = "") {
  LauncherVariables variables;
  variables.launcher = launcher;
  variables.rank = rank;
  variables.size = size;
  variables.localSize = localSize;
  variables.jobId = jobId;
  return variables;
}

Config config(std::initializer_list<const char*> variables) {
  std::vector<const char*> list(variables);
  list.push_back(nullptr);
  auto parsed = Config::fromVariables(list.data());
  EXPECT_TRUE(parsed.isOk()) << parsed.status().message();
  return std::move(parsed).value();
}

TEST(LaunchEnv, OwnVariablesWin) {
  const LauncherVariables launcher = launched("Open MPI", 3, 8);
  const auto own = readLaunchInfo(config({"OMNES_RANK=1", "OMNES_NRANKS=4"}), launcher);
  ASSERT_TRUE(own.isOk()) << own.status().message();
  EXPECT_EQ(own.value().rank, 1u);
  EXPECT_EQ(own.value().nranks, 4u);
  const auto launched = readLaunchInfo(config({}), launcher);
  ASSERT_TRUE(launched.isOk());
  EXPECT_EQ(launched.value().rank, 3u);
  EXPECT_EQ(launched.value().nranks, 8u);
}

TEST(LaunchEnv, NamesWhatWasSeenAndWhatToSet) {
  const LauncherVariables none;
  expectStatus(readLaunchInfo(config({}), none).status(), Code::kInvalidUsage,
               {"OMNES_RANK", "OMNES_NRANKS"});
  expectStatus(readLaunchInfo(config({"OMNES_RANK=1"}), none).status(), Code::kInvalidUsage,
               {"OMNES_RANK=1 is set", "OMNES_NRANKS is not"});
  expectStatus(readLaunchInfo(config({"OMNES_NRANKS=2"}), none).status(), Code::kInvalidUsage,
               {"OMNES_NRANKS=2 is set", "OMNES_RANK is not"});
  expectStatus(readLaunchInfo(config({"OMNES_RANK=5", "OMNES_NRANKS=4"}), none).status(),
               Code::kInvalidUsage, {"OMNES_RANK=5 is outside of OMNES_NRANKS=4"});
  expectStatus(readLaunchInfo(config({}), launched("Slurm", 1, {})).status(), Code::kInvalidUsage,
               {"Slurm", "no size"});
  expectStatus(readLaunchInfo(config({}), launched("PMI", 9, 4)).status(), Code::kInvalidUsage,
               {"rank 9", "PMI", "4 ranks"});
}

TEST(LaunchEnv, FindsTheMeetingPoint) {
  const LauncherVariables oneHost = launched("PMI", 1, 4, 4, "job7");
  const LaunchInfo info{1, 4, ""};
  const auto byJob = readMeetingPoint(config({}), oneHost, info);
  ASSERT_TRUE(byJob.isOk()) << byJob.status().message();
  EXPECT_TRUE(byJob.value().address.starts_with("unix:@omnes-job-"));
  const auto byId = readMeetingPoint(config({"OMNES_COMM_ID=127.0.0.1:5000"}), oneHost, info);
  ASSERT_TRUE(byId.isOk());
  EXPECT_EQ(byId.value().address, "tcp:127.0.0.1:5000");
  const LauncherVariables twoHosts = launched("PMI", 1, 4, 2, "job7");
  expectStatus(readMeetingPoint(config({}), twoHosts, info).status(), Code::kInvalidUsage,
               {"4 ranks", "2 of them on this host", "OMNES_COMM_ID"});
  expectStatus(readMeetingPoint(config({"OMNES_RANK=1", "OMNES_NRANKS=4"}), {}, info).status(),
               Code::kInvalidUsage, {"OMNES_COMM_ID=host:port"});
  EXPECT_TRUE(readMeetingPoint(config({}), {}, {0, 1, ""}).isOk());
}

TEST(RankList, ReadsWell) {
  const auto text = [](std::vector<uint32_t> ranks) { return formatRanks(ranks); };
  EXPECT_EQ(text({3}), "rank 3");
  EXPECT_EQ(text({2, 5, 6, 7}), "ranks 2, 5-7");
  EXPECT_EQ(text({0, 1}), "ranks 0, 1");
  std::vector<uint32_t> even;
  for (uint32_t i = 0; i < 1000; i += 2) even.push_back(i);
  EXPECT_TRUE(text(even).ends_with("38, ..."));
}

}  // namespace
}  // namespace omnes::core::bootstrap
