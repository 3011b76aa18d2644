#include "core/bootstrap/launch_env.h"

#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Config;
using base::LauncherVariables;
using base::Result;
using base::Status;

Status unusable(const std::string& seen, const char* remedy) {
  return Status(Code::kInvalidUsage, seen + "; " + remedy);
}

Result<LaunchInfo> checked(int64_t rank, int64_t nranks, const std::string& source) {
  if (nranks < 1 || nranks > kMaxRanks) {
    return unusable(source + " give " + std::to_string(nranks) + " ranks",
                    "1 to 1048576 are possible");
  }
  if (rank < 0 || rank >= nranks) {
    return unusable("rank " + std::to_string(rank) + " from " + source + " is outside of its " +
                        std::to_string(nranks) + " ranks",
                    "ranks count from 0 to OMNES_NRANKS - 1");
  }
  return LaunchInfo{static_cast<uint32_t>(rank), static_cast<uint32_t>(nranks), source};
}

}  // namespace

Result<LaunchInfo> readLaunchInfo(const Config& config, const LauncherVariables& launcher) {
  if (config.rank.isSet != config.nranks.isSet) {
    const bool hasRank = config.rank.isSet;
    return unusable(hasRank ? "OMNES_RANK=" + std::to_string(config.rank.value) +
                                  " is set, but OMNES_NRANKS is not"
                            : "OMNES_NRANKS=" + std::to_string(config.nranks.value) +
                                  " is set, but OMNES_RANK is not",
                    "set both or none");
  }
  if (config.rank.isSet) {
    if (config.rank.value >= config.nranks.value) {
      return unusable("OMNES_RANK=" + std::to_string(config.rank.value) +
                          " is outside of OMNES_NRANKS=" + std::to_string(config.nranks.value),
                      "ranks count from 0 to OMNES_NRANKS - 1");
    }
    return checked(config.rank.value, config.nranks.value, "OMNES_RANK and OMNES_NRANKS");
  }
  if (!launcher.isLaunched()) {
    return unusable(
        "neither OMNES_RANK and OMNES_NRANKS nor the variables of a launcher (Open MPI, MPICH, "
        "PMIx, Slurm, "
        "torchrun) are set",
        "set OMNES_RANK, OMNES_NRANKS and OMNES_COMM_ID, or start the ranks with a launcher");
  }
  const std::string source = "the variables of " + launcher.launcher;
  if (!launcher.rank.has_value() || !launcher.size.has_value()) {
    return unusable(
        source + (launcher.rank.has_value() ? " give a rank but no size" : " give no rank"),
        "set OMNES_RANK and OMNES_NRANKS");
  }
  return checked(*launcher.rank, *launcher.size, source);
}

Result<MeetingPoint> readMeetingPoint(const Config& config, const LauncherVariables& launcher,
                                      const LaunchInfo& info) {
  const SecretSettings secret{config.secretFile.value, config.requireSecret.value};
  if (config.commId.isSet) return MeetingPoint::fromCommId(config.commId.value, secret);
  if (info.nranks == 1) {
    OMNES_RETURN_IF_ERROR(initCrypto());
    return MeetingPoint::fromCommId(randomUnixAddress(), SecretSettings{});
  }
  if (config.rank.isSet || !launcher.isLaunched()) {
    return unusable(
        "OMNES_RANK and OMNES_NRANKS are set, but not where the ranks meet",
        "set OMNES_COMM_ID=host:port, the same on all ranks, host being where rank 0 runs");
  }
  if (!launcher.isOneHost()) {
    std::string seen = launcher.launcher + " started " + std::to_string(info.nranks) + " ranks";
    if (launcher.localSize.has_value())
      seen += ", " + std::to_string(*launcher.localSize) + " of them on this host";
    return unusable(
        seen + ", and OMNES_COMM_ID is not set",
        "set OMNES_COMM_ID=host:port, the same on all ranks, host being where rank 0 runs");
  }
  if (launcher.jobId.empty()) {
    return unusable(launcher.launcher + " gives no name of the job to meet by",
                    "set OMNES_COMM_ID=127.0.0.1:port, the same on all ranks");
  }
  return MeetingPoint::fromJob(launcher.launcher + " " + launcher.jobId, secret);
}

}  // namespace omnes::core::bootstrap
