#include "common/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/exit_code.h"
#include "common/sweep.h"

namespace omnes::perf {
namespace {

ParsedOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "all_reduce_perf");
  return parseOptions(static_cast<int>(arguments.size()), arguments.data(), "all_reduce_perf");
}

Options legal(const std::vector<const char*>& arguments) {
  const ParsedOptions parsed = parse(arguments);
  EXPECT_TRUE(parsed.options.has_value()) << parsed.text;
  return parsed.options.value_or(Options{});
}

TEST(Options, DefaultsAreThoseOfNcclTests) {
  const Options options = legal({});
  EXPECT_EQ(options.minBytes, 32u << 20);
  EXPECT_EQ(options.maxBytes, 32u << 20);
  EXPECT_EQ(options.iters, 20);
  EXPECT_EQ(options.warmupIters, 1);
  EXPECT_EQ(options.aggIters, 1);
  EXPECT_EQ(options.check, 1);
  EXPECT_EQ(options.average, 1);
  ASSERT_EQ(options.types.size(), 1u);
  EXPECT_STREQ(options.types[0].name, "float");
  EXPECT_EQ(options.ops, std::vector<Op>{Op::kSum});
}

TEST(Options, ShortLongAndJoinedFormsAgree) {
  for (const auto& arguments :
       std::vector<std::vector<const char*>>{{"-b", "1k", "-e", "2k"},
                                             {"--minbytes", "1k", "--maxbytes", "2k"},
                                             {"--minbytes=1k", "--maxbytes=2k"},
                                             {"-b1k", "-e2k"}}) {
    const Options options = legal(arguments);
    EXPECT_EQ(options.minBytes, 1024u);
    EXPECT_EQ(options.maxBytes, 2048u);
  }
}

TEST(Options, TheLastOneCounts) { EXPECT_EQ(legal({"-n", "5", "-n", "7"}).iters, 7); }

TEST(Options, GpuOptionsPassAtTheirDefault) {
  legal({"-g", "1", "-y", "0", "-G", "0", "-x", "-1", "-D", "0", "-V", "16", "-R", "0"});
}

struct Refusal {
  std::vector<const char*> arguments;
  std::vector<const char*> named;  // what the message must hold
};

TEST(Options, RefusalsNameOptionAndValue) {
  const std::vector<Refusal> table = {
      {{"-b", "1.5X"}, {"-b (--minbytes)", "'1.5X'", "1KiB"}},
      {{"-e", "-5"}, {"-e (--maxbytes)", "'-5'"}},
      {{"-i", ""}, {"-i (--stepbytes)", "''"}},
      {{"--maxbytes=2MM"}, {"-e (--maxbytes)", "'2MM'"}},
      {{"-b", "64M", "-e", "32M"}, {"-b", "67108864", "-e", "33554432"}},
      {{"-b", "64M"}, {"-b", "-e", "33554432"}},
      {{"-b", "1", "-e", "2", "-i", "0"}, {"-i (--stepbytes)"}},
      {{"-f", "1.5"}, {"-f (--stepfactor)", "'1.5'"}},
      {{"-g", "2"}, {"-g (--ngpus)", "'2'", "-t"}},
      {{"-y", "1"}, {"-y (--stream_null)", "GPU"}},
      {{"-G", "1"}, {"-G (--cudagraph)", "GPU"}},
      {{"-x", "0"}, {"-x (--cta_policy)", "GPU"}},
      {{"-D", "1"}, {"-D (--device_implementation)", "GPU"}},
      {{"-V", "8"}, {"-V (--device_cta_count)", "GPU"}},
      {{"-R", "1"}, {"-R (--local_register)"}},
      {{"-z", "4"}, {"-z (--blocking)", "'4'", "from 0 to 3"}},
      {{"-o", "plus"}, {"-o (--op)", "'plus'", "mulsum"}},
      {{"-o", "band"}, {"-o (--op)", "band", "integer"}},
      {{"-d", "fp4"}, {"-d (--datatype)", "'fp4'", "bfloat16"}},
      {{"-J", "out.txt"}, {"-J (--output_file)", "'out.txt'", ".json"}},
      {{"-K", "20"}, {"-K (--per_iter_skip)", "20"}},
      {{"-n", "0"}, {"-n (--iters)", "'0'"}},
      {{"--frehs"}, {"--frehs"}},
      {{"-b"}, {"minbytes"}},
      {{"8"}, {"8"}},
  };
  for (const Refusal& refusal : table) {
    const ParsedOptions parsed = parse(refusal.arguments);
    ASSERT_FALSE(parsed.options.has_value()) << refusal.arguments[0];
    EXPECT_EQ(parsed.exitCode, kExitInvalid);
    for (const char* part : refusal.named) {
      EXPECT_NE(parsed.text.find(part), std::string::npos) << part << " in " << parsed.text;
    }
  }
}

