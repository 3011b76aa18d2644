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

}  // namespace
}  // namespace omnes::tests
