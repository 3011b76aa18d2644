// Random patterns of grouped sends and receives, by seed: they end, in whatever order each rank
// calls them, and every byte arrives.
//
// A seed makes some rounds. In each a set of messages between the ranks, 0 B to 1 MiB, is drawn,
// all ranks knowing all; every rank calls its own in an order of its own (only the messages between
// two ranks keep theirs), in one or more nested groups, in streams or not, with collectives between
// them. OMNES_TEST_SEEDS says how many; OMNES_TEST_FIRST_SEED where.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

constexpr uint64_t kSeedsPerWorld = 10;
constexpr uint64_t kLayouts = 3;  // shared memory, network, both
constexpr uint64_t kSizes = 7;    // 2 to 8 ranks

struct PlannedMessage {
  int from = 0, to = 0;
  size_t bytes = 0;
  uint64_t key = 0;  // what is in it
};

struct Round {
  std::vector<PlannedMessage> messages;
  int collectives = 0;
};

size_t drawBytes(std::mt19937_64& random) {
  constexpr size_t kMost[] = {0, 1, 48, 300, 5000, 70000, 300000, 1 << 20};
  const size_t most = kMost[random() % std::size(kMost)];
  return most == 0 ? 0 : random() % (most + 1);
}

std::vector<Round> makeRounds(uint64_t seed, int nranks) {
  std::mt19937_64 random(seed);
  const auto rank = [&] { return static_cast<int>(random() % static_cast<unsigned>(nranks)); };
  std::vector<Round> out(1 + random() % 3);
  for (Round& round : out) {
    const size_t many = random() % (3u * static_cast<unsigned>(nranks)) + 1;
    for (size_t i = 0; i < many; ++i)
      round.messages.push_back({rank(), rank(), drawBytes(random), random()});
    round.collectives = static_cast<int>(random() % 3);
  }
  return out;
}

uint8_t byteAt(uint64_t key, size_t i) {
  const uint64_t x = (key ^ i) * 0x9e3779b97f4a7c15u;
  return static_cast<uint8_t>(x >> 56);
}

// One rank's calls of one round.
class Play {
 public:
  Play(const Round& round, int rank, int nranks, std::mt19937_64& random)
      : rank_(rank), nranks_(nranks), random_(random) {
    for (const PlannedMessage& message : round.messages) {
      if (message.from == rank) calls_.push_back({true, message, GuardedBuffer(message.bytes, 1)});
      if (message.to == rank) calls_.push_back({false, message, GuardedBuffer(message.bytes, 3)});
    }
    for (Call& call : calls_)
      if (call.isSend)
        for (size_t i = 0; i < call.message.bytes; ++i)
          call.buffer.data()[i] = byteAt(call.message.key, i);
    sums_.assign(static_cast<size_t>(round.collectives), rank + 1);
  }

  void call(omnesComm_t comm, omnesStream_t stream) {
    ASSERT_EQ(omnesGroupStart(), omnesSuccess);
    size_t collective = 0;
    for (const size_t at : order()) {
      const bool nests = random_() % 4 == 0;
      if (nests) {
        ASSERT_EQ(omnesGroupStart(), omnesSuccess);
      }
      if (collective < sums_.size() && random_() % 2 == 0) sum(collective++, comm, stream);
      Call& call = calls_[at];
      uint8_t* data = call.message.bytes == 0 ? nullptr : call.buffer.data();
      const omnesResult_t result =
          call.isSend
              ? omnesSend(data, call.message.bytes, omnesUint8, call.message.to, comm, stream)
              : omnesRecv(data, call.message.bytes, omnesUint8, call.message.from, comm, stream);
      ASSERT_EQ(describe(result), "0");
      if (nests) {
        ASSERT_EQ(omnesGroupEnd(), omnesSuccess);
      }
    }
    while (collective < sums_.size()) sum(collective++, comm, stream);
    ASSERT_EQ(describe(omnesGroupEnd()), "0");
  }

  void check() {
    for (Call& call : calls_) {
      for (size_t i = 0; i < call.message.bytes; ++i)
        ASSERT_EQ(call.buffer.data()[i], byteAt(call.message.key, i))
            << "byte " << i << " of " << call.message.bytes << " from " << call.message.from
            << " to " << call.message.to;
      ASSERT_TRUE(call.buffer.isIntact());
    }
    for (const int64_t sum : sums_) ASSERT_EQ(sum, nranks_ * (nranks_ + 1) / 2);
  }

