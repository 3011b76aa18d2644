#include "base/text.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

namespace omnes::base {
namespace {

__extension__ using Wide = unsigned __int128;

bool isDigit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

Status badSize(std::string_view text, const char* reason) {
  return Status(
      Code::kInvalidArgument,
      quoted(text) + " is not a size in bytes: " + reason +
          "; write digits and an optional K, M, G or T (powers of 1024), as in 64K or 0.5G");
}

// Bits to shift for a suffix in lower case, or -1.
int shiftOfSuffix(std::string_view suffix) {
  if (suffix.empty() || suffix == "b") return 0;
  static constexpr std::string_view kLetters = "kmgt";
  const size_t at = kLetters.find(suffix[0]);
  if (at == std::string_view::npos) return -1;
  const std::string_view rest = suffix.substr(1);
  if (!rest.empty() && rest != "b" && rest != "ib") return -1;
  return static_cast<int>(at + 1) * 10;
}

}  // namespace

Result<int64_t> parseInt(std::string_view text) {
  const bool isNegative = !text.empty() && text[0] == '-';
  const bool hasSign = isNegative || (!text.empty() && text[0] == '+');
  const std::string_view digits = text.substr(hasSign ? 1 : 0);
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), isDigit)) {
    return Status(Code::kInvalidArgument, quoted(text) + " is not a whole number");
  }
  const uint64_t limit = uint64_t{std::numeric_limits<int64_t>::max()} + (isNegative ? 1 : 0);
  uint64_t magnitude = 0;
  for (const char c : digits) {
    const auto digit = static_cast<uint64_t>(c - '0');
    if (magnitude > (limit - digit) / 10) {
      return Status(Code::kInvalidArgument, quoted(text) + " does not fit in 64 bits");
    }
    magnitude = magnitude * 10 + digit;
  }
  return static_cast<int64_t>(isNegative ? 0 - magnitude : magnitude);
}

Result<uint64_t> parseSize(std::string_view text) {
  if (text.empty()) return badSize(text, "it is empty");
  if (text[0] == '-') return badSize(text, "it is negative");

  size_t at = 0;
  Wide whole = 0;
  Wide fraction = 0;
  Wide scale = 1;
  for (; at < text.size() && isDigit(text[at]); ++at) {
    whole = whole * 10 + static_cast<unsigned>(text[at] - '0');
    if (whole > std::numeric_limits<uint64_t>::max()) return badSize(text, "it exceeds 64 bits");
  }
  const size_t wholeDigits = at;
  size_t fractionDigits = 0;
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && isDigit(text[at]); ++at, ++fractionDigits) {
      if (fractionDigits == 18) return badSize(text, "it has too many digits");
      fraction = fraction * 10 + static_cast<unsigned>(text[at] - '0');
      scale *= 10;
    }
    if (fractionDigits == 0) return badSize(text, "a digit must follow the point");
  }
  if (wholeDigits == 0 && fractionDigits == 0)
    return badSize(text, "it does not start with a digit");

  const int shift = shiftOfSuffix(toLower(text.substr(at)));
  if (shift < 0) return badSize(text, "the suffix is unknown");
  if ((fraction << shift) % scale != 0) return badSize(text, "it is not a whole number of bytes");
  const Wide bytes = (whole << shift) + (fraction << shift) / scale;
  if (bytes > std::numeric_limits<uint64_t>::max()) return badSize(text, "it exceeds 64 bits");
  return static_cast<uint64_t>(bytes);
}

std::string formatSize(uint64_t bytes) {
  static constexpr const char* kSuffixes[] = {"", "K", "M", "G", "T"};
  size_t unit = 0;
  while (unit < 4 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kSuffixes[unit];
}

Result<PortRange> parsePortRange(std::string_view text) {
  if (text.empty()) return PortRange{};
  const size_t dash = text.find('-', 1);
  const Result<int64_t> first = parseInt(text.substr(0, dash));
  const Result<int64_t> last =
      dash == std::string_view::npos ? first : parseInt(text.substr(dash + 1));
  if (!first.isOk() || !last.isOk() || first.value() < 1 || last.value() > 65535 ||
      first.value() > last.value()) {
    return Status(Code::kInvalidArgument,
                  "'" + std::string(text) +
                      "' is not a range of ports; use one port or FIRST-LAST, from 1 to 65535, "
                      "such as 5000-5100");
  }
  return PortRange{static_cast<uint16_t>(first.value()), static_cast<uint16_t>(last.value())};
}

std::string formatPortRange(PortRange range) {
  if (range.isAny()) return {};
  std::string text = std::to_string(range.first);
  if (range.last != range.first) text.append("-").append(std::to_string(range.last));
  return text;
}

std::string toLower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

bool equalsIgnoreCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::vector<std::string_view> splitList(std::string_view text) {
  std::vector<std::string_view> items;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (!item.empty()) items.push_back(item);
  }
  return items;
}

size_t editDistance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: two back (for swaps), previous, current.
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::string_view nearestName(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t bestDistance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = editDistance(name, candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

std::string hostname() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

}  // namespace omnes::base
