// How many cores this process may keep busy. What counts is not the machine but the affinity mask,
// which launchers and containers narrow, and the control group's quota of processor time.
// Thread-safe; for set-up.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace omnes::base {

// Cores online in the machine, at least 1.
int onlineCpus();

// Numbers of the cores that the calling thread may run on, ascending. Works beyond 1024 cores.
// Empty only if the kernel refuses to tell.
std::vector<int> allowedCpus();

// The cores' worth of time that control groups grant (v1 and v2, the least of all levels), rounded
// up. Nothing when there is no quota.
std::optional<int> cpuQuota();

// The lesser of the two above: what ranks of this host have to share. At least 1.
int usableCores();

namespace internal {

// "200000 100000" (cpu.max): 2; "max 100000": nothing.
std::optional<int> quotaFromV2(std::string_view cpuMax);
// cpu.cfs_quota_us ("-1" for none) and cpu.cfs_period_us.
std::optional<int> quotaFromV1(std::string_view quota, std::string_view period);

}  // namespace internal
}  // namespace omnes::base
