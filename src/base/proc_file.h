// Reading what the kernel says about this process: /proc and control groups. Thread-safe, for
// set-up only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace omnes::base {

// The contents of a small file of the kernel, or empty when it cannot be read.
std::string readProcFile(const std::string& path);

// The unsigned number that the text starts with, after blanks. Nothing for other text ("max").
std::optional<uint64_t> leadingNumber(std::string_view text);

// The directories of the control group (v1 of `controller`, and v2) that this process is in, from
// its own up to the root, since a limit may stand at any of them. May name directories that do not
// exist.
std::vector<std::string> cgroupDirectories(std::string_view controller);

}  // namespace omnes::base
