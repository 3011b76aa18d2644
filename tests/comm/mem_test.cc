// Every algorithm over `mem`: exact results for random shapes, under random delays and orders.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "comm/exact_case.h"
#include "comm/mem_world.h"

namespace omnes::tests {
namespace {

using base::DataType;
using base::ReduceOp;
using plan::Collective;

uint64_t seedFromEnvironment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 0);
}

// OMNES_TEST_SEEDS runs that many seeds from OMNES_TEST_SEED on; a failure prints the one to
// replay.
TEST(Mem, EveryAlgorithmIsExactUnderRandomDelays) {
  const uint64_t first = seedFromEnvironment("OMNES_TEST_SEED", 1);
  const uint64_t seeds = seedFromEnvironment("OMNES_TEST_SEEDS", 1000);
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    std::mt19937_64 random(seed);
    const int32_t n = 1 + static_cast<int32_t>(random() % 13);
    MemWorld world({.nranks = n,
                    .seed = seed,
                    .credits = static_cast<uint32_t>(2 + random() % 3),
                    .slotBytes = size_t{64} << (random() % 7),
                    .maxDelayNs = static_cast<int64_t>(random() % 3000)});
    // Several calls in a row without any barrier: links and sequence numbers run on.
    for (int call = 0; call < 3; ++call) {
      const auto all = algorithms::all();
      const algorithms::Algorithm& algorithm = all[random() % all.size()];
      ExactCase c;
      c.nranks = n;
      const uint64_t limits[] = {1, 20, 300, 3000};
      const bool wide = random() % 2;
      c.shape = {algorithm.collective, random() % limits[random() % 4],
                 wide ? DataType::kUint32 : DataType::kUint8, ReduceOp::kSum};
      if (plan::hasRoot(algorithm.collective)) c.shape.root = static_cast<int32_t>(random() % n);
      if (!algorithm.supports({.rank = 0, .nranks = n, .root = c.shape.root})) continue;
      if (algorithm.collective == Collective::kBarrier) c.shape.count = 0;
      c.inPlace = random() % 2;
      const std::string error = wide ? runExactCase<uint32_t>(world, algorithm, c, random)
                                     : runExactCase<uint8_t>(world, algorithm, c, random);
      if (error.find("does not fit") != std::string::npos) continue;
      ASSERT_EQ(error, "") << "seed " << seed << " n " << n << " "
                           << plan::nameOf(algorithm.collective) << " " << algorithm.name
                           << " root " << c.shape.root << " count " << c.shape.count << " in place "
                           << c.inPlace << "; replay with OMNES_TEST_SEED=" << seed
                           << " OMNES_TEST_SEEDS=1";
    }
  }
}

// What one seed gives for floats: the outputs of all ranks and the virtual time at the end.
struct FloatRun {
  std::vector<std::vector<float>> outputs;
  int64_t endNs = 0;
  std::string error;
};

FloatRun runFloats(uint64_t seed, const algorithms::Algorithm& algorithm, int32_t n,
                   uint64_t count) {
  std::mt19937_64 random(seed);
  MemWorld world({.nranks = n,
                  .seed = seed,
                  .credits = static_cast<uint32_t>(2 + seed % 3),
                  .slotBytes = size_t{256} << (seed % 5),
                  .maxDelayNs = static_cast<int64_t>(seed * 37 % 3000)});
  FloatRun out;
  out.outputs.resize(n);
  std::vector<std::vector<float>> inputs(n);
  std::vector<core::CallBuffers> calls;
  for (int32_t rank = 0; rank < n; ++rank) {
    for (uint64_t i = 0; i < count; ++i) {
      const double fraction = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
      inputs[rank].push_back(
          static_cast<float>(fraction * static_cast<double>(1 << (random() % 8))));
    }
    out.outputs[rank].assign(count, -1.0f);
    calls.push_back({inputs[rank].data(), out.outputs[rank].data()});
  }
  out.error = world.run(algorithm,
                        {Collective::kAllReduce, count, DataType::kFloat32, ReduceOp::kSum}, calls);
  out.endNs = world.hub().clock().now().sinceStart.count();
  return out;
}

bool sameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// C14: one set of bits on all ranks, whatever the order of arrival; and a seed replays to the
// nanosecond.
TEST(Mem, FloatsHaveTheSameBitsOnAllRanksAndReplay) {
  const uint64_t first = seedFromEnvironment("OMNES_TEST_SEED", 1);
  const uint64_t seeds = seedFromEnvironment("OMNES_TEST_SEEDS", 1000);
  std::vector<const algorithms::Algorithm*> all;
  for (const algorithms::Algorithm& algorithm : algorithms::all())
    if (algorithm.collective == Collective::kAllReduce) all.push_back(&algorithm);
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const algorithms::Algorithm& algorithm = *all[seed % all.size()];
    const int32_t n = std::vector<int32_t>{3, 5, 6, 7, 12}[seed / all.size() % 5];
    const uint64_t count = seed * 2654435761u % 900;
    const FloatRun run = runFloats(seed, algorithm, n, count);
    if (run.error.find("does not fit") != std::string::npos) continue;
    const std::string how = "seed " + std::to_string(seed) + " " + std::string(algorithm.name) +
                            " n " + std::to_string(n) + " count " + std::to_string(count);
    ASSERT_EQ(run.error, "") << how;
    for (int32_t rank = 1; rank < n; ++rank)
      ASSERT_TRUE(sameBits(run.outputs[rank], run.outputs[0])) << how << " rank " << rank;
    if (seed % 4 != 0) continue;
    const FloatRun again = runFloats(seed, algorithm, n, count);
    ASSERT_EQ(again.endNs, run.endNs) << how;
    for (int32_t rank = 0; rank < n; ++rank)
      ASSERT_TRUE(sameBits(again.outputs[rank], run.outputs[rank])) << how;
  }
}

}  // namespace
}  // namespace omnes::tests
