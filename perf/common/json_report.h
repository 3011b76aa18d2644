// The JSON form of a run; fields in perf/schema.md. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "common/report.h"

namespace omnes::perf {

struct JsonInput {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value" of what concerns omnes and launchers
  std::string startTime, endTime, cpu;
  const Options* options = nullptr;
  const std::vector<DeviceInfo>* devices = nullptr;
  const std::vector<Row>* rows = nullptr;
  const std::vector<std::string>* errors = nullptr;
  Summary summary;
};

std::string toJson(const JsonInput& input);

}  // namespace omnes::perf
