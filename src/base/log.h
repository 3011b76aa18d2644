// The one logger. Silent unless OMNES_DEBUG asks for lines; each line is "host:pid level subsystem
// text".
//
// The level is compared before the arguments are evaluated, so a line that is not wanted costs one
// relaxed load. A line leaves in one call of the sink, and the default sink (standard error, or
// OMNES_DEBUG_FILE) makes one write() of it. Errors and warnings are shown whatever the subsystems
// chosen; the others need both.
//
// Who logs: layers below core return a Status, core logs once a failure. Nothing here knows
// secrets: ids, keys and their files' contents must never be arguments.
//
// Thread-safe. A process forked from one that has configured the log stays silent until it
// configures its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace omnes::base {

enum class LogLevel : uint8_t { kNone, kError, kWarn, kInfo, kDebug, kTrace };

// What OMNES_DEBUG may say. kVersion shows the line with the version, and errors; so do all above
// it.
enum class DebugLevel : uint8_t { kNone, kVersion, kError, kWarn, kInfo, kDebug, kTrace };

// Bits, so that a set of subsystems is one word.
enum class LogSubsystem : uint32_t {
  kInit = 1u << 0,
  kBootstrap = 1u << 1,
  kEnv = 1u << 2,
  kShm = 1u << 3,
  kTcp = 1u << 4,
  kNet = 1u << 5,
  kColl = 1u << 6,
  kPlan = 1u << 7,
  kTuning = 1u << 8,
  kTopo = 1u << 9,
  kMemory = 1u << 10,
  kService = 1u << 11,
  kAbort = 1u << 12,
};
inline constexpr uint32_t kAllLogSubsystems = (1u << 13) - 1;

struct LogSettings {
  DebugLevel level = DebugLevel::kNone;
  uint32_t subsystems = kAllLogSubsystems;
  std::string filePattern;  // with %h (host), %p (process id), %%; empty = standard error
};

// "init,coll" is these two; "^tcp,shm" all but these; "all,^tcp" all but tcp. Empty means all.
Result<uint32_t> parseLogSubsystems(std::string_view list);
// The names that parseLogSubsystems() takes, in the order of the bits. Static storage.
std::span<const std::string_view> logSubsystemNames();
// Replaces %h, %p and %%; any other % is an error that names it.
Result<std::string> expandLogFileName(std::string_view pattern, std::string_view host, int pid);

// `line` has no newline, is terminated by a zero byte, and is borrowed until the sink returns. At
// most one call at a time. A sink that logs is ignored while it does; it must not change the sink.
using LogSink = void (*)(void* cookie, LogLevel level, const char* line, size_t bytes);

// Opens the file, if any, and switches over. On failure nothing has changed.
Status configureLog(const LogSettings& settings);
// Sends every line to `sink`; nullptr returns to the file or standard error. Once this returns, the
// old sink is no longer called, so its cookie may go.
void setLogSink(LogSink sink, void* cookie);
// Writes the line with the version, if it is wanted.
void logVersion(const char* version);

namespace internal {

// The level in the low byte and the subsystems above it.
extern std::atomic<uint64_t> logFilter;
void writeLog(LogLevel level, LogSubsystem subsystem, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

}  // namespace internal

inline bool isLogged(LogLevel level, LogSubsystem subsystem) {
  // Relaxed: the filter guards nothing; a thread that sees a change late shows or drops one line
  // more.
  const uint64_t filter = internal::logFilter.load(std::memory_order_relaxed);
  if (level > static_cast<LogLevel>(filter & 0xff)) return false;
  return level <= LogLevel::kWarn || ((filter >> 8) & static_cast<uint32_t>(subsystem)) != 0;
}

}  // namespace omnes::base

// `subsystem` is the bare name: OMNES_LOG_WARN(Bootstrap, "rank %d is late", rank).
#define OMNES_LOG_AT_(level, subsystem, ...)                                               \
  do {                                                                                     \
    if (__builtin_expect(                                                                  \
            ::omnes::base::isLogged(level, ::omnes::base::LogSubsystem::k##subsystem), 0)) \
      ::omnes::base::internal::writeLog(level, ::omnes::base::LogSubsystem::k##subsystem,  \
                                        __VA_ARGS__);                                      \
  } while (0)
#define OMNES_LOG_ERROR(subsystem, ...) \
  OMNES_LOG_AT_(::omnes::base::LogLevel::kError, subsystem, __VA_ARGS__)
#define OMNES_LOG_WARN(subsystem, ...) \
  OMNES_LOG_AT_(::omnes::base::LogLevel::kWarn, subsystem, __VA_ARGS__)
#define OMNES_LOG_INFO(subsystem, ...) \
  OMNES_LOG_AT_(::omnes::base::LogLevel::kInfo, subsystem, __VA_ARGS__)
#define OMNES_LOG_DEBUG(subsystem, ...) \
  OMNES_LOG_AT_(::omnes::base::LogLevel::kDebug, subsystem, __VA_ARGS__)
#define OMNES_LOG_TRACE(subsystem, ...) \
  OMNES_LOG_AT_(::omnes::base::LogLevel::kTrace, subsystem, __VA_ARGS__)
