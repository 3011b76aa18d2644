// Peers of the tcp transport that send what they may not: each is told apart, and none does harm.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "transports/streams.h"
#include "unit/tcp_peer.h"

namespace omnes::tests {
namespace {

using transports::Chunk;
using transports::Link;
using transports::Outcome;
using transports::tcp::ChunkHeader;

constexpr uint8_t kUnicast = 1, kSignal = 3;
// Of TcpPeer; see streams.h.
constexpr uint64_t kWindow = 64;
constexpr uint64_t kHalf = uint64_t{1} << 63;

struct Malformed {
  const char* name;
  size_t socket;  // 0 = control
  std::string bytes;
};

std::vector<Malformed> malformed() {
  const auto header = [](uint8_t stream, uint64_t bytes, uint64_t sequence) {
    return TcpPeer::header(ChunkHeader{stream, bytes, sequence, 1});
  };
  const std::string good = TcpPeer::chunk(kUnicast, 0, "x");
  std::string badMagic = good, badType = good, badZero = good;
  badMagic[0] ^= 1, badType[4] = 9, badZero[7] = 1;
  return {
      {"magic", 1, badMagic},
      {"type", 1, badType},
      {"bytes that must be zero", 1, badZero},
      {"a byte too long", 1, header(kUnicast, TcpPeer::kSlotBytes + 1, 0)},
      {"minus one byte", 1, header(kUnicast, UINT64_MAX, 0)},
      {"least number of bytes", 1, header(kUnicast, kHalf, 0)},
      {"minus a header", 1, header(kUnicast, UINT64_MAX - 31, 0)},
      {"bytes beyond 32 bits", 1, header(kUnicast, (uint64_t{1} << 32) + 1, 0)},
      {"payload of a signal", 1, TcpPeer::chunk(kSignal, 0, "x")},
      {"beyond the window", 1, header(kUnicast, 0, kWindow)},
      {"far beyond it", 1, header(kUnicast, 0, kHalf)},
      {"before the first", 1, header(kUnicast, 0, UINT64_MAX)},
      {"twice", 1, good + good},
      {"twice, on two sockets", 2, good},
      {"no such stream", 1, header(transports::kStreams, 0, 0)},
      {"last stream", 1, header(255, 0, 0)},
      {"a credit where chunks go", 1, TcpPeer::credit(kUnicast, 0) + TcpPeer::credit(kUnicast, 0)},
      {"a chunk where credits go", 0, header(kUnicast, 0, 0)},
      {"credit for what was not sent", 0, TcpPeer::credit(kUnicast, 3)},
      {"credit taken back", 0, TcpPeer::credit(kUnicast, 1) + TcpPeer::credit(kUnicast, 0)},
      {"credit of a stream that is not", 0, TcpPeer::credit(200, 0)},
      {"credit of a link that is not", 0, TcpPeer::credit(5, 0)},
      {"a huge credit", 0, TcpPeer::credit(kUnicast, UINT64_MAX)},
      {"credit's magic", 0, std::string(transports::tcp::kCreditBytes, 'x')},
  };
}

TEST(TcpHostile, MalformedFramesFailTheEndpointAndNameTheRank) {
  for (const Malformed& input : malformed()) {
    SCOPED_TRACE(input.name);
    TcpPeer peer(2);
    Link* in = peer.link(false, kUnicast);
    Link* out = peer.link(true, kUnicast);
    ASSERT_EQ(in->credits, kWindow);
    Chunk chunk;
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(peer.table().acquire(out, 0, &chunk), Outcome::kOk);
      ASSERT_EQ(peer.table().commit(out, 0, 0), Outcome::kOk);
    }
    if (input.socket == 2) {
      ASSERT_TRUE(peer.write(1, input.bytes));
      ASSERT_EQ(peer.settle(), Outcome::kAgain);
    }
    ASSERT_TRUE(peer.write(input.socket, input.bytes));
    EXPECT_EQ(peer.settle(), Outcome::kFailed);
    const std::string text = peer.endpoint()->error;
    EXPECT_NE(text.find("rank 1 has sent"), std::string::npos) << text;
    // It stays so, and nothing wakes anybody for it.
    EXPECT_EQ(peer.progress(), Outcome::kFailed);
    EXPECT_EQ(peer.table().acquire(out, 0, &chunk), Outcome::kFailed);
    EXPECT_EQ(peer.table().peek(peer.link(false, 5), 0, &chunk), Outcome::kFailed);
    EXPECT_EQ(peer.endpoint()->error, text);
    EXPECT_FALSE(peer.stirs(0));
  }
}

// A model of the peer that knows what it may send.
struct Fuzzer {
  explicit Fuzzer(uint64_t seed) : random(seed) {}
  bool chance(int percent) { return random() % 100 < static_cast<uint64_t>(percent); }

