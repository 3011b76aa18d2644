#include "base/text.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace omnes::base {
namespace {

uint64_t parsed(std::string_view text) {
  const auto result = parseSize(text);
  EXPECT_TRUE(result.isOk()) << text << ": " << result.status().message();
  return result.isOk() ? result.value() : ~uint64_t{0};
}

TEST(Text, SizesTakeSuffixesAsPowersOf1024) {
  EXPECT_EQ(parsed("0"), 0u);
  EXPECT_EQ(parsed("64"), 64u);
  EXPECT_EQ(parsed("64B"), 64u);
  for (const char* kibi : {"1k", "1K", "1KiB", "1kb", "1KB", "1kib"})
    EXPECT_EQ(parsed(kibi), 1024u) << kibi;
  EXPECT_EQ(parsed("2M"), 2u << 20);
  EXPECT_EQ(parsed("0.5G"), 512u << 20);
  EXPECT_EQ(parsed(".5K"), 512u);
  EXPECT_EQ(parsed("1.5T"), 3ull << 39);
  EXPECT_EQ(parsed("18446744073709551615"), UINT64_MAX);
}

TEST(Text, SizesThatAreNoneAreRefusedByName) {
  for (const char* bad :
       {"", "-5", "1.5X", "1.5", "0.1K", "K", "1.", "1..5K", "1 K", " 1", "1KiBs", "0x10", "1e3",
        "18446744073709551616", "99999999T", "1.0000000000000000001K", "+5", "1i"}) {
    const auto result = parseSize(bad);
    ASSERT_FALSE(result.isOk()) << bad;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_NE(result.status().message().find("'" + std::string(bad) + "'"), std::string::npos)
        << result.status().message();
  }
}

TEST(Text, FormattedSizesReadBack) {
  EXPECT_EQ(formatSize(0), "0");
  EXPECT_EQ(formatSize(100), "100");
  EXPECT_EQ(formatSize(1536 * 1024), "1536K");
  EXPECT_EQ(formatSize(1u << 30), "1G");
  for (uint64_t shift = 0; shift < 64; ++shift) {
    const uint64_t bytes = (uint64_t{1} << shift) + (shift > 5 ? 3 : 0);
    EXPECT_EQ(parsed(formatSize(bytes)), bytes);
    EXPECT_EQ(parsed(formatSize(uint64_t{1} << shift)), uint64_t{1} << shift);
  }
}

TEST(Text, Integers) {
  EXPECT_EQ(parseInt("0").value(), 0);
  EXPECT_EQ(parseInt("-12").value(), -12);
  EXPECT_EQ(parseInt("+7").value(), 7);
  EXPECT_EQ(parseInt("9223372036854775807").value(), INT64_MAX);
  EXPECT_EQ(parseInt("-9223372036854775808").value(), INT64_MIN);
  for (const char* bad : {"", "-", "+", "1x", "x", " 1", "1 ", "0x1", "1.0", "9223372036854775808",
                          "-9223372036854775809", "99999999999999999999999"}) {
    EXPECT_FALSE(parseInt(bad).isOk()) << bad;
  }
}

TEST(Text, ListsDropBlanksAndEmptyItems) {
  EXPECT_TRUE(splitList("").empty());
  EXPECT_TRUE(splitList(" , ,").empty());
  EXPECT_EQ(splitList("a, b ,,c"), (std::vector<std::string_view>{"a", "b", "c"}));
}

TEST(Text, EditDistanceCountsSwapsOnce) {
  EXPECT_EQ(editDistance("", ""), 0u);
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(editDistance("ab", "ba"), 1u);
  EXPECT_EQ(editDistance("ring", "rnig"), 1u);
}

TEST(Text, NearestNameOnlyWhenNear) {
  const std::string_view names[] = {"ring", "tree", "direct"};
  EXPECT_EQ(nearestName("rnig", names), "ring");
  EXPECT_EQ(nearestName("dirct", names), "direct");
  EXPECT_EQ(nearestName("butterfly", names), "");
}

TEST(Text, HostnameIsNotEmpty) { EXPECT_FALSE(hostname().empty()); }

}  // namespace
}  // namespace omnes::base
