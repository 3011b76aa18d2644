// Conversions and copies.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernel_test_util.h"
#include "oracle.h"

namespace omnes::kernels::test {
namespace {

uint64_t convertOne(DataType type, float value) {
  uint64_t code = 0;
  fromFloat32(type, &value, &code, 1);
  return code;
}

TEST(ConvertTest, EveryCodeOfTheSmallFloatsAndWhatLiesBetween) {
  for (DataType type : base::kAllDataTypes) {
    if (!base::isFloat(type) || base::sizeOf(type) > 2) continue;
    const uint64_t codes = uint64_t{1} << (8 * base::sizeOf(type));
    for (uint64_t code = 0; code < codes; ++code) {
      float value;
      toFloat32(type, &code, &value, 1);
      const double expected = decodeFloat(type, code);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value));
        continue;
      }
      ASSERT_EQ(double{value}, expected);
      ASSERT_EQ(std::signbit(value), std::signbit(expected));
      ASSERT_EQ(convertOne(type, value), code);
      // The middle to the next code, and its neighbours.
      const double next = decodeFloat(type, code + 1);
      if (!std::isfinite(next) || !std::isfinite(expected) || code + 1 == codes / 2) continue;
      const float middle = static_cast<float>((expected + next) / 2);
      for (float probe :
           {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 2 * middle)}) {
        ASSERT_EQ(convertOne(type, probe), encodeFloat(type, probe))
            << base::nameOf(type) << " " << probe;
      }
    }
    Random random(3);
    for (int i = 0; i < 200000; ++i) {
      const uint32_t bits = static_cast<uint32_t>(random.next());
      float value;
      std::memcpy(&value, &bits, 4);
      ASSERT_EQ(convertOne(type, value), encodeFloat(type, value))
          << base::nameOf(type) << " " << value;
    }
  }
}

TEST(ConvertTest, IntegersRoundToEvenAndSaturate) {
  int8_t small = 0;
  for (auto [value, expected] : {std::pair{2.5f, 2},
                                 {3.5f, 4},
                                 {-2.5f, -2},
                                 {127.4f, 127},
                                 {127.5f, 127},
                                 {1e30f, 127},
                                 {-128.4f, -128},
                                 {-1e30f, -128},
                                 {NAN, 0}}) {
    fromFloat32(DataType::kInt8, &value, &small, 1);
    EXPECT_EQ(small, expected) << value;
  }
  uint64_t large = 0;
  const float huge = 1e30f;
  const float negative = -3;
  fromFloat32(DataType::kUint64, &huge, &large, 1);
  EXPECT_EQ(large, std::numeric_limits<uint64_t>::max());
  fromFloat32(DataType::kUint64, &negative, &large, 1);
  EXPECT_EQ(large, 0u);
}

TEST(CopyTest, EveryLengthAndOffset) {
  std::vector<uint8_t> source(1500);
  Random(1).fill(source.data(), source.size());
  forEachTarget([&](const char* name) {
    SCOPED_TRACE(name);
    for (bool nonTemporal : {false, true}) {
      for (size_t bytes = 0; bytes <= 1200; bytes += bytes < 330 ? 1 : 61) {
        for (size_t offset = 0; offset < 64; ++offset) {
          alignas(64) static uint8_t to[1500];
          std::memset(to, 0x5a, sizeof(to));
          const uint8_t* from = source.data() + (offset * 7) % 64;
          copy(to + 64 + offset, from, bytes, nonTemporal);
          ASSERT_EQ(std::memcmp(to + 64 + offset, from, bytes), 0);
          for (size_t i = 0; i < 64 + offset; ++i) ASSERT_EQ(to[i], 0x5a);
          for (size_t i = 64 + offset + bytes; i < sizeof(to); ++i) ASSERT_EQ(to[i], 0x5a);
        }
      }
    }
  });
}

TEST(CopyTest, NothingIsTouchedPastTheEndOfAPage) {
  EndOfPage from(4096);
  EndOfPage to(4096);
  for (size_t bytes = 0; bytes <= 2048; ++bytes) {
    copy(to.ending(bytes), from.ending(bytes), bytes, true);
    copy(to.begin(), from.begin(), bytes, true);
  }
}

}  // namespace
}  // namespace omnes::kernels::test
