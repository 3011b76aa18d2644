#include "common/number.h"

#include <gtest/gtest.h>

namespace omnes::perf {
namespace {

struct Legal {
  const char* text;
  uint64_t bytes;
};

class ParseBytesLegal : public testing::TestWithParam<Legal> {};

TEST_P(ParseBytesLegal, GivesTheExactValue) {
  std::string problem;
  const auto bytes = parseBytes(GetParam().text, &problem);
  ASSERT_TRUE(bytes.has_value()) << GetParam().text << ": " << problem;
  EXPECT_EQ(*bytes, GetParam().bytes) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(Table, ParseBytesLegal,
                         testing::Values(Legal{"0", 0}, Legal{"1", 1}, Legal{"8B", 8},
                                         Legal{"1k", 1024}, Legal{"1K", 1024}, Legal{"1KiB", 1024},
                                         Legal{"1kib", 1024}, Legal{"2M", 2u << 20},
                                         Legal{"64M", 64u << 20}, Legal{"0.5G", 1u << 29},
                                         Legal{"1.5K", 1536}, Legal{"1T", uint64_t{1} << 40},
                                         Legal{"64G", 64ull << 30}, Legal{"007", 7},
                                         Legal{"9223372036854775807", 9223372036854775807u},
                                         Legal{"0.0009765625K", 1}));

class ParseBytesRefused : public testing::TestWithParam<const char*> {};

TEST_P(ParseBytesRefused, SaysWhatIsLegal) {
  std::string problem;
  EXPECT_FALSE(parseBytes(GetParam(), &problem).has_value()) << GetParam();
  EXPECT_NE(problem.find("1KiB"), std::string::npos) << problem;
}

INSTANTIATE_TEST_SUITE_P(Table, ParseBytesRefused,
                         testing::Values("", " ", "1.5X", "-5", "+5", "2MM", "2MB", "M", ".5G",
                                         "1.", "1.G", "0x10", "1 K", " 1", "1e6", "0.3K", "1,5K",
                                         "9223372036854775808", "99999999999999999999", "8388608T",
                                         "1.0000000000000000001K", "nan", "1Ki", "1iB"));

TEST(ParseInteger, TakesTheWholeTextOrNothing) {
  std::string problem;
  EXPECT_EQ(parseInteger("-1", -1, 9, &problem), -1);
  for (const char* text : {"", "2x", "10", "-2", "1.0", " 1", "99999999999999999999"}) {
    problem.clear();
    EXPECT_FALSE(parseInteger(text, -1, 9, &problem).has_value()) << text;
    EXPECT_NE(problem.find("from -1 to 9"), std::string::npos) << problem;
  }
}

TEST(ParseReal, RefusesWhatIsNoNumber) {
  std::string problem;
  EXPECT_EQ(parseReal("1.5", &problem), 1.5);
  for (const char* text : {"", "-1", "inf", "nan", "1.5GB"}) {
    EXPECT_FALSE(parseReal(text, &problem).has_value()) << text;
  }
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(formatBytes(512), "512 B");
  EXPECT_EQ(formatBytes(1536), "1.5 KiB");
  EXPECT_EQ(formatBytes(23ull << 30), "23.0 GiB");
}

}  // namespace
}  // namespace omnes::perf
