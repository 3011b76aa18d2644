// Every algorithm over `tcp`: exact results, with one socket and with several, and with sockets
// that take less than a chunk.
#include <gtest/gtest.h>

#include "comm/exact_case.h"
#include "comm/tcp_world.h"

namespace omnes::tests {
namespace {

using base::DataType;
using base::ReduceOp;
using plan::Collective;

#ifdef OMNES_LIGHT_TEST
constexpr uint64_t kCounts[] = {1, 1003};
#else
constexpr uint64_t kCounts[] = {0, 1, 7, 1003, 20011};
#endif

template <typename T>
void runAll(const TcpWorldOptions& options, DataType type) {
  std::mt19937_64 random(static_cast<uint64_t>(options.nranks) * 100 + static_cast<int>(type));
  // One world for all calls: links and sequence numbers run on, and no barrier stands in between.
  TcpWorld world(options);
  for (const algorithms::Algorithm& algorithm : algorithms::all())
    for (const uint64_t count : kCounts)
      for (const bool inPlace : {false, true}) {
        ExactCase c{options.nranks, {algorithm.collective, count, type, ReduceOp::kSum}, inPlace};
        if (plan::hasRoot(algorithm.collective))
          c.shape.root = static_cast<int32_t>(random() % static_cast<uint64_t>(options.nranks));
        if (!algorithm.supports({.rank = 0, .nranks = options.nranks, .root = c.shape.root}))
          continue;
        if (algorithm.collective == Collective::kBarrier) c.shape.count = 0;
        const std::string error = runExactCase<T>(world, algorithm, c, random);
        if (error.find("does not fit") != std::string::npos) continue;
        ASSERT_EQ(error, "") << plan::nameOf(algorithm.collective) << " " << algorithm.name
                             << " count " << count << " in place " << inPlace;
      }
}

class TcpCollectives : public ::testing::TestWithParam<int32_t> {};

TEST_P(TcpCollectives, AreExact) {
  const int32_t n = GetParam();
  runAll<uint32_t>({.nranks = n, .slotBytes = 4096}, DataType::kUint32);
  runAll<uint8_t>({.nranks = n, .slotBytes = 1024, .dataSockets = 3}, DataType::kUint8);
  runAll<int64_t>({.nranks = n, .slotBytes = 64 << 10, .dataSockets = 2}, DataType::kInt64);
}

TEST_P(TcpCollectives, AreExactOverSocketsThatTakeLessThanAChunk) {
  const SocketKind tiny{.family = AF_UNIX, .sendBytes = 4096};
  const SocketKind small{.family = AF_INET, .sendBytes = 8192, .receiveBytes = 8192};
  const int32_t n = GetParam();
  runAll<int16_t>({.nranks = n, .slotBytes = 32 << 10, .sockets = tiny}, DataType::kInt16);
  runAll<uint64_t>({.nranks = n, .slotBytes = 16 << 10, .dataSockets = 3, .sockets = small},
                   DataType::kUint64);
}

INSTANTIATE_TEST_SUITE_P(Ranks, TcpCollectives, ::testing::Values(2, 3, 5, 8));

// Those who need a rank that has died are told which one it was.
TEST(TcpCollectives, ADeadRankIsNamed) {
  for (const algorithms::Algorithm& algorithm : algorithms::all()) {
    if (algorithm.collective != Collective::kAllReduce) continue;
    for (int32_t victim = 0; victim < 3; ++victim) {
      SCOPED_TRACE(std::string(algorithm.name) + " victim " + std::to_string(victim));
      TcpWorld world({.nranks = 3, .slotBytes = 4096});
      std::vector<std::vector<int32_t>> send(3, std::vector<int32_t>(500, 1)), recv = send;
      std::vector<core::CallBuffers> buffers;
      for (int32_t r = 0; r < 3; ++r) buffers.push_back({send[r].data(), recv[r].data()});
      const core::Shape shape{Collective::kAllReduce, 500, DataType::kInt32, ReduceOp::kSum};
      ASSERT_EQ(world.run(algorithm, shape, buffers), "");
      world.kill(victim);
      // Whoever needs it fails, and with that ends for those who need him.
      const std::string error = world.run(algorithm, shape, buffers);
      EXPECT_NE(error.find("rank " + std::to_string(victim) + " has closed"), std::string::npos)
          << error;
      for (int32_t r = 0; r < 3; ++r) {
        if (r == victim) continue;
        EXPECT_LT(world.operation(r).stepsDone(), world.operation(r).stepsTotal());
      }
    }
  }
}

}  // namespace
}  // namespace omnes::tests
