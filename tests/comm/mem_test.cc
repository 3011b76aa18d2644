// Every algorithm over `mem`: exact results for random shapes, under random delays and orders.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "comm/mem_world.h"

namespace omnes::tests {
namespace {

using base::DataType;
using base::ReduceOp;
using plan::Collective;

struct Case {
  int32_t nranks;
  core::Shape shape;
  bool inPlace;
};

// Reference for integers: wraps as int64, narrow types wrap on the cast.
template <typename T>
struct Buffers {
  std::vector<std::vector<T>> input, send, recv;
};

template <typename T>
std::string runCase(MemWorld& world, const algorithms::Algorithm& algorithm, const Case& c,
                    std::mt19937_64& random) {
  const int32_t n = c.nranks;
  const auto bytes = core::bufferBytes(c.shape, n);
  const size_t sendCount = bytes.send / sizeof(T), recvCount = bytes.recv / sizeof(T);
  Buffers<T> b;
  std::vector<core::CallBuffers> calls;
  b.input.resize(n), b.send.resize(n), b.recv.resize(n);
  for (int32_t r = 0; r < n; ++r) {
    b.input[r].resize(sendCount);
    for (T& x : b.input[r]) x = static_cast<T>(random());
    b.send[r] = b.input[r];
    b.recv[r].assign(std::max(sendCount, recvCount), static_cast<T>(0x5a));
    const size_t offset = c.shape.collective == Collective::kAllGather       ? r * sendCount
                          : c.shape.collective == Collective::kReduceScatter ? r * recvCount
                                                                             : 0;
    if (!c.inPlace) {
      calls.push_back({b.send[r].data(), b.recv[r].data()});
    } else if (c.shape.collective == Collective::kReduceScatter) {
      calls.push_back({b.send[r].data(), b.send[r].data() + offset});
    } else {
      std::copy(b.input[r].begin(), b.input[r].end(), b.recv[r].begin() + offset);
      calls.push_back({b.recv[r].data() + offset, b.recv[r].data()});
    }
  }
  std::string error = world.run(algorithm, c.shape, calls);
  if (!error.empty()) return error;
  for (int32_t r = 0; r < n; ++r) {
    const T* out = static_cast<const T*>(calls[r].recv);
    for (size_t i = 0; i < recvCount; ++i) {
      T expected = 0;
      if (c.shape.collective == Collective::kAllGather) {
        expected = b.input[i / sendCount][i % sendCount];
      } else {
        const size_t at = c.shape.collective == Collective::kReduceScatter ? r * recvCount + i : i;
        for (int32_t s = 0; s < n; ++s) expected = static_cast<T>(expected + b.input[s][at]);
      }
      if (out[i] != expected)
        return "rank " + std::to_string(r) + " element " + std::to_string(i) + " of " +
               std::to_string(recvCount) + " is wrong";
    }
    if (!c.inPlace && b.send[r] != b.input[r]) return "the send buffer was changed";
  }
  return "";
}

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
      Case c;
      c.nranks = n;
      const uint64_t limits[] = {1, 20, 300, 3000};
      const bool wide = random() % 2;
      c.shape = {algorithm.collective, random() % limits[random() % 4],
                 wide ? DataType::kUint32 : DataType::kUint8, ReduceOp::kSum};
      if (algorithm.collective == Collective::kBarrier) c.shape.count = 0;
      c.inPlace = random() % 2;
      const std::string error = wide ? runCase<uint32_t>(world, algorithm, c, random)
                                     : runCase<uint8_t>(world, algorithm, c, random);
      if (error.find("does not fit") != std::string::npos) continue;
      ASSERT_EQ(error, "") << "seed " << seed << " n " << n << " "
                           << plan::nameOf(algorithm.collective) << " " << algorithm.name
                           << " count " << c.shape.count << " in place " << c.inPlace
                           << "; replay with OMNES_TEST_SEED=" << seed << " OMNES_TEST_SEEDS=1";
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