TEST(Options, HelpListsEveryOption) {
  const ParsedOptions parsed = parse({"-h"});
  EXPECT_FALSE(parsed.options.has_value());
  EXPECT_EQ(parsed.exitCode, kExitOk);
  for (const char* name : {"--minbytes", "--per_iter_timing", "--fresh", "--min_bw", "--help"}) {
    EXPECT_NE(parsed.text.find(name), std::string::npos) << name;
  }
}

TEST(Options, AllMeansEveryDefinedPair) {
  const Options options = legal({"-d", "all", "-o", "all"});
  EXPECT_EQ(options.types.size(), 14u);
  EXPECT_EQ(options.ops.size(), 9u);
  int pairs = 0;
  for (const TypeInfo& type : options.types) {
    for (const Op op : options.ops) pairs += isDefined(op, type) ? 1 : 0;
  }
  EXPECT_EQ(pairs, 8 * 9 + 6 * 6);
}

TEST(Sweep, StepKeepsItsUnit) {  // "-i 2M" was once read as 2 bytes elsewhere
  const auto sizes = sweepSizes(legal({"-b", "64M", "-e", "70M", "-i", "2M"}));
  EXPECT_EQ(sizes, (std::vector<uint64_t>{64u << 20, 66u << 20, 68u << 20, 70u << 20}));
}

TEST(Sweep, FactorAndEdges) {
  using Sizes = std::vector<uint64_t>;
  EXPECT_EQ(sweepSizes(legal({"-b", "8", "-e", "128", "-f", "4"})), (Sizes{8, 32, 128}));
  EXPECT_EQ(sweepSizes(legal({"-b", "8", "-e", "127", "-f", "4"})), (Sizes{8, 32}));
  EXPECT_EQ(sweepSizes(legal({"-b", "0", "-e", "4", "-f", "2"})), (Sizes{0, 1, 2, 4}));
  EXPECT_EQ(sweepSizes(legal({"-b", "7", "-e", "7", "-i", "0"})), (Sizes{7}));
  EXPECT_EQ(sweepSizes(legal({"-b", "1", "-e", "1M", "-f", "3"})).size(), 13u);
}

TEST(Sweep, NeverWrapsAround) {
  Options options;
  options.minBytes = uint64_t{1} << 62;
  options.maxBytes = ~uint64_t{0};
  options.stepFactor = 3;
  EXPECT_EQ(sweepSizes(options).size(), 2u);
  options.stepFactor = 1;
  options.stepBytes = uint64_t{1} << 63;
  EXPECT_EQ(sweepSizes(options).size(), 2u);
}

class FakeSystem : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "omnes-perf-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(FakeSystem, MemoryIsTheSmallestOfSystemAndGroups) {
  write("/proc/meminfo", "MemTotal: 4000 kB\nMemAvailable:    2000 kB\n");
  EXPECT_EQ(availableMemoryUnder(root_), 2000u * 1024);
  write("/proc/self/cgroup", "0::/job/step\n");
  write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/job/memory.max", "1000000\n");
  write("/sys/fs/cgroup/job/memory.current", "400000\n");
  EXPECT_EQ(availableMemoryUnder(root_), 600000u);
  write("/sys/fs/cgroup/job/memory.current", "1400000\n");
  EXPECT_EQ(availableMemoryUnder(root_), 0u);
}

TEST_F(FakeSystem, OldControlGroupsCountToo) {
  write("/proc/meminfo", "MemAvailable: 2000 kB\n");
  write("/proc/self/cgroup", "5:cpu:/\n4:memory,hugetlb:/box\n");
  write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "500000\n");
  write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(availableMemoryUnder(root_), 400000u);
}

TEST(Memory, BuffersOfAllRanksFit) {
  const uint64_t available = 23ull << 30;
  const uint64_t size = largestSizeFor(available, 8, 2);
  EXPECT_LT(size * 8 * 2, available);
  EXPECT_GT(size * 8 * 2, available / 10 * 8);
  EXPECT_EQ(largestSizeFor(1000, 8, 2), 0u);
}

}  // namespace
}  // namespace omnes::perf
