// The conformance suite: what transports/transport.h promises, for every transport.
#include <gtest/gtest.h>

#include <algorithm>

#include "transports/shm/segment.h"
#include "transports/streams.h"
#include "unit/transport_world.h"

namespace omnes::tests {
namespace {

using transports::Link;
using transports::Outcome;

constexpr uint8_t kUnicast = 1;
constexpr uint8_t kMulticast = 2;
constexpr uint8_t kSignal = 3;

class Transport : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string obstacle = TransportWorld::obstacleTo(GetParam());
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  }
};

TEST_P(Transport, TableIsComplete) {
  TransportWorld world(GetParam(), 2);
  ASSERT_FALSE(world.hasFailed());
  const auto* table = world.endpoint(0)->table;
  EXPECT_EQ(table->size, sizeof(transports::TransportTable));
  EXPECT_EQ(table->name, TransportWorld::nameOf(GetParam()));
  EXPECT_EQ(table->progress(world.endpoint(0)), Outcome::kAgain);
}

TEST_P(Transport, ChunksArriveInOrderWithTheirFingerprints) {
  TransportWorld world(GetParam(), 3);
  Link* out = world.link(0, true, kUnicast, 2);
  Link* in = world.link(2, false, kUnicast, 0);
  ASSERT_NE(out, nullptr);
  ASSERT_NE(in, nullptr);
  // More chunks than slots, in every length around the inline limit and up to the largest.
  std::vector<size_t> lengths = {0, 1, 47, 48, 49, 63, 64, 65, 1000, out->slotBytes};
  for (uint64_t round = 0; round < 5; ++round) {
    for (size_t i = 0; i < lengths.size(); ++i) {
      const std::string sent(lengths[i], static_cast<char>('a' + i + round));
      ASSERT_TRUE(world.send(out, sent, 1000 * round + i));
      std::string got;
      uint64_t fingerprint = 0;
      ASSERT_TRUE(world.receive(in, sent.size(), &got, &fingerprint));
      ASSERT_EQ(got, sent);
      ASSERT_EQ(fingerprint, 1000 * round + i);
    }
  }
  EXPECT_TRUE(world.nothingComes(in)) << "there is a chunk that nobody sent";
}

TEST_P(Transport, SenderHasExactlyItsCredits) {
  TransportWorld world(GetParam(), 2);
  for (const uint8_t stream : {kUnicast, kMulticast, kSignal}) {
    Link* out = world.link(0, true, stream, 1);
    Link* in = world.link(1, false, stream, 0);
    std::string got;
    uint64_t fingerprint = 0;
    for (int round = 0; round < 3; ++round) {
      for (uint32_t i = 0; i < out->credits; ++i) ASSERT_TRUE(world.send(out, "", i));
      ASSERT_TRUE(world.cannotSend(out)) << "stream " << int{stream};
      for (uint32_t i = 0; i < out->credits; ++i) {
        ASSERT_TRUE(world.receive(in, 0, &got, &fingerprint));
        ASSERT_EQ(fingerprint, i);
      }
    }
  }
}

TEST_P(Transport, PeekWithoutReleaseKeepsTheChunk) {
  TransportWorld world(GetParam(), 2);
  Link* out = world.link(0, true, kUnicast, 1);
  Link* in = world.link(1, false, kUnicast, 0);
  std::string got;
  uint64_t fingerprint = 0;
  ASSERT_TRUE(world.send(out, "first", 1));
  ASSERT_TRUE(world.send(out, "second", 2));
  ASSERT_TRUE(world.receive(in, 5, &got, &fingerprint));
  transports::Chunk once, twice;
  ASSERT_TRUE(world.peek(in, 6, &once));
  ASSERT_TRUE(world.peek(in, 6, &twice));
  EXPECT_EQ(once.data, twice.data);
  EXPECT_EQ(std::string(twice.data, twice.data + twice.bytes), "second");
}

TEST_P(Transport, MulticastReachesAllAndWaitsForTheSlowest) {
  TransportWorld world(GetParam(), 4);
  Link* out = world.link(1, true, kMulticast, 0);
  std::vector<Link*> readers;
  for (const int32_t rank : {0, 2, 3}) readers.push_back(world.link(rank, false, kMulticast, 1));
  std::string got;
  uint64_t fingerprint = 0;
  for (uint32_t i = 0; i < out->credits; ++i)
    ASSERT_TRUE(world.send(out, "chunk" + std::to_string(i), i));
  // Two readers read everything, the third nothing: no credit.
  for (const size_t fast : {size_t{0}, size_t{2}})
    for (uint32_t i = 0; i < out->credits; ++i) {
      ASSERT_TRUE(world.receive(readers[fast], 6, &got, &fingerprint));
      ASSERT_EQ(got, "chunk" + std::to_string(i));
    }
  ASSERT_TRUE(world.cannotSend(out));
  ASSERT_TRUE(world.receive(readers[1], 6, &got, &fingerprint));
  EXPECT_EQ(got, "chunk0");
  EXPECT_TRUE(world.send(out, "more", 7));
  EXPECT_TRUE(world.cannotSend(out));
}

