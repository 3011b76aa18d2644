// What a communicator was asked to be: its config, overridden by the environment, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "core/comm/selection.h"

namespace omnes::core {

// The fields of omnesConfig_t, as far as they were given. Strings are copies.
struct CommRequest {
  std::string name;
  std::optional<int64_t> timeoutMs;
  std::optional<int64_t> initTimeoutMs;
  std::string algo;
  std::string transports;
  std::string hostId;
  std::optional<bool> deterministic;
};

struct CommSettings {
  std::string name;
  int64_t timeoutMs = 0;  // 0 = no deadline
  int64_t initTimeoutMs = 0;
  SelectionRules rules;
  std::string hostId;
  std::vector<std::string> transports;  // that may be used, in order of preference
  int32_t tcpSockets = 1;               // that carry data, to each rank reached over tcp
  std::string interfaces;               // of this rank alone
  std::string portRange;                // of this rank alone
  size_t slotBytes = 0;
  int64_t spinPolls = -1;
  base::Choice nonTemporal = base::Choice::kAuto;
  std::string meeting;   // public words on where the ranks meet, which must be alike on all
  bool blocking = true;  // how communicators that inherit this are made

  // kInvalidArgument or kInvalidUsage name the field or variable, its value and what is valid.
  static base::Result<CommSettings> from(const base::Config& config, const CommRequest& request);

  // With initTimeoutMs as it is left of the deadline.
  CommSettings withTimeLeft(base::Deadline deadline, const base::Clock& clock) const;
  // "name=value" lines of what must be alike on all ranks.
  std::string agreedText() const;
};

}  // namespace omnes::core
