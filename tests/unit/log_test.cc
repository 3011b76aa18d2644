#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "base/text.h"
#include "base/thread.h"

namespace omnes::base {
namespace {

constexpr auto bit(LogSubsystem subsystem) { return static_cast<uint32_t>(subsystem); }

// Collects lines while it lives, and silences the log at its end.
class Capture {
 public:
  explicit Capture(DebugLevel level, uint32_t subsystems = kAllLogSubsystems) {
    EXPECT_TRUE(configureLog({level, subsystems, ""}).isOk());
    setLogSink(&Capture::take, this);
  }
  ~Capture() {
    setLogSink(nullptr, nullptr);
    EXPECT_TRUE(configureLog({}).isOk());
  }
  std::vector<std::string> lines;

 private:
  static void take(void* cookie, LogLevel, const char* line, size_t bytes) {
    EXPECT_EQ(line[bytes], '\0');
    static_cast<Capture*>(cookie)->lines.emplace_back(line, bytes);
    OMNES_LOG_ERROR(Init, "a sink that logs must not recurse");
  }
};

class LogFile : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/omnes_log_test_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    EXPECT_TRUE(configureLog({}).isOk());
    for (const auto& name :
         {path("log." + hostname() + "." + std::to_string(getpid())), path("lines")}) {
      unlink(name.c_str());
    }
    rmdir(directory_.c_str());
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  static std::vector<std::string> read(const std::string& name) {
    std::ifstream file(name);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::string directory_;
};

TEST(Log, IsSilentAndDoesNotEvaluateUnlessAsked) {
  Capture capture(DebugLevel::kWarn);
  int evaluated = 0;
  OMNES_LOG_INFO(Init, "%d", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  EXPECT_TRUE(capture.lines.empty());
  OMNES_LOG_WARN(Init, "%d", ++evaluated);
  EXPECT_EQ(evaluated, 1);
  EXPECT_EQ(capture.lines.size(), 1u);
}

TEST(Log, LineSaysHostProcessLevelAndSubsystem) {
  Capture capture(DebugLevel::kTrace);
  OMNES_LOG_DEBUG(Bootstrap, "rank %d of %s", 3, "four");
  ASSERT_EQ(capture.lines.size(), 1u);
  EXPECT_EQ(capture.lines[0], hostname().substr(0, 64) + ":" + std::to_string(getpid()) +
                                  " debug bootstrap rank 3 of four");
}

TEST(Log, SubsystemsFilterInfoButNeverWarnings) {
  Capture capture(DebugLevel::kInfo, bit(LogSubsystem::kColl));
  OMNES_LOG_INFO(Init, "no");
  OMNES_LOG_INFO(Coll, "yes");
  OMNES_LOG_DEBUG(Coll, "no");
  OMNES_LOG_WARN(Init, "yes");
  EXPECT_EQ(capture.lines.size(), 2u);
}

TEST(Log, VersionLevelShowsTheVersionAndErrorsOnly) {
  Capture capture(DebugLevel::kVersion);
  logVersion("1.2.3");
  OMNES_LOG_WARN(Init, "no");
  OMNES_LOG_ERROR(Init, "yes");
  ASSERT_EQ(capture.lines.size(), 2u);
  EXPECT_NE(capture.lines[0].find(" version init omnes 1.2.3"), std::string::npos);
}

TEST(Log, SilentByDefaultEvenAboutItsVersion) {
  Capture capture(DebugLevel::kNone);
  logVersion("1.2.3");
  OMNES_LOG_ERROR(Init, "no");
  EXPECT_TRUE(capture.lines.empty());
}

TEST(Log, ControlCharactersCannotForgeLines) {
  Capture capture(DebugLevel::kWarn);
  OMNES_LOG_WARN(Init, "%s", "a\nb\x1b[31m\r\x7f");
  ASSERT_EQ(capture.lines.size(), 1u);
  EXPECT_NE(capture.lines[0].find("a b [31m"), std::string::npos);
}

TEST(Log, LongLinesAreCutVisibly) {
  Capture capture(DebugLevel::kWarn);
  OMNES_LOG_WARN(Init, "%s", std::string(10000, 'x').c_str());
  ASSERT_EQ(capture.lines.size(), 1u);
  EXPECT_EQ(capture.lines[0].size(), 4095u);
  EXPECT_EQ(capture.lines[0].substr(4090), "xx...");
}

TEST(Log, KeepsErrno) {
  Capture capture(DebugLevel::kWarn);
  errno = ENOTTY;
  OMNES_LOG_WARN(Init, "text");
  EXPECT_EQ(errno, ENOTTY);
}

TEST(Log, Subsystems) {
  const uint32_t all = kAllLogSubsystems;
  const uint32_t tcp = bit(LogSubsystem::kTcp), shm = bit(LogSubsystem::kShm),
                 init = bit(LogSubsystem::kInit);
  EXPECT_EQ(parseLogSubsystems("").value(), all);
  EXPECT_EQ(parseLogSubsystems("all").value(), all);
  EXPECT_EQ(parseLogSubsystems("INIT, tcp").value(), init | tcp);
  EXPECT_EQ(parseLogSubsystems("^tcp,shm").value(), all & ~(tcp | shm));
  EXPECT_EQ(parseLogSubsystems("^tcp,^shm").value(), all & ~(tcp | shm));
  EXPECT_EQ(parseLogSubsystems("all,^tcp").value(), all & ~tcp);
  EXPECT_FALSE(parseLogSubsystems("init,nonsense").isOk());
  EXPECT_FALSE(parseLogSubsystems("^").isOk());
  EXPECT_EQ(logSubsystemNames().size(), 13u);
}

TEST(Log, FileNames) {
  EXPECT_EQ(expandLogFileName("a%%b.%h.%p", "node1", 42).value(), "a%b.node1.42");
  EXPECT_FALSE(expandLogFileName("a%", "h", 1).isOk());
  EXPECT_FALSE(expandLogFileName("a%s", "h", 1).isOk());
}

TEST_F(LogFile, IsOpenedByPatternAndAppended) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(configureLog({DebugLevel::kInfo, kAllLogSubsystems, path("log.%h.%p")}).isOk());
    OMNES_LOG_INFO(Init, "round %d", round);
  }
  const auto lines = read(path("log." + hostname() + "." + std::to_string(getpid())));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1].ends_with(" info init round 1"));
}

