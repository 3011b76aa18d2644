// How the ranks of a run come together: threads of one process, processes described by the
// environment or a launcher, or both.
//
// Thread safety: launchRanks is called once, from main.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/options.h"
#include "common/rank.h"

namespace omnes::perf {

// What the environment says about other processes of this run.
struct LaunchEnvironment {
  bool present = false;      // something describes a rank of several: omnesCommInitEnv decides
  int launcherSize = 1;      // how many processes the launcher says it started
  std::string launcherName;  // the variable that said so
};

// `lookup` is getenv; a test passes its own.
LaunchEnvironment readLaunchEnvironment(const std::function<const char*(const char*)>& lookup);

// Joins the ranks, runs `body` once a local rank, each in a thread of its own, and ends the
// communicators. Returns the largest exit code of the local ranks.
int launchRanks(const Options& options, const std::string& program,
                const std::function<void(Rank&)>& body);

}  // namespace omnes::perf
