// How many cores this process may keep busy. What counts is not the machine but the affinity mask,
// which launchers and containers narrow, and the control group's quota of processor time.
// Thread-safe; for set-up.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace omnes::base {

// Cores online in the machine, at least 1.
int onlineCpus();

// Numbers of the cores that a thread (0 = the calling one) or the main thread of a process may run
// on, ascending. Works beyond 1024 cores. Empty if there is no such thread or the kernel refuses to
// tell.
std::vector<int> allowedCpus(pid_t thread = 0);

// The cores' worth of time that control groups grant (v1 and v2, the least of all levels), rounded
// up. Nothing when there is no quota.
std::optional<int> cpuQuota();

// What the calling thread and the main threads of `peers` have to share: all cores that any of them
// may use, but no more than the quota. At least 1. The peers matter since launchers bind each rank
// to a core of its own: one core each is no shortage, one core for all is. Peers that cannot be
// asked add nothing.
int usableCores(std::span<const pid_t> peers = {});

namespace internal {

// "200000 100000" (cpu.max): 2; "max 100000": nothing.
std::optional<int> quotaFromV2(std::string_view cpuMax);
// cpu.cfs_quota_us ("-1" for none) and cpu.cfs_period_us.
std::optional<int> quotaFromV1(std::string_view quota, std::string_view period);

}  // namespace internal
}  // namespace omnes::base
