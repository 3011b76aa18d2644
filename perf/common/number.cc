#include "common/number.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace omnes::perf {
namespace {

constexpr const char* kLegalBytes =
    "write a size in bytes, e.g. 8, 1K, 1KiB, 0.5G or 64M (K, M, G, T are powers of 1024)";
// Sizes are also used as signed numbers of bytes.
constexpr uint64_t kLargestBytes = std::numeric_limits<int64_t>::max();

bool isDigit(char c) { return c >= '0' && c <= '9'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The power of 1024 that a suffix means, or -1.
int suffixPower(std::string_view suffix) {
  if (suffix.empty()) return 0;
  if (suffix.size() == 1 && lower(suffix[0]) == 'b') return 0;
  constexpr std::string_view kLetters = "kmgt";
  const size_t letter = kLetters.find(lower(suffix[0]));
  if (letter == std::string_view::npos) return -1;
  const std::string_view rest = suffix.substr(1);
  const bool binary = rest.size() == 2 && lower(rest[0]) == 'i' && lower(rest[1]) == 'b';
  return rest.empty() || binary ? static_cast<int>(letter) + 1 : -1;
}

}  // namespace

std::optional<uint64_t> parseBytes(std::string_view text, std::string* problem) {
  using Wide = unsigned __int128;
  const auto refuse = [&](const char* why) {
    *problem = std::string(why) + "; " + kLegalBytes;
    return std::nullopt;
  };
  if (text.empty()) return refuse("it is empty");
  Wide whole = 0;
  size_t at = 0;
  for (; at < text.size() && isDigit(text[at]); ++at) {
    whole = whole * 10 + static_cast<unsigned>(text[at] - '0');
    if (whole > kLargestBytes) return refuse("it is too large");
  }
  if (at == 0) return refuse("it is not a size");
  // The fraction is kept as digits / 10^k, so that 0.1K is seen not to be whole bytes.
  Wide fraction = 0, denominator = 1;
  if (at < text.size() && text[at] == '.') {
    const size_t first = ++at;
    for (; at < text.size() && isDigit(text[at]); ++at) {
      if (at - first == 18) return refuse("it has more than 18 decimals");
      fraction = fraction * 10 + static_cast<unsigned>(text[at] - '0');
      denominator *= 10;
    }
    if (at == first) return refuse("digits are missing after the point");
  }
  const int power = suffixPower(text.substr(at));
  if (power < 0) return refuse("its suffix is unknown");
  const Wide unit = Wide{1} << (10 * power);
  if (fraction * unit % denominator != 0) return refuse("it is not a whole number of bytes");
  const Wide bytes = whole * unit + fraction * unit / denominator;
  if (bytes > kLargestBytes) return refuse("it is too large");
  return static_cast<uint64_t>(bytes);
}

std::optional<int64_t> parseInteger(std::string_view text, int64_t lowest, int64_t highest,
                                    std::string* problem) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end || value < lowest || value > highest) {
    *problem = (text.empty() ? "it is empty; " : "") + std::string("write a whole number from ") +
               std::to_string(lowest) + " to " + std::to_string(highest);
    return std::nullopt;
  }
  return value;
}

std::optional<double> parseReal(std::string_view text, std::string* problem) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end || !std::isfinite(value) || value < 0) {
    *problem = "write a number that is not negative, e.g. 1.5";
    return std::nullopt;
  }
  return value;
}

std::string formatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace omnes::perf
