// Files that the command reads and writes, whole. Errors name the file and the remedy.
#pragma once

#include <string>

#include "base/status.h"

namespace omnes::cli {

// kInvalidArgument when the file cannot be read or is longer than 32 MiB (the limit of the
// parsers).
base::Result<std::string> readFile(const std::string& path);

// Writes and closes the file; an empty path is standard output.
base::Status writeFile(const std::string& path, const std::string& text);

}  // namespace omnes::cli