TEST_P(Transport, LinksAreSeparate) {
  TransportWorld world(GetParam(), 3);
  std::string got;
  uint64_t fingerprint = 0;
  // Each (sender, stream, receiver) carries its own chunk; nothing crosses over.
  const auto text = [](int32_t from, int stream, int32_t to) {
    return std::to_string(from) + std::to_string(stream) + std::to_string(to);
  };
  for (int32_t from = 0; from < 3; ++from) {
    for (const uint8_t stream : {uint8_t{1}, uint8_t{5}, transports::kMessageStream}) {
      for (int32_t to = 0; to < 3; ++to) {
        if (from == to) continue;
        ASSERT_TRUE(world.send(world.link(from, true, stream, to), text(from, stream, to), 5));
      }
    }
  }
  for (int32_t to = 2; to >= 0; --to)
    for (const uint8_t stream : {transports::kMessageStream, uint8_t{5}, uint8_t{1}})
      for (int32_t from = 0; from < 3; ++from) {
        if (from == to) continue;
        ASSERT_TRUE(world.receive(world.link(to, false, stream, from), 3, &got, &fingerprint));
        ASSERT_EQ(got, text(from, stream, to));
      }
}

TEST_P(Transport, NamingALinkAgainGivesTheSame) {
  TransportWorld world(GetParam(), 3);
  EXPECT_EQ(world.link(0, true, kUnicast, 1), world.link(0, true, kUnicast, 1));
  EXPECT_NE(world.link(0, true, kUnicast, 1), world.link(0, true, kUnicast, 2));
  EXPECT_NE(world.link(0, true, kUnicast, 1), world.link(0, false, kUnicast, 1));
  EXPECT_EQ(world.link(0, true, kMulticast, 1), world.link(0, true, kMulticast, 2));
}

INSTANTIATE_TEST_SUITE_P(All, Transport,
                         ::testing::Values("mem", "shm", "tcp", "tcp-3", "tcp-ipv6", "tcp-unix"));

TEST(Shm, EightRanksKeepAtMostEightMiBEach) {
  const transports::shm::Layout layout(8, transports::slotBytesFor(8, 0));
  EXPECT_LE(layout.segmentBytes(), size_t{8} << 20);
}

TEST(Shm, RefusesLinksThatDoNotExist) {
  TransportWorld world("shm", 2);
  EXPECT_EQ(world.link(0, true, 200, 1), nullptr);
  EXPECT_NE(std::string(world.endpoint(0)->error).find("200"), std::string::npos);
  EXPECT_EQ(world.link(0, true, kUnicast, 2), nullptr);
  EXPECT_EQ(world.link(0, false, kUnicast, 0), nullptr);
}

TEST(Shm, ChunksOutliveTheirSender) {
  TransportWorld world("shm", 2);
  Link* in = world.link(1, false, kUnicast, 0);
  ASSERT_TRUE(world.send(world.link(0, true, kUnicast, 1), "farewell", 3));
  world.close(0);
  std::string got;
  uint64_t fingerprint = 0;
  ASSERT_TRUE(world.receive(in, 8, &got, &fingerprint));
  EXPECT_EQ(got, "farewell");
}

TEST(Shm, RefusesMemoryThatIsCutDifferently) {
  TransportWorld mine("shm", 2, 4096);
  TransportWorld theirs("shm", 2, 8192);
  transports::Description description;
  theirs.endpoint(1)->table->describe(theirs.endpoint(1), &description);
  const transports::Peer peers[] = {{},
                                    {description.text, description.bytes, description.descriptor}};
  EXPECT_EQ(mine.endpoint(0)->table->connect(mine.endpoint(0), peers), Outcome::kFailed);
  EXPECT_NE(mine.endpoint(0)->error[0], 0);
}

TEST(Shm, OneRankHasNoLinksAndNoTrouble) {
  TransportWorld world("shm", 1);
  EXPECT_FALSE(world.hasFailed());
}

TEST(Shm, BoardsAreReadableByPeers) {
  TransportWorld world("shm", 2);
  base::Board* mine = world.endpoint(0)->boards[0];
  const base::Board* seen = world.endpoint(1)->boards[0];
  EXPECT_EQ(seen->read()->sequence, 0u);
  mine->enter({.sequence = 7,
               .fingerprint = 8,
               .count = 9,
               .collective = 1,
               .type = 2,
               .op = 3,
               .root = -1});
  const auto entry = seen->read();
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->sequence, 7u);
  EXPECT_EQ(entry->fingerprint, 8u);
  EXPECT_EQ(entry->count, 9u);
  EXPECT_EQ(entry->collective, 1u);
  EXPECT_EQ(entry->type, 2u);
  EXPECT_EQ(entry->op, 3u);
  EXPECT_EQ(entry->root, -1);
  mine->finish(7);
  EXPECT_EQ(seen->finished(), 7u);
}

}  // namespace
}  // namespace omnes::tests
