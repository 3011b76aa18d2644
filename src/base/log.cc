#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <mutex>

#include "base/fd.h"
#include "base/fork.h"
#include "base/text.h"

namespace omnes::base {
namespace internal {

std::atomic<uint64_t> logFilter{0};

}  // namespace internal

namespace {

// A line with its newline stays within PIPE_BUF, so that one write() to a pipe is never torn.
constexpr size_t kMaxLineBytes = 4096;

constexpr const char* kLevelNames[] = {"version", "error", "warn", "info", "debug", "trace"};
constexpr std::string_view kSubsystemNames[] = {"init",   "bootstrap", "env",  "shm",    "tcp",
                                                "net",    "coll",      "plan", "tuning", "topo",
                                                "memory", "service",   "abort"};
static_assert((uint64_t{1} << std::size(kSubsystemNames)) - 1 == kAllLogSubsystems);

struct LogState {
  std::mutex mutex;  // held while the sink runs; the innermost lock of the library
  LogSink sink = nullptr;
  void* cookie = nullptr;
  UniqueFd file;  // -1 = standard error
  std::atomic<pid_t> owner{0};
  std::string host = "unknown";
};

// A forked child begins with an unconfigured log: the lock of its parent's may be held by a thread
// that it does not have.
constinit PerProcess<LogState> logState;

std::atomic<bool> versionLogged{false};
thread_local bool isInsideSink = false;

LogLevel lineLevel(DebugLevel level) {
  switch (level) {
    case DebugLevel::kNone: return LogLevel::kNone;
    case DebugLevel::kVersion:
    case DebugLevel::kError: return LogLevel::kError;
    case DebugLevel::kWarn: return LogLevel::kWarn;
    case DebugLevel::kInfo: return LogLevel::kInfo;
    case DebugLevel::kDebug: return LogLevel::kDebug;
    case DebugLevel::kTrace: return LogLevel::kTrace;
  }
  return LogLevel::kNone;
}

std::string_view nameOf(LogSubsystem subsystem) {
  return kSubsystemNames[__builtin_ctz(static_cast<uint32_t>(subsystem))];
}

// Text from peers or the environment must not forge lines or steer a terminal.
void blankControlCharacters(char* text, size_t bytes) {
  std::replace_if(
      text, text + bytes, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      ' ');
}

void writeAll(int fd, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(fd, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a log that cannot be written must not stop the work
    bytes += written;
    count -= static_cast<size_t>(written);
  }
}

Result<UniqueFd> openLogFile(const std::string& pattern) {
  OMNES_ASSIGN_OR_RETURN(const std::string name, expandLogFileName(pattern, hostname(), getpid()));
  UniqueFd fd;
  do {
    fd = UniqueFd::open([&name] {
      // A pipe that nobody reads must not hold up whoever logs: ENXIO here, lost lines later.
      constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
      return ::open(name.c_str(), kFlags, 0644);
    });
  } while (!fd.isOpen() && errno == EINTR);
  if (!fd.isOpen())
    return Status::fromErrno(errno, "cannot open the log file '" + name + "' (OMNES_DEBUG_FILE)");
  return fd;
}

}  // namespace

Result<uint32_t> parseLogSubsystems(std::string_view list) {
  const std::vector<std::string_view> items = splitList(list);
  if (items.empty()) return kAllLogSubsystems;
  const bool leavesOut = items[0][0] == '^';
  uint32_t set = leavesOut ? kAllLogSubsystems : 0;
  for (const std::string_view item : items) {
    const bool isNegated = item[0] == '^';
    const std::string_view name = item.substr(isNegated ? 1 : 0);
    uint32_t bits = 0;
    if (equalsIgnoreCase(name, "all")) bits = kAllLogSubsystems;
    for (size_t i = 0; i < std::size(kSubsystemNames); ++i) {
      if (equalsIgnoreCase(name, kSubsystemNames[i])) bits = 1u << i;
    }
    if (bits == 0) {
      std::string message = "'" + std::string(name) + "' is not a subsystem; valid are all";
      for (const std::string_view valid : kSubsystemNames) message.append(", ").append(valid);
      return Status(Code::kInvalidArgument, std::move(message));
    }
    set = leavesOut || isNegated ? set & ~bits : set | bits;
  }
  return set;
}

std::span<const std::string_view> logSubsystemNames() { return kSubsystemNames; }

Result<std::string> expandLogFileName(std::string_view pattern, std::string_view host, int pid) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      name.push_back(pattern[i]);
      continue;
    }
    const char kind = i + 1 < pattern.size() ? pattern[++i] : '\0';
    switch (kind) {
      case 'h': name.append(host); break;
      case 'p': name.append(std::to_string(pid)); break;
      case '%': name.push_back('%'); break;
      default:
        return Status(
            Code::kInvalidArgument,
            "'" + std::string(pattern) + "' has a % that is not %h (host), %p (process id) or %%");
    }
  }
  return name;
}

