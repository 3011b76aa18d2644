// Small helpers for text that people type: numbers, sizes, names. Pure functions, thread-safe.
//
// Every refusal names the offending text and what would be accepted, so that callers only add which
// variable or option it came from (Status::withContext).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace omnes::base {

// The whole text must be one decimal integer, with an optional sign. No white space, no base
// prefix.
Result<int64_t> parseInt(std::string_view text);

// Bytes: digits with an optional fraction, then nothing, B, or one of K M G T, each also as "KB" or
// "KiB", in any case. All suffixes are powers of 1024. The result must be a whole number of bytes,
// so "0.5G" is accepted and "1.5" or "0.1K" are refused. Negative and empty texts are refused.
Result<uint64_t> parseSize(std::string_view text);

// The shortest text that parseSize reads back as `bytes`: "0", "100", "64K", "1536K", "1G".
std::string formatSize(uint64_t bytes);

// Ports that a listener may take: "5000" or "5000-5100". The default, 0 to 0, is the system's
// choice.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
  bool isAny() const { return first == 0; }
};
// An empty text is the system's choice. Ports count from 1, and a range must not be empty.
Result<PortRange> parsePortRange(std::string_view text);
// As parsePortRange reads it back.
std::string formatPortRange(PortRange range);

// ASCII only; the locale plays no part.
std::string toLower(std::string_view text);
bool equalsIgnoreCase(std::string_view a, std::string_view b);

// The items of a comma-separated list without surrounding blanks; empty items are dropped.
std::vector<std::string_view> splitList(std::string_view text);

// Least number of inserted, removed, replaced or swapped neighbouring characters between the two.
size_t editDistance(std::string_view a, std::string_view b);
// The candidate with the least edit distance, or empty when none is near enough to be what was
// meant (more than a third of the characters differ). The result borrows from `candidates`.
std::string_view nearestName(std::string_view name, std::span<const std::string_view> candidates);

// This host's name, as gethostname() says; "unknown" when it fails.
std::string hostname();

}  // namespace omnes::base