TEST_F(LogFile, ThatCannotBeOpenedIsNamed) {
  const Status status = configureLog({DebugLevel::kInfo, kAllLogSubsystems, path("no/such/file")});
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_NE(status.message().find("no/such/file"), std::string::npos);
}

TEST_F(LogFile, LinesOfManyThreadsStayWhole) {
  constexpr int kThreads = 4, kLines = 200;
  ASSERT_TRUE(configureLog({DebugLevel::kInfo, kAllLogSubsystems, path("lines")}).isOk());
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      auto thread = Thread::start("log", [t] {
        for (int i = 0; i < kLines; ++i) OMNES_LOG_INFO(Coll, "thread %d line %d end", t, i);
      });
      ASSERT_TRUE(thread.isOk());
      threads.push_back(std::move(thread).value());
    }
  }
  const auto lines = read(path("lines"));
  EXPECT_EQ(lines.size(), static_cast<size_t>(kThreads * kLines));
  std::set<std::pair<int, int>> seen;
  for (const auto& line : lines) {
    const size_t at = line.find(" info coll ");
    int thread = -1, number = -1, end = 0;
    ASSERT_NE(at, std::string::npos) << line;
    sscanf(line.c_str() + at, " info coll thread %d line %d end%n", &thread, &number, &end);
    EXPECT_EQ(at + static_cast<size_t>(end), line.size()) << line;
    EXPECT_TRUE(seen.insert({thread, number}).second) << line;
  }
}

TEST_F(LogFile, ForkedChildStaysSilent) {
  ASSERT_TRUE(configureLog({DebugLevel::kInfo, kAllLogSubsystems, path("lines")}).isOk());
  const pid_t child = fork();
  if (child == 0) {
    OMNES_LOG_ERROR(Init, "from the child");
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(read(path("lines")).empty());
}

// The line under way in another thread holds the parent's log, and a forked child that wants a log
// of its own has that thread's lock, but not the thread.
TEST_F(LogFile, ForkedChildConfiguresALogOfItsOwn) {
  struct Gate {
    std::atomic<bool> isInside{false}, mayLeave{false};
  } gate;
  ASSERT_TRUE(configureLog({DebugLevel::kInfo, kAllLogSubsystems, path("parent")}).isOk());
  setLogSink(
      [](void* cookie, LogLevel, const char*, size_t) {
        auto* inside = static_cast<Gate*>(cookie);
        inside->isInside.store(true, std::memory_order_release);  // pairs with the wait below
        inside->isInside.notify_one();
        inside->mayLeave.wait(false, std::memory_order_acquire);  // pairs with the store below
      },
      &gate);
  std::thread writer([] { OMNES_LOG_ERROR(Init, "from the parent"); });
  gate.isInside.wait(false, std::memory_order_acquire);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (!configureLog({DebugLevel::kInfo, kAllLogSubsystems, path("child")}).isOk()) _exit(1);
    OMNES_LOG_ERROR(Init, "from the child");
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  gate.mayLeave.store(true, std::memory_order_release);
  gate.mayLeave.notify_one();
  writer.join();
  setLogSink(nullptr, nullptr);
  ASSERT_EQ(read(path("child")).size(), 1u);
  EXPECT_NE(read(path("child"))[0].find("from the child"), std::string::npos);
  EXPECT_TRUE(read(path("parent")).empty());
}

}  // namespace
}  // namespace omnes::base
