// Everything the environment can say to omnes, read once.
//
// settings.def is the one table of OMNES_* variables; Config has one field a row. This file and
// config.cc are the only code that looks at the environment: what launchers leave there comes
// through launcherVariables(). A Config is made once and passed by const reference; thread-safe
// once made.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/status.h"

namespace omnes::base {

enum class Choice : uint8_t { kAuto, kOn, kOff };

// One setting. An empty variable counts as unset.
template <typename T>
struct Setting {
  T value;
  bool isSet = false;  // by the environment; else `value` is the default

  // The environment wins over the program's own wish, as in NCCL.
  template <typename U>
  T over(const U& wish) const {
    return isSet ? value : T(wish);
  }
};

// A row of the table, for documentation and dumps. All text is static.
struct SettingInfo {
  const char* name;          // "OMNES_TIMEOUT_MS"
  const char* kind;          // "integer", "size", "boolean", "text", "choice"
  std::string defaultValue;  // as one would write it; empty for none
  std::string valid;         // "0 to 100", "auto, on, off", "host:port", ...
  const char* unit;          // "ms", "bytes", or empty
  const char* sentence;
};

class Config {
 public:
  // Reads this process's environment. kInvalidArgument names the variable, its value and what is
  // valid.
  static Result<Config> fromEnvironment();
  // The same from "NAME=value" strings that end with nullptr; borrows them until it returns.
  static Result<Config> fromVariables(const char* const* variables);

#define OMNES_SETTING_ENUM(field, name, type, preset, sentence) Setting<type> field{preset};
#define OMNES_SETTING_STRING(field, name, form, sentence) Setting<std::string> field{std::string()};
#define OMNES_SETTING_INT(field, name, preset, least, most, unit, sentence) \
  Setting<int64_t> field{preset};
#define OMNES_SETTING_SIZE(field, name, preset, least, most, sentence) \
  Setting<uint64_t> field{preset};
#define OMNES_SETTING_BOOL(field, name, preset, sentence) Setting<bool> field{preset};
#include "base/settings.def"

  // Names starting with OMNES_ that are no setting, each with the nearest one; for core to log.
  std::vector<std::string> warnings;

  LogSettings logSettings() const;

  // The current value of row i of settingTable(), as one would write it. Values of variables that
  // may hold secrets are withheld.
  std::string valueText(size_t row) const;
  bool isRowSet(size_t row) const;
};

// The rows of settings.def in their order. Static storage.
std::span<const SettingInfo> settingTable();

// Whether the value of this variable must not be printed: its name speaks of a secret, key or
// token.
bool isSecretName(std::string_view name);

// What the launcher of this process left in the environment. Absent fields are unknown, not zero.
struct LauncherVariables {
  std::string launcher;  // "Open MPI", "PMI", "torchrun", "Slurm", "PMIx"; empty = none found
  std::optional<int> rank;
  std::optional<int> size;
  std::optional<int> localRank;
  std::optional<int> localSize;
  std::optional<int> nodes;
  std::string jobId;          // the same on all ranks of the job; empty = unknown
  std::string masterAddress;  // MASTER_ADDR
  std::optional<int> masterPort;
  std::string pmixJob;          // PMIX_NAMESPACE: a PMIx server may answer this process
  std::optional<int> pmixRank;  // PMIX_RANK
  std::optional<int> pmiFd;     // PMI_FD: the socket to the process manager of MPICH

  bool isLaunched() const { return !launcher.empty(); }
  // True when the launcher says so; false when it says otherwise or nothing.
  bool isOneHost() const {
    return (size.has_value() && localSize == size) || nodes == 1 || size == 1;
  }
};

// From the first launcher that says a rank, in the order of `launcher` above: a launcher started
// inside a Slurm allocation must win over Slurm. A value that is not a number counts as absent.
LauncherVariables launcherVariables();
LauncherVariables launcherVariables(const char* const* variables);

}  // namespace omnes::base