Status configureLog(const LogSettings& settings) {
  UniqueFd file;
  if (!settings.filePattern.empty() && settings.level != DebugLevel::kNone) {
    OMNES_ASSIGN_OR_RETURN(file, openLogFile(settings.filePattern));
  }
  LogState& log = logState.get();
  const std::lock_guard lock(log.mutex);
  std::swap(log.file, file);
  // Relaxed: a process only looks for its own id, which only its own threads store.
  log.owner.store(getpid(), std::memory_order_relaxed);
  log.host = hostname();
  const auto level = static_cast<uint64_t>(lineLevel(settings.level));
  // Relaxed (both): see isLogged(); the sink itself is guarded by the mutex.
  internal::logFilter.store(uint64_t{settings.subsystems} << 8 | level, std::memory_order_relaxed);
  versionLogged.store(settings.level >= DebugLevel::kVersion, std::memory_order_relaxed);
  return Status::ok();
}

void setLogSink(LogSink sink, void* cookie) {
  LogState& log = logState.get();
  const std::lock_guard lock(log.mutex);
  log.sink = sink;
  log.cookie = cookie;
}

void logVersion(const char* version) {
  // Relaxed: as in isLogged().
  if (!versionLogged.load(std::memory_order_relaxed)) return;
  internal::writeLog(LogLevel::kNone, LogSubsystem::kInit, "omnes %s", version);
}

namespace internal {

void writeLog(LogLevel level, LogSubsystem subsystem, const char* format, ...) {
  LogState& log = logState.get();
  const int savedErrno =
      errno;  // a line between a failed call and its report must not change the report
  // Asked before the lock is taken: in a forked child it may be held by a thread that does not
  // exist there.
  const pid_t pid = getpid();
  // Relaxed: as in configureLog().
  if (isInsideSink || log.owner.load(std::memory_order_relaxed) != pid) return;

  char line[kMaxLineBytes + 1];
  const std::lock_guard lock(log.mutex);
  const std::string_view name = nameOf(subsystem);
  const int prefix =
      snprintf(line, sizeof line, "%.64s:%d %s %.*s ", log.host.c_str(), static_cast<int>(pid),
               kLevelNames[static_cast<size_t>(level)], static_cast<int>(name.size()), name.data());
  va_list arguments;
  va_start(arguments, format);
  const int text =
      vsnprintf(line + prefix, kMaxLineBytes - static_cast<size_t>(prefix), format, arguments);
  va_end(arguments);
  if (text < 0) return;

  size_t bytes = static_cast<size_t>(prefix) + static_cast<size_t>(text);
  if (bytes > kMaxLineBytes - 1) {
    bytes = kMaxLineBytes - 1;
    std::fill_n(line + bytes - 3, 3, '.');
  }
  blankControlCharacters(line, bytes);
  line[bytes] = '\0';
  if (log.sink != nullptr) {
    isInsideSink = true;
    log.sink(log.cookie, level, line, bytes);
    isInsideSink = false;
  } else {
    line[bytes] = '\n';
    writeAll(log.file.isOpen() ? log.file.get() : STDERR_FILENO, line, bytes + 1);
  }
  errno = savedErrno;
}

}  // namespace internal
}  // namespace omnes::base
