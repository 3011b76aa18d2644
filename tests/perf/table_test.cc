#include "common/table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "all_reduce.h"
#include "common/buffers.h"

namespace omnes::perf {
namespace {

Row exampleRow() {
  Row row;
  row.bytes = 67108864;
  row.count = 16777216;
  row.type = "bfloat16";
  row.op = "mulsum";
  row.outOfPlace = {7636.84, 8.787, 8.787, 0, {}};
  row.inPlace = Side{0.284, 0.0282, 0.0282, 12, {}};
  return row;
}

TEST(Bandwidth, Formulas) {
  EXPECT_DOUBLE_EQ(algorithmBandwidth(64u << 20, 1000), 67.108864);
  EXPECT_EQ(algorithmBandwidth(0, 1), 0);
  EXPECT_EQ(algorithmBandwidth(8, 0), 0);
  EXPECT_DOUBLE_EQ(kAllReduce.busFactor(1), 0);
  EXPECT_DOUBLE_EQ(kAllReduce.busFactor(2), 1);
  EXPECT_DOUBLE_EQ(kAllReduce.busFactor(8), 1.75);
}

TEST(Table, RowIsAsWideAsNcclTests) {
  const Options options;
  EXPECT_EQ(formatRow(exampleRow(), options),
            "    67108864      16777216  bfloat16  mulsum      -1"
            "   7636.8    8.79    8.79       0     0.28    0.03    0.03      12\n");
}

TEST(Table, UncheckedIsNotZero) {
  Row row = exampleRow();
  row.outOfPlace.wrong.reset();
  EXPECT_NE(formatRow(row, Options{}).find("     N/A"), std::string::npos);
}

TEST(Table, NoInPlaceIsNotZero) {
  Row row = exampleRow();
  row.inPlace.reset();
  EXPECT_EQ(formatRow(row, Options{}),
            "    67108864      16777216  bfloat16  mulsum      -1"
            "   7636.8    8.79    8.79       0      N/A     N/A     N/A     N/A\n");
}

TEST(Table, HeaderColumnsStandOverTheirValues) {
  for (const bool wide : {false, true}) {
    Options options;
    options.perIterTiming = options.reportTimestamps = wide;
    Row row = exampleRow();
    row.timestamp = "2026-01-31 13:05:00";
    row.outOfPlace.iterations = row.inPlace->iterations = iterationStats({1, 2, 3});
    std::istringstream header(formatHeader(options));
    std::string empty, captions, names;
    std::getline(header, empty);
    std::getline(header, captions);
    std::getline(header, names);
    EXPECT_EQ(names.size() + 1, formatRow(row, options).size());
    EXPECT_EQ(empty, "#");
    EXPECT_LT(captions.find("out-of-place"), captions.find("in-place"));
  }
}

TEST(Table, EveryHeaderLineIsAComment) {
  std::istringstream text(formatParameters(Options{}) + formatHeader(Options{}));
  for (std::string line; std::getline(text, line);) EXPECT_EQ(line.front(), '#');
}

TEST(Table, TimesKeepSevenColumns) {
  EXPECT_EQ(formatTime(0.284), "   0.28");
  EXPECT_EQ(formatTime(99.99), "  99.99");
  EXPECT_EQ(formatTime(99.999), "  100.0");
  EXPECT_EQ(formatTime(9999.4), " 9999.4");
  EXPECT_EQ(formatTime(9999.96), "  10000");
  EXPECT_EQ(formatTime(1234567), "1234567");
}

TEST(IterationStats, NearestRankPercentiles) {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);
  const IterationStats stats = iterationStats(times);
  EXPECT_EQ(stats.minUs, 1);
  EXPECT_EQ(stats.maxUs, 100);
  EXPECT_EQ(stats.p50Us, 50);
  EXPECT_EQ(stats.p95Us, 95);
  EXPECT_EQ(stats.p99Us, 99);
  EXPECT_DOUBLE_EQ(stats.averageUs, 50.5);
  EXPECT_EQ(stats.timesUs, times);
  EXPECT_EQ(iterationStats({4}).p99Us, 4);
  EXPECT_EQ(iterationStats({4}).variationPercent, 0);
}

TEST(GuardedBuffer, SeesOneByteOnEitherSide) {
  GuardedBuffer buffer;
  ASSERT_TRUE(buffer.open(1000, 3));
  buffer.arm(77);
  for (int i = 0; i < 77; ++i) buffer.data()[i] = 1;
  EXPECT_EQ(buffer.damagedBytes(), 0u);
  buffer.data()[77] ^= 1;
  buffer.data()[-1] ^= 1;
  EXPECT_EQ(buffer.damagedBytes(), 2u);
  buffer.arm(1000);
  EXPECT_EQ(buffer.damagedBytes(), 0u);
}

}  // namespace
}  // namespace omnes::perf