 private:
  struct Call {
    bool isSend;
    PlannedMessage message;
    GuardedBuffer buffer;
  };

  // A random one that keeps what goes between this rank and another, one way.
  std::vector<size_t> order() {
    std::vector<size_t> shuffled(calls_.size());
    for (size_t i = 0; i < shuffled.size(); ++i) shuffled[i] = i;
    std::shuffle(shuffled.begin(), shuffled.end(), random_);
    std::vector<std::vector<size_t>> ways(2 * static_cast<size_t>(nranks_));
    for (size_t i = calls_.size(); i-- > 0;) ways[wayOf(calls_[i])].push_back(i);
    for (size_t& at : shuffled) {
      std::vector<size_t>& way = ways[wayOf(calls_[at])];
      at = way.back();
      way.pop_back();
    }
    return shuffled;
  }
  size_t wayOf(const Call& call) const {
    return static_cast<size_t>(call.isSend ? call.message.to : nranks_ + call.message.from);
  }
  void sum(size_t at, omnesComm_t comm, omnesStream_t stream) {
    ASSERT_EQ(
        describe(omnesAllReduce(&sums_[at], &sums_[at], 1, omnesInt64, omnesSum, comm, stream)),
        "0");
  }

  int rank_, nranks_;
  std::mt19937_64& random_;
  std::vector<Call> calls_;
  std::vector<int64_t> sums_;
};

// Some rounds are awaited one by one, others stand in the stream together.
void playSeed(uint64_t seed, int rank, int nranks, omnesComm_t comm, omnesStream_t stream) {
  std::mt19937_64 random(seed * 64 + static_cast<unsigned>(rank));
  const bool usesStream = random() % 2 == 0, waitsAtOnce = random() % 2 == 0;
  std::vector<Round> rounds = makeRounds(seed, nranks);
  std::vector<std::unique_ptr<Play>> plays;
  for (const Round& round : rounds) {
    plays.push_back(std::make_unique<Play>(round, rank, nranks, random));
    plays.back()->call(comm, usesStream ? stream : nullptr);
    if (!usesStream || waitsAtOnce) {
      ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
      plays.back()->check();
    }
  }
  ASSERT_EQ(describe(omnesStreamSynchronize(stream)), "0");
  for (const auto& play : plays) play->check();
}

void playWorld(uint64_t world, uint64_t firstSeed, uint64_t seeds) {
  const int nranks = 2 + static_cast<int>(world % kSizes);
  const uint64_t layout = world / kSizes % kLayouts;
  RanksOptions options;
  if (layout == 1) options.transports = "tcp";
  if (layout == 2) options.hostIds = hostsOf({(nranks + 1) / 2, nranks / 2});
  options.timeoutMs = 60000;
  options.limit = std::chrono::seconds(kSanitized ? 600 : 120);
  ThreadRanks ranks(nranks, options);
  ASSERT_TRUE(ranks.isReady());
  ranks.run([&](int rank, omnesComm_t comm) {
    omnesStream_t stream = nullptr;
    ASSERT_EQ(omnesStreamCreate(&stream), omnesSuccess);
    for (uint64_t seed = firstSeed; seed < firstSeed + seeds; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " of " + std::to_string(nranks) + " ranks");
      playSeed(seed, rank, nranks, comm, stream);
      if (::testing::Test::HasFatalFailure()) break;
    }
    EXPECT_EQ(describe(omnesStreamDestroy(stream)), "0");
  });
}

uint64_t numberFrom(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(MessagePatterns, EndAndAreExact) {
  const uint64_t seeds = numberFrom("OMNES_TEST_SEEDS", kSanitized ? 21 : 210);
  const uint64_t first = numberFrom("OMNES_TEST_FIRST_SEED", 0);
  // At least one world of each kind.
  const uint64_t perWorld = std::clamp<uint64_t>(seeds / (kLayouts * kSizes), 1, kSeedsPerWorld);
  for (uint64_t seed = first, world = 0; seed < first + seeds; seed += perWorld, ++world) {
    playWorld(world, seed, std::min(perWorld, first + seeds - seed));
    if (HasFailure()) FAIL() << "OMNES_TEST_FIRST_SEED=" << seed << " shows it, world " << world;
  }
}

}  // namespace
}  // namespace omnes::tests
