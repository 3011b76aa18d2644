#include "base/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <string>

#include "base/random.h"

namespace omnes::base {
namespace {

TEST(Hash, ValuesAreFixedSinceTheyTravel) {
  static_assert(mix64(0) == 0);
  static_assert(mix64(1) == 0x5692161d100b05e5u);
  static_assert(Hasher().value() == 0xe220a8397b1dcdafu);
  static_assert(Hasher().add(1).add(2).value() != Hasher().add(2).add(1).value());
}

TEST(Hash, EachInputBitFlipsHalfTheOutput) {
  for (int bit = 0; bit < 64; ++bit) {
    int flipped = 0;
    constexpr int kSamples = 256;
    for (uint64_t i = 0; i < kSamples; ++i) {
      flipped +=
          std::popcount(Hasher().add(i).value() ^ Hasher().add(i ^ (uint64_t{1} << bit)).value());
    }
    EXPECT_NEAR(static_cast<double>(flipped) / kSamples, 32.0, 2.0) << bit;
  }
}

TEST(Hash, SmallFieldsDoNotCollide) {
  std::set<uint64_t> seen;
  for (uint64_t a = 0; a < 20; ++a) {
    for (uint64_t b = 0; b < 20; ++b) {
      for (uint64_t c = 0; c < 20; ++c) seen.insert(Hasher().add(a).add(b).add(c).value());
    }
  }
  EXPECT_EQ(seen.size(), 8000u);
}

TEST(Hash, TextIncludesItsLength) {
  const std::string zeros(9, '\0');
  std::set<uint64_t> seen;
  for (size_t n = 0; n <= zeros.size(); ++n)
    seen.insert(Hasher().add(std::string_view(zeros).substr(0, n)).value());
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_NE(Hasher().add("ab").add("c").value(), Hasher().add("a").add("bc").value());
}

TEST(Random, BytesDiffer) {
  std::array<std::byte, 300> one{}, two{};
  ASSERT_TRUE(randomBytes(one).isOk());
  ASSERT_TRUE(randomBytes(two).isOk());
  EXPECT_NE(one, two);
  EXPECT_TRUE(randomBytes({}).isOk());
}

}  // namespace
}  // namespace omnes::base
