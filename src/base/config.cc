#include "base/config.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>

#include "base/text.h"

namespace omnes::base {
namespace {

// --- The kinds of settings: how each is parsed, shown and described. ---

template <typename T>
struct EnumNames;

template <>
struct EnumNames<DebugLevel> {
  static constexpr std::string_view kNames[] = {"NONE", "VERSION", "ERROR", "WARN",
                                                "INFO", "DEBUG",   "TRACE"};
};

template <>
struct EnumNames<Choice> {
  static constexpr std::string_view kNames[] = {"auto", "on", "off"};
};

Status notOneOf(std::string_view text, std::string_view valid) {
  return Status(Code::kInvalidArgument,
                "'" + std::string(text) + "' is not one of " + std::string(valid));
}

template <typename T>
struct EnumRow {
  T preset;

  const char* kind() const { return "choice"; }
  const char* unit() const { return ""; }
  std::string valid() const {
    std::string list;
    for (const std::string_view name : EnumNames<T>::kNames) {
      list.append(list.empty() ? "" : ", ").append(name);
    }
    return list;
  }
  std::string show(T value) const {
    return std::string(EnumNames<T>::kNames[static_cast<size_t>(value)]);
  }
  Result<T> parse(std::string_view text) const {
    for (size_t i = 0; i < std::size(EnumNames<T>::kNames); ++i) {
      if (equalsIgnoreCase(text, EnumNames<T>::kNames[i])) return static_cast<T>(i);
    }
    return notOneOf(text, valid());
  }
};

struct StringRow {
  const char* form;
  std::string preset;

  const char* kind() const { return "text"; }
  const char* unit() const { return ""; }
  std::string valid() const { return form; }
  std::string show(const std::string& value) const { return value; }
  Result<std::string> parse(std::string_view text) const { return std::string(text); }
};

struct IntRow {
  int64_t preset;
  int64_t least;
  int64_t most;
  const char* unitName;

  const char* kind() const { return "integer"; }
  const char* unit() const { return unitName; }
  std::string valid() const { return std::to_string(least) + " to " + std::to_string(most); }
  // A default outside the range stands for "unset".
  std::string show(int64_t value) const {
    return value < least ? std::string() : std::to_string(value);
  }
  Result<int64_t> parse(std::string_view text) const {
    OMNES_ASSIGN_OR_RETURN(const int64_t value, parseInt(text));
    if (value < least || value > most) {
      return Status(Code::kInvalidArgument, "'" + std::string(text) + "' is outside " + valid());
    }
    return value;
  }
};

struct SizeRow {
  uint64_t preset;
  uint64_t least;
  uint64_t most;

  const char* kind() const { return "size"; }
  const char* unit() const { return "bytes"; }
  std::string valid() const { return formatSize(least) + " to " + formatSize(most); }
  std::string show(uint64_t value) const { return formatSize(value); }
  Result<uint64_t> parse(std::string_view text) const {
    OMNES_ASSIGN_OR_RETURN(const uint64_t value, parseSize(text));
    if (value < least || value > most) {
      return Status(Code::kInvalidArgument, "'" + std::string(text) + "' is outside " + valid());
    }
    return value;
  }
};

struct BoolRow {
  bool preset;

