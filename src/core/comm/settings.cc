#include "core/comm/settings.h"

#include <algorithm>

#include "base/text.h"
#include "transports/registry.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;

// The transports that a comma list leaves; a leading ^ makes it the list of those left out, and an
// empty one leaves all.
Result<std::vector<std::string>> readTransports(const std::string& text) {
  const std::string list = base::toLower(text);
  const bool excludes = list.empty() || list[0] == '^';
  const auto names = base::splitList(std::string_view(list).substr(excludes && !list.empty()));
  std::string valid;
  std::vector<std::string> left;
  for (const transports::TransportTable* table : transports::all()) {
    valid.append(valid.empty() ? "" : ", ").append(table->name);
    const bool isNamed = std::find(names.begin(), names.end(), table->name) != names.end();
    if (isNamed != excludes) left.emplace_back(table->name);
  }
  for (const std::string_view name : names)
    if (transports::find(name) == nullptr)
      return Status(Code::kInvalidArgument,
                    "OMNES_TRANSPORTS names \"" + std::string(name) + "\"; valid: " + valid);
  if (left.empty())
    return Status(Code::kInvalidUsage,
                  "OMNES_TRANSPORTS \"" + list + "\" leaves no transport; valid: " + valid);
  return left;
}

template <typename T>
T choose(const base::Setting<T>& setting, const std::optional<T>& wish) {
  return setting.isSet ? setting.value : wish.value_or(setting.value);
}

}  // namespace

Result<CommSettings> CommSettings::from(const base::Config& config, const CommRequest& request) {
  CommSettings out;
  out.name = request.name;
  out.timeoutMs = choose(config.timeoutMs, request.timeoutMs);
  out.initTimeoutMs = choose(config.initTimeoutMs, request.initTimeoutMs);
  if (out.timeoutMs < 0 || out.initTimeoutMs < 0)
    return Status(Code::kInvalidArgument,
                  "timeoutMs and initTimeoutMs must not be negative; 0 means no deadline");
  OMNES_ASSIGN_OR_RETURN(
      out.rules.choice,
      AlgorithmChoice::parse(config.algo.isSet ? config.algo.value : request.algo));
  out.rules.deterministic = choose(config.deterministic, request.deterministic);
  OMNES_RETURN_IF_ERROR(checkRules(out.rules));
  OMNES_ASSIGN_OR_RETURN(
      out.transports,
      readTransports(config.transports.isSet ? config.transports.value : request.transports));
  out.interfaces = config.interfaces.value;
  out.portRange = config.portRange.value;
  out.tcpSockets = static_cast<int32_t>(config.tcpSockets.value);
  out.hostId = config.hostId.isSet ? config.hostId.value : request.hostId;
  for (const char c : out.hostId)
    if (static_cast<unsigned char>(c) < 0x20)
      return Status(Code::kInvalidArgument, "OMNES_HOST_ID holds control characters");
  out.slotBytes = config.slotBytes.value;
  out.spinPolls = config.spin.value;
  out.nonTemporal = config.nonTemporal.value;
  return out;
}

CommSettings CommSettings::withTimeLeft(base::Deadline deadline, const base::Clock& clock) const {
  CommSettings settings = *this;
  if (deadline.isNever()) return settings;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining(clock)).count();
  settings.initTimeoutMs = std::max<int64_t>(left, 1);
  return settings;
}

std::string CommSettings::agreedText() const {
  std::string allowed;
  for (const std::string& name : transports) allowed += (allowed.empty() ? "" : ",") + name;
  return "OMNES_ALGO=" + rules.choice.text() +
         "\nOMNES_DETERMINISTIC=" + (rules.deterministic ? "1" : "0") +
         "\nOMNES_SLOT_BYTES=" + std::to_string(slotBytes) + "\nOMNES_TRANSPORTS=" + allowed +
         "\nOMNES_TCP_SOCKETS=" + std::to_string(tcpSockets) + "\n" +
         (meeting.empty() ? "" : "unique ids=" + meeting + "\n");
}

}  // namespace omnes::core
