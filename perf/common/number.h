// Numbers as users write them on a command line.
//
// Every parser either returns the exact value or sets *problem to a sentence that says what is
// legal; nothing is silently cut, rounded or ignored ("2M" is never 2). Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace omnes::perf {

// "8", "1k", "1K", "1KiB", "64M", "0.5G": digits, an optional fraction, an optional binary suffix K
// M G T (any case, optionally followed by "iB"; "8B" is 8 bytes). A fraction must come out as whole
// bytes.
std::optional<uint64_t> parseBytes(std::string_view text, std::string* problem);

// A whole number in [lowest, highest], no suffix.
std::optional<int64_t> parseInteger(std::string_view text, int64_t lowest, int64_t highest,
                                    std::string* problem);

// A finite number that is not negative, e.g. "1.5".
std::optional<double> parseReal(std::string_view text, std::string* problem);

// "24.1 GiB", "512 B": for messages only.
std::string formatBytes(uint64_t bytes);

}  // namespace omnes::perf
