// A rank that dies in the middle of a call, on the virtual clock: no survivor of a synchronising
// collective believes that the call has succeeded, and those who wait for the dead rank itself are
// told its number.
#include <gtest/gtest.h>

#include <random>

#include "comm/mem_world.h"

namespace omnes::tests {
namespace {

using plan::Collective;

// Those that give every rank something of every other: not with a root; and an all-gather's ring
// may pass on what the dead have sent.
std::vector<const algorithms::Algorithm*> synchronising(int32_t nranks) {
  std::vector<const algorithms::Algorithm*> out;
  for (const algorithms::Algorithm& algorithm : algorithms::all())
    if (algorithm.collective != Collective::kAllGather && !plan::hasRoot(algorithm.collective) &&
        algorithm.supports({.rank = 0, .nranks = nranks}))
      out.push_back(&algorithm);
  return out;
}

TEST(Mem, NobodyFinishesWithoutAKilledRank) {
  int told = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const int32_t n = 2 + static_cast<int32_t>(random() % 6);
    const auto all = synchronising(n);
    const algorithms::Algorithm& algorithm = *all[random() % all.size()];
    const int32_t victim = static_cast<int32_t>(random() % n);
    SCOPED_TRACE("seed " + std::to_string(seed) + " n " + std::to_string(n) + " " +
                 std::string(algorithm.name) + " victim " + std::to_string(victim));
    MemWorld world({.nranks = n, .seed = seed, .slotBytes = 256});
    const core::Shape shape{algorithm.collective,
                            algorithm.collective == Collective::kBarrier ? 0u : 500u,
                            base::DataType::kInt32, base::ReduceOp::kSum};
    std::vector<std::vector<int32_t>> send(n, std::vector<int32_t>(500 * n, 1)), recv = send;
    std::vector<core::CallBuffers> buffers;
    for (int32_t r = 0; r < n; ++r) buffers.push_back({send[r].data(), recv[r].data()});
    // Dead before it has taken its first step: everybody's result needs it.
    world.hub().kill(victim);
    const std::string error = world.run(algorithm, shape, buffers);
    ASSERT_NE(error, "");
    for (int32_t r = 0; r < n; ++r) {
      if (r == victim) continue;
      ASSERT_LT(world.operation(r).stepsDone(), world.operation(r).stepsTotal()) << "rank " << r;
    }
    told += error.find("rank " + std::to_string(victim) + " is gone") != std::string::npos;
  }
  EXPECT_GT(told, 250) << "somebody always waits for the dead rank itself";
}

TEST(Mem, MismatchIsSeenBeforeAnythingIsWritten) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const int32_t n = 2 + static_cast<int32_t>(random() % 5);
    const char* names[] = {"direct", "oneshot"};
    const algorithms::Algorithm* algorithm =
        algorithms::find(Collective::kAllReduce, names[random() % 2]);
    MemWorld world({.nranks = n, .seed = seed, .slotBytes = 4096});
    const core::Shape shape{Collective::kAllReduce, 500, base::DataType::kInt32,
                            base::ReduceOp::kSum};
    std::vector<std::vector<int32_t>> send(n, std::vector<int32_t>(500, 1)),
        recv(n, std::vector<int32_t>(500, -7));
    std::vector<core::CallBuffers> buffers;
    for (int32_t r = 0; r < n; ++r) buffers.push_back({send[r].data(), recv[r].data()});
    std::vector<uint64_t> fingerprints(n, 42);
    const int32_t odd = static_cast<int32_t>(random() % n);
    fingerprints[odd] = 43;
    const std::string error = world.run(*algorithm, shape, buffers, 0, fingerprints);
    ASSERT_NE(error.find("mismatch"), std::string::npos) << "seed " << seed << ": " << error;
    for (int32_t r = 0; r < n; ++r)
      ASSERT_EQ(recv[r], std::vector<int32_t>(500, -7)) << "seed " << seed << " rank " << r;
  }
}

}  // namespace
}  // namespace omnes::tests
