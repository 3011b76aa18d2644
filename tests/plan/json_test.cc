#include "plan/json.h"

#include <gtest/gtest.h>

#include <random>

#include "algorithms/registry.h"
#include "plan/text.h"
#include "plan/verifier.h"
#include "registry_checks.h"

namespace omnes::plan {
namespace {

using testing::Set;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

void expectRefused(const std::string& text, const std::string& expected) {
  const auto plans = fromJson(text);
  ASSERT_FALSE(plans.isOk()) << "should say: " << expected;
  EXPECT_EQ(plans.status().code(), base::Code::kInvalidArgument);
  EXPECT_NE(plans.status().message().find(expected), std::string_view::npos)
      << plans.status().message();
}

TEST(PlanJson, ReturnsEveryRegisteredPlan) {
  for (const algorithms::Algorithm& algorithm : algorithms::all()) {
    for (int32_t n : {1, 2, 3, 5, 8}) {
      for (const int32_t root : testing::rootsOf(algorithm.collective, n)) {
        if (!testing::supports(algorithm, n, root)) continue;
        const Set plans = testing::makePlans(algorithm, n, root);
        const auto read = fromJson(toJson(plans));
        ASSERT_TRUE(read.isOk()) << read.status().message();
        EXPECT_EQ(read.value(), plans) << testing::labelOf(algorithm, n, root);
      }
    }
  }
}

TEST(PlanJson, NamesThePlaceOfAnError) {
  const std::string good = toJson(testing::ring(3));
  expectRefused("", "not JSON");
  expectRefused("[1, 2]", "expected an object");
  expectRefused(good.substr(0, good.size() / 2), "not JSON");
  expectRefused(replaced(good, "omnes-plans", "other"), "format");
  expectRefused(replaced(good, "\"version\": 1", "\"version\": 2"), "from 1 to 1, found 2");
  expectRefused(replaced(good, "\"blocks\": 3", "\"blocks\": 3.5"),
                "plans[0].blocks: expected an integer");
  expectRefused(replaced(good, "\"blocks\": 3", "\"blocks\": 99999999999999999999"),
                "plans[0].blocks");
  expectRefused(replaced(good, "\"blocks\": 3", "\"blocks\": 18446744073709551615"),
                "plans[0].blocks");
  expectRefused(replaced(good, "\"blocks\": 3", "\"blocks\": 3, \"more\": 1"),
                "plans[0]: unknown \"more\"");
  expectRefused(replaced(good, "\"blocks\": 3", "\"blocks\": 3, \"blocks\": 3"),
                "\"blocks\" twice");
  expectRefused(replaced(good, "\"blocks\": 3,", ""), "\"blocks\" is missing");
  expectRefused(replaced(good, "\"kind\": \"move\"", "\"kind\": \"jump\""),
                "plans[0].lanes[0][0].kind: \"jump\"");
  expectRefused(replaced(good, "\"stream\": 1", "\"stream\": 32"),
                "plans[0].lanes[0][0].sinks[0].stream");
  expectRefused(replaced(good, "\"stream\": 1", "\"stream\": 1, \"space\": \"input\""), "either");
  expectRefused(replaced(good, "\"start\": 2", "\"start\": \"2\""),
                "sources[0].start: expected an integer");
  expectRefused(std::string(1'000'000, '['), "nested too deep");
  expectRefused(std::string((32 << 20) + 1, ' '), "32 MiB");
}

// Whatever the text is: an error or a plan set, and verify() copes with every set.
TEST(PlanJson, SurvivesDamagedTexts) {
  const uint64_t seed = 20260801;
  std::mt19937_64 random(seed);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const std::string texts[] = {toJson(testing::ringAllGather(4)), toJson(testing::twoShot(2)),
                               toJson(testing::barrier(3))};
  int read = 0;
  int proven = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = texts[random() % 3];
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      constexpr std::string_view kBytes = "0123456789-\"{}[],:einput\\\xff";
      if (random() % 2 == 0)
        text[at] = kBytes[random() % kBytes.size()];
      else if (random() % 2 == 0)
        text.erase(at, random() % 20);
      else
        text.insert(at, 1, kBytes[random() % 11]);
      if (text.empty()) text = "x";
    }
    const auto plans = fromJson(text);
    if (!plans.isOk()) continue;
    ++read;
    if (verify(plans.value(), {}).isOk()) ++proven;
  }
  std::printf("%d of 6000 could be read, %d of these were proven\n", read, proven);
  EXPECT_GT(read, 100);
  EXPECT_LT(proven, read);
}

TEST(PlanText, IsOneLineAStep) {
  EXPECT_EQ(toText(testing::ringAllGather(4)[1]),
            "AllGather ring_loop: rank 1 of 4, 4 outer blocks, scratch 0 x 1, credits 2\n"
            "lane 0\n"
            "  0 delay 0: copy input[0] -> output[1], peer 2 stream 2\n"
            "  1 delay 0: loop 2\n"
            "    2 delay 0: copy peer 0 stream 2 -> output[0-i], peer 2 stream 2\n"
            "  3 delay 0: end\n"
            "  4 delay 0: copy peer 0 stream 2 -> output[2]\n");
  Ref groups = testing::slice(Space::kScratch, 1, 6);
  groups.run.group = 2;
  groups.run.jump = 4;
  EXPECT_EQ(toText(groups), "scratch[1:6 in groups of 2 at 4]");
  EXPECT_EQ(toText(testing::link(1, 0, Mark::kPartial, 3, 2)), "peers 1:3:2 stream 0 partial");
}

}  // namespace
}  // namespace omnes::plan