  const char* kind() const { return "boolean"; }
  const char* unit() const { return ""; }
  std::string valid() const { return "1, 0, true, false, yes, no, on, off"; }
  std::string show(bool value) const { return value ? "1" : "0"; }
  Result<bool> parse(std::string_view text) const {
    for (const char* yes : {"1", "true", "yes", "on"}) {
      if (equalsIgnoreCase(text, yes)) return true;
    }
    for (const char* no : {"0", "false", "no", "off"}) {
      if (equalsIgnoreCase(text, no)) return false;
    }
    return notOneOf(text, valid());
  }
};

// Calls visit(field, name, row, sentence) for each row of the table, in order.
template <typename ConfigType, typename Visitor>
void visitSettings(ConfigType& config, Visitor&& visit) {
#define OMNES_SETTING_ENUM(field, name, type, preset, sentence) \
  visit(config.field, name, EnumRow<type>{preset}, sentence);
#define OMNES_SETTING_STRING(field, name, form, sentence) \
  visit(config.field, name, StringRow{form, {}}, sentence);
#define OMNES_SETTING_INT(field, name, preset, least, most, unit, sentence) \
  visit(config.field, name, IntRow{preset, least, most, unit}, sentence);
#define OMNES_SETTING_SIZE(field, name, preset, least, most, sentence) \
  visit(config.field, name, SizeRow{preset, least, most}, sentence);
#define OMNES_SETTING_BOOL(field, name, preset, sentence) \
  visit(config.field, name, BoolRow{preset}, sentence);
#include "base/settings.def"
}

// --- Looking at the environment. ---

constexpr std::string_view kPrefix = "OMNES_";

// Empty when unset: an empty variable counts as unset everywhere.
std::string_view lookUp(const char* const* variables, std::string_view name) {
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view entry = *variables;
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

Status refuse(const char* name, std::string_view valid, const Status& cause) {
  if (isSecretName(name)) {
    return Status(
        cause.code(),
        std::string(name) + ": the value (not shown) is not valid; valid: " + std::string(valid));
  }
  std::string message = std::string(name) + ": " + std::string(cause.message());
  if (message.find(valid) == std::string::npos) message.append("; valid: ").append(valid);
  return Status(cause.code(), std::move(message));
}

std::vector<std::string> unknownNames(const char* const* variables) {
  std::vector<std::string_view> known;
  for (const SettingInfo& row : settingTable()) known.push_back(row.name);
  std::vector<std::string> warnings;
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view entry = *variables;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    // The value is not shown: nobody knows what an unknown variable holds.
    std::string text = "unknown setting " + std::string(name) + " is ignored";
    const std::string_view nearest = nearestName(name, known);
    text.append(nearest.empty() ? "; docs/settings.md lists the valid names" : "; did you mean ");
    text.append(nearest).append(nearest.empty() ? "" : "?");
    warnings.push_back(std::move(text));
  }
  return warnings;
}

}  // namespace

bool isSecretName(std::string_view name) {
  for (const std::string_view word : {"SECRET", "KEY", "TOKEN", "PASSWORD"}) {
    if (name.find(word) != std::string_view::npos) return true;
  }
  return false;
}

Result<Config> Config::fromEnvironment() { return fromVariables(environ); }

Result<Config> Config::fromVariables(const char* const* variables) {
  Config config;
  Status status;
  visitSettings(config, [&](auto& field, const char* name, const auto& row, const char*) {
    const std::string_view text = lookUp(variables, name);
    if (text.empty() || !status.isOk()) return;
    auto parsed = row.parse(text);
    if (parsed.isOk()) {
      field.value = std::move(parsed).value();
      field.isSet = true;
    } else {
      status = refuse(name, row.valid(), parsed.status());
    }
  });
  OMNES_RETURN_IF_ERROR(status);

  // Strings with a grammar of their own are checked here, so that a typing error shows at once.
  if (auto set = parseLogSubsystems(config.debugSubsystems.value); !set.isOk()) {
    return set.status().withContext("OMNES_DEBUG_SUBSYS");
  }
  if (auto name = expandLogFileName(config.debugFile.value, "", 0); !name.isOk()) {
    return name.status().withContext("OMNES_DEBUG_FILE");
  }
  if (auto range = parsePortRange(config.portRange.value); !range.isOk()) {
    return range.status().withContext("OMNES_PORT_RANGE");
  }
  config.warnings = unknownNames(variables);
  return config;
}

LogSettings Config::logSettings() const {
  LogSettings settings;
  settings.level = debug.value;
  settings.filePattern = debugFile.value;
  // fromVariables() has checked the list; a default-made Config has an empty one, which means all.
  auto subsystems = parseLogSubsystems(debugSubsystems.value);
  if (subsystems.isOk()) settings.subsystems = subsystems.value();
  return settings;
}

std::string Config::valueText(size_t row) const {
  std::string text;
  size_t at = 0;
  visitSettings(*this, [&](const auto& field, const char* name, const auto& kind, const char*) {
    if (at++ != row) return;
    const bool isHidden =
        isSecretName(name) && kind.kind() == std::string_view("text") && field.isSet;
    text = isHidden ? "(set, not shown)" : kind.show(field.value);
  });
  return text;
}

bool Config::isRowSet(size_t row) const {
  bool isSet = false;
  size_t at = 0;
  visitSettings(*this, [&](const auto& field, const char*, const auto&, const char*) {
    if (at++ == row) isSet = field.isSet;
  });
  return isSet;
}

std::span<const SettingInfo> settingTable() {
  // Never destroyed: threads may still be inside calls when main() returns.
  static const std::vector<SettingInfo>& table = *[] {
    auto made = std::make_unique<std::vector<SettingInfo>>();
    std::vector<SettingInfo>& rows = *made;
    const Config defaults;
    visitSettings(defaults, [&](const auto&, const char* name, const auto& row,
                                const char* sentence) {
      rows.push_back({name, row.kind(), row.show(row.preset), row.valid(), row.unit(), sentence});
    });
    return made.release();
  }();
  return table;
}

// --- Launchers. ---

namespace {

// Where each launcher writes what; nullptr = it does not say.
struct LauncherNames {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* localRank;
  const char* localSize;
  const char* nodes;
  const char* jobId;
};

// PMI is what MPICH, Intel MPI and their kin leave. PMIx says no size in the environment.
constexpr LauncherNames kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, "PMIX_NAMESPACE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr, nullptr},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
     "TORCHELASTIC_RUN_ID"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, "SLURM_NNODES",
     "SLURM_JOB_ID"},
    {"PMIx", "PMIX_RANK", nullptr, nullptr, nullptr, nullptr, "PMIX_NAMESPACE"},
};

