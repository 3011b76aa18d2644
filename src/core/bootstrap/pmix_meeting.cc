#include "core/bootstrap/pmix_meeting.h"

#include <sodium.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "base/log.h"
#include "base/proc_file.h"
#include "core/bootstrap/meeting_host.h"
#include "core/bootstrap/pmix_session.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Config;
using base::LauncherVariables;
using base::Result;
using base::Status;
using std::chrono::milliseconds;

// Rank 0's notice: this mark and the id, or the other mark, a result code and why there is no id.
constexpr char kIdMark = 'i';
constexpr char kFailureMark = 'f';

// Every look is a message to the launcher, and there may be thousands of ranks.
constexpr milliseconds kFirstPause{2};
constexpr milliseconds kLongestPause{100};

std::string failureNotice(const Status& status) {
  return std::string{kFailureMark, static_cast<char>(status.code())} +
         std::string(status.message());
}

Result<MeetingPoint> readNotice(std::string_view notice) {
  if (notice.size() == kUniqueIdBytes + 1 && notice[0] == kIdMark) {
    return MeetingPoint::fromUniqueId(
        std::span<const uint8_t, kUniqueIdBytes>(bytesOf(notice.substr(1)).data(), kUniqueIdBytes));
  }
  if (notice.size() >= 2 && notice[0] == kFailureMark) {
    return Status(Code::kRemoteError,
                  "rank 0 could not open a meeting: " + std::string(notice.substr(2)));
  }
  return Status(Code::kInvalidUsage,
                "rank 0 has published through PMIx what is no meeting point; use the same omnes on "
                "all ranks");
}

Result<std::optional<MeetingPoint>> tellWhere(const NoticeBoard& board, const std::string& name,
                                              const IdOptions& idOptions) {
  Result<HostedId> hosted = makeHostedId(idOptions);
  if (!hosted.isOk()) {
    // The others would wait for nothing; if they cannot be told, their deadline tells them.
    static_cast<void>(board.publish(name, failureNotice(hosted.status())));
    return hosted.status();
  }
  const HostedId& made = hosted.value();
  std::string notice(1, kIdMark);
  notice.append(reinterpret_cast<const char*>(made.id.data()), made.id.size());
  const Status published = board.publish(name, notice);
  ::sodium_memzero(notice.data(), notice.size());
  if (!published.isOk()) {
    made.host->stop();
    if (published.code() == Code::kNotSupported) return std::optional<MeetingPoint>();
    return published;
  }
  OMNES_ASSIGN_OR_RETURN(MeetingPoint point, MeetingPoint::fromUniqueId(made.id));
  return std::optional<MeetingPoint>(std::move(point));
}

Result<std::optional<MeetingPoint>> waitToBeTold(const NoticeBoard& board, const std::string& name,
                                                 const WaitLimits& limits) {
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    Result<std::optional<std::string>> notice = board.lookup(name);
    if (notice.status().code() == Code::kNotSupported) return std::optional<MeetingPoint>();
    if (!notice.isOk()) return notice.status();
    if (notice.value().has_value()) {
      std::string& text = *notice.value();
      Result<MeetingPoint> point = readNotice(text);
      ::sodium_memzero(text.data(), text.size());
      if (!point.isOk()) return point.status();
      return std::optional<MeetingPoint>(std::move(point).value());
    }
    OMNES_RETURN_IF_ERROR(sleepFor(pause, limits, "waiting for rank 0"));
    if (limits.deadline.hasPassed(*limits.clock)) {
      return Status(Code::kTimeout,
                    "rank 0 has not said through PMIx where the ranks meet; does it run, and does "
                    "it call omnesCommInitEnv as often as this rank?");
    }
  }
}

// Launchers whose ranks are those of PMIx: torchrun, say, numbers its own children.
bool hasPmix(const Config& config, const LauncherVariables& launcher) {
  if (config.rank.isSet || launcher.pmixJob.empty() || launcher.pmixRank != launcher.rank)
    return false;
  return launcher.launcher == "Open MPI" || launcher.launcher == "PMIx" ||
         launcher.launcher == "Slurm" || launcher.launcher == "PMI";
}

Result<std::optional<MeetingPoint>> meetByPmix(const Config& config,
                                               const LauncherVariables& launcher,
                                               const LaunchInfo& info, const WaitLimits& limits,
                                               std::string* why) {
  static std::atomic<uint32_t> meetings{0};
  const std::string name =
      "omnes.meeting." +
      std::to_string(meetings.fetch_add(1, std::memory_order_relaxed));  // a number, no data
  OMNES_ASSIGN_OR_RETURN(const std::unique_ptr<PmixSession> session,
                         PmixSession::open(launcher.pmixJob, info.rank, why));
  if (session == nullptr) return std::optional<MeetingPoint>();
  const NoticeBoard board = {[&](const std::string& key, const std::string& bytes) {
                               return session->publish(key, bytes, limits);
                             },
                             [&](const std::string& key) { return session->lookup(key, limits); }};
  *why = "the launcher's PMIx server does not publish";
  const NetworkOptions network{config.interfaces.value, config.portRange.value, ""};
  return meetByBoard(board, name, info.rank == 0, {launcher.isOneHost(), network, ""}, limits);
}

// MPICH names no job. Its ranks of one host are children of one proxy, which has made the socket
// that each of them has; the kernel remembers who made it. Nothing is sent over it, so an MPI in
// this process does not notice.
std::string processManagerJob(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 || credentials.pid <= 0)
    return {};
  const std::string folder = "/proc/" + std::to_string(credentials.pid);
  // The variable may have been inherited without the socket, and the number be another's by now.
  if (!base::readProcFile(folder + "/comm").starts_with("hydra")) return {};
  // The time of its start is the 20th word after the name: process numbers come again.
  const std::string stat = base::readProcFile(folder + "/stat");
  size_t at = stat.rfind(')');
  for (int word = 0; word < 20 && at != std::string::npos; ++word) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return {};
  return "proxy " + std::to_string(credentials.pid) + " started " +
         stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

}  // namespace

Result<std::optional<MeetingPoint>> meetByBoard(const NoticeBoard& board, const std::string& name,
                                                bool isRankZero, const IdOptions& idOptions,
                                                const WaitLimits& limits) {
  return isRankZero ? tellWhere(board, name, idOptions) : waitToBeTold(board, name, limits);
}

Result<MeetingPoint> findMeetingPoint(const Config& config, const LauncherVariables& launcher,
                                      const LaunchInfo& info, const WaitLimits& limits) {
  if (!config.commId.isSet && info.nranks > 1 && hasPmix(config, launcher)) {
    std::string why;
    OMNES_ASSIGN_OR_RETURN(std::optional<MeetingPoint> point,
                           meetByPmix(config, launcher, info, limits, &why));
    if (point.has_value()) {
      OMNES_LOG_INFO(Bootstrap, "rank %u: rank 0 has said through the launcher's PMIx: %s",
                     info.rank, point->address.c_str());
      return *std::move(point);
    }
    OMNES_LOG_INFO(Bootstrap, "rank %u: no meeting through the launcher's PMIx: %s", info.rank,
                   why.c_str());
  }
  if (!launcher.jobId.empty() || !launcher.pmiFd.has_value())
    return readMeetingPoint(config, launcher, info);
  LauncherVariables withJob = launcher;
  withJob.jobId = processManagerJob(*launcher.pmiFd);
  return readMeetingPoint(config, withJob, info);
}

}  // namespace omnes::core::bootstrap