  // A frame for a data socket, good or bad.
  std::string frame() {
    if (chance(5)) return bytes(random() % 80);
    ChunkHeader header{static_cast<uint8_t>(random() % transports::kStreams), random() % 200, 0,
                       random()};
    if (header.stream % 4 == kSignal) header.bytes = 0;
    header.sequence = next[header.stream]++;
    if (chance(3)) header.bytes = random() >> (random() % 64);
    if (chance(3)) header.sequence = random() >> (random() % 64);
    if (chance(2)) header.stream = static_cast<uint8_t>(random());
    std::string out = TcpPeer::header(header);
    if (chance(2)) out[random() % out.size()] ^= static_cast<char>(1 << (random() % 8));
    return out + bytes(std::min<uint64_t>(header.bytes, 5000));
  }
  std::string bytes(size_t count) {
    std::string out(count, 0);
    for (char& c : out) c = static_cast<char>(random());
    return out;
  }

  std::mt19937_64 random;
  uint64_t next[transports::kStreams] = {};
};

TEST(TcpHostile, TenThousandRandomFramesDoNoHarm) {
  const char* text = std::getenv("OMNES_TEST_SEED");
  uint64_t seed = text == nullptr ? 1 : std::strtoull(text, nullptr, 0);
  int frames = 0, failures = 0, endings = 0;
  for (; frames < 10'000; ++seed) {
    SCOPED_TRACE("replay with OMNES_TEST_SEED=" + std::to_string(seed));
    Fuzzer fuzzer(seed);
    TcpPeer peer(2);
    Link* out = peer.link(true, kUnicast);
    Chunk chunk;
    ASSERT_EQ(peer.table().acquire(out, 1, &chunk), Outcome::kOk);
    Outcome outcome = Outcome::kAgain;
    for (int i = 0; i < 60 && outcome == Outcome::kAgain; ++i, ++frames) {
      const size_t socket = fuzzer.chance(3) ? 0 : 1 + fuzzer.random() % 2;
      const std::string frame = fuzzer.frame();
      // In pieces, so that each of them ends a read.
      const size_t cut = fuzzer.random() % (frame.size() + 1);
      peer.write(socket, frame.substr(0, cut));
      if (fuzzer.chance(30)) peer.settle();
      peer.write(socket, frame.substr(cut));
      if (fuzzer.chance(1)) peer.closeAll();
      outcome = peer.settle();
      ASSERT_TRUE(outcome == Outcome::kAgain || outcome == Outcome::kFailed);
      // Take some of what has come.
      for (uint8_t stream = 0; stream < transports::kStreams; ++stream) {
        Link* in = peer.link(false, stream);
        while (fuzzer.chance(60) && peer.table().peek(in, 0, &chunk) == Outcome::kOk) {
          ASSERT_LE(chunk.bytes, in->slotBytes);
          uint8_t sum = 0;
          for (size_t b = 0; b < chunk.bytes; ++b) sum = static_cast<uint8_t>(sum + chunk.data[b]);
          peer.endpoint()->error[0] = static_cast<char>(sum);  // so that the bytes are read
          ASSERT_EQ(peer.table().release(in), Outcome::kOk);
        }
      }
      if (peer.socket(1) < 0) break;
    }
    failures += outcome == Outcome::kFailed;
    endings += peer.socket(1) < 0;
  }
  RecordProperty("failures", failures);
  EXPECT_GT(failures, 100);
  EXPECT_GT(endings, 10);
}

}  // namespace
}  // namespace omnes::tests
