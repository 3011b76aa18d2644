// The bits of fixed pseudo-random reductions, one hash a pair, against golden_bits.txt: they must
// be the same on every machine, compiler and instruction set. Arguments: the file, and --print to
// write what it should hold to stdout.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "kernel_test_util.h"

namespace omnes::kernels::test {
namespace {

std::string goldenPath;

uint64_t hashInto(uint64_t hash, const std::vector<uint8_t>& bytes) {
  for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3ull;  // FNV-1a
  return hash;
}

// Inputs are integers of the generator, so no floating-point code has a part in them.
uint64_t hashOf(const Pair& pair, ReduceFunction function) {
  Random random(static_cast<uint64_t>(pair.type) * 1000 + static_cast<uint64_t>(pair.op));
  uint64_t hash = 0xcbf29ce484222325ull;
  for (size_t sourceCount : {1, 2, 3, 5, 8, 11}) {
    const size_t count = 500 + sourceCount;
    Reduction reduction;
    reduction.type = pair.type;
    reduction.op = pair.op;
    reduction.nranks = static_cast<uint32_t>(sourceCount);
    reduction.scalarBits = random.next();
    std::vector<std::vector<uint8_t>> inputs(sourceCount);
    std::vector<Source> sources;
    for (size_t s = 0; s < sourceCount; ++s) {
      const Mark mark = s == 2 ? Mark::kPartial : Mark::kInput;
      inputs[s].resize(count * widthOf(pair, mark));
      random.fill(inputs[s].data(), inputs[s].size());
      sources.push_back({inputs[s].data(), mark});
    }
    std::vector<uint8_t> result(count * base::sizeOf(pair.type));
    std::vector<uint8_t> partial(count * wireSize(pair));
    const Sink sinks[] = {{result.data(), Mark::kInput, false},
                          {partial.data(), Mark::kPartial, false}};
    function(reduction, sources.data(), sources.size(), sinks, 2, count);
    hash = hashInto(hashInto(hash, result), partial);
  }
  return hash;
}

TEST(GoldenTest, BitsAreThoseOfTheFile) {
  std::map<std::string, uint64_t> golden;
  std::ifstream file(goldenPath);
  ASSERT_TRUE(file.good()) << "cannot read " << goldenPath;
  std::string name;
  std::string value;
  while (file >> name >> value) golden[name] = std::stoull(value, nullptr, 16);
  ASSERT_EQ(golden.size(), allPairs().size());
  for (const Pair& pair : allPairs()) {
    ASSERT_EQ(golden.count(nameOf(pair)), 1u) << nameOf(pair) << " is not in " << goldenPath;
    EXPECT_EQ(hashOf(pair, scalarReduce(pair.type, pair.op)), golden[nameOf(pair)])
        << nameOf(pair) << " scalar";
  }
  forEachTarget([&](const char* target) {
    for (const Pair& pair : allPairs()) {
      EXPECT_EQ(hashOf(pair, selectReduce(pair.type, pair.op)), golden[nameOf(pair)])
          << nameOf(pair) << " " << target;
    }
  });
}

}  // namespace

int runGolden(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string(argv[1]) == "--print") {
    for (const Pair& pair : allPairs()) {
      std::printf("%-16s %016llx\n", nameOf(pair).c_str(),
                  static_cast<unsigned long long>(hashOf(pair, scalarReduce(pair.type, pair.op))));
    }
    return 0;
  }
  goldenPath = argc > 1 ? argv[1] : "golden_bits.txt";
  return RUN_ALL_TESTS();
}

}  // namespace omnes::kernels::test

int main(int argc, char** argv) { return omnes::kernels::test::runGolden(argc, argv); }