std::optional<int> intVariable(const char* const* variables, const char* name, int64_t least) {
  if (name == nullptr) return std::nullopt;
  const auto value = parseInt(lookUp(variables, name));
  if (!value.isOk() || value.value() < least || value.value() > std::numeric_limits<int>::max()) {
    return std::nullopt;
  }
  return static_cast<int>(value.value());
}

}  // namespace

LauncherVariables launcherVariables() { return launcherVariables(environ); }

LauncherVariables launcherVariables(const char* const* variables) {
  LauncherVariables found;
  for (const LauncherNames& names : kLaunchers) {
    found.rank = intVariable(variables, names.rank, 0);
    if (!found.rank.has_value()) continue;
    found.launcher = names.launcher;
    found.size = intVariable(variables, names.size, 1);
    found.localRank = intVariable(variables, names.localRank, 0);
    found.localSize = intVariable(variables, names.localSize, 1);
    found.nodes = intVariable(variables, names.nodes, 1);
    if (names.jobId != nullptr) found.jobId = lookUp(variables, names.jobId);
    break;
  }
  if (found.launcher == "Slurm") {
    // A job may run several steps at once, each a world of its own, possibly smaller than the job.
    if (auto tasks = intVariable(variables, "SLURM_STEP_NUM_TASKS", 1)) found.size = tasks;
    if (auto nodes = intVariable(variables, "SLURM_STEP_NUM_NODES", 1)) found.nodes = nodes;
    if (const auto step = lookUp(variables, "SLURM_STEP_ID"); !step.empty()) {
      found.jobId.append(".").append(step);
    }
  }
  found.pmixJob = lookUp(variables, "PMIX_NAMESPACE");
  found.pmixRank = intVariable(variables, "PMIX_RANK", 0);
  found.pmiFd = intVariable(variables, "PMI_FD", 0);
  found.masterAddress = lookUp(variables, "MASTER_ADDR");
  found.masterPort = intVariable(variables, "MASTER_PORT", 1);
  return found;
}

}  // namespace omnes::base
