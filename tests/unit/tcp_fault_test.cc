// What the tcp transport does when a peer ends, dies, or sends what it may not.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "transports/streams.h"
#include "unit/tcp_peer.h"
#include "unit/transport_world.h"

namespace omnes::tests {
namespace {

using transports::Chunk;
using transports::Endpoint;
using transports::Link;
using transports::Outcome;
using transports::tcp::ChunkHeader;

constexpr uint8_t kUnicast = 1, kMulticast = 2, kSignal = 3;
// Of TcpPeer; see streams.h.
constexpr uint64_t kWindow = 64;
constexpr uint64_t kHalf = uint64_t{1} << 63;

size_t openDescriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  size_t count = 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

TEST(TcpFault, RefusesLinksThatDoNotExist) {
  TransportWorld world("tcp", 2);
  for (const bool outgoing : {false, true}) {
    EXPECT_EQ(world.link(0, outgoing, 200, 1), nullptr);
    EXPECT_NE(std::string(world.endpoint(0)->error).find("200"), std::string::npos);
    for (const int32_t peer : {-1, 0, 2}) {
      EXPECT_EQ(world.link(0, outgoing, kUnicast, peer), nullptr);
      EXPECT_NE(std::string(world.endpoint(0)->error).find("rank " + std::to_string(peer)),
                std::string::npos);
    }
  }
}

TEST(TcpFault, OneRankHasNoLinksAndNoTrouble) {
  TransportWorld world("tcp", 1);
  EXPECT_FALSE(world.hasFailed());
  EXPECT_TRUE(world.send(world.link(0, true, kMulticast, 0), "nobody", 1));
  EXPECT_FALSE(world.endpoint(0)->hasUnsent);
}

TEST(TcpFault, RefusesPeersThatDifferAndClosesWhatItWasGiven) {
  const auto& table = transports::tcp::table();
  const size_t before = openDescriptors();
  for (const char* theirs : {"tcp 1 8192 1", "tcp 2 4096 1", "tcp 1 4096 2", "", "\n"}) {
    SCOPED_TRACE(theirs);
    transports::OpenParameters parameters;
    parameters.nranks = 2;
    parameters.slotBytes = 4096;
    Endpoint* endpoint = nullptr;
    ASSERT_EQ(table.open(&parameters, &endpoint), Outcome::kOk);
    auto [a, nearA] = connectedPair();
    auto [b, nearB] = connectedPair();
    const int sockets[] = {a.release(), b.release()};
    const transports::Peer peers[] = {{}, {theirs, std::strlen(theirs), -1, sockets}};
    EXPECT_EQ(table.connect(endpoint, peers), Outcome::kFailed);
    const std::string text = endpoint->error;
    EXPECT_NE(text.find("\"" + std::string(theirs) + "\" there"), std::string::npos) << text;
    EXPECT_NE(text.find("\"tcp 1 4096 1\" here"), std::string::npos) << text;
    EXPECT_EQ(fcntl(sockets[0], F_GETFD), -1);
    EXPECT_EQ(fcntl(sockets[1], F_GETFD), -1);
    table.close(endpoint);
  }
  EXPECT_EQ(openDescriptors(), before);
}

TEST(TcpFault, RefusesToGoWithoutSockets) {
  const auto& table = transports::tcp::table();
  const int missing[] = {-1, -1};
  for (const int* sockets : {static_cast<const int*>(nullptr), missing}) {
    transports::OpenParameters parameters;
    parameters.nranks = 2;
    parameters.slotBytes = 4096;
    Endpoint* endpoint = nullptr;
    ASSERT_EQ(table.open(&parameters, &endpoint), Outcome::kOk);
    transports::Description description;
    ASSERT_EQ(table.describe(endpoint, &description), Outcome::kOk);
    EXPECT_EQ(description.sockets, 2);
    const transports::Peer peers[] = {{}, {description.text, description.bytes, -1, sockets}};
    EXPECT_EQ(table.connect(endpoint, peers), Outcome::kFailed);
    EXPECT_NE(std::string(endpoint->error).find("rank 1"), std::string::npos) << endpoint->error;
    table.close(endpoint);
  }
  for (const int32_t dataSockets : {0, -1, 256}) {
    transports::OpenParameters parameters;
    parameters.dataSockets = dataSockets;
    Endpoint* endpoint = nullptr;
    EXPECT_EQ(table.open(&parameters, &endpoint), Outcome::kFailed);
    EXPECT_NE(std::string(endpoint->error).find(std::to_string(dataSockets)), std::string::npos);
    table.close(endpoint);
  }
}

TEST(TcpFault, ClosesAllDescriptors) {
  const size_t before = openDescriptors();
  { TransportWorld world("tcp-3", 3); }
  EXPECT_EQ(openDescriptors(), before);
}

// The peer closes as soon as all of its chunks are under way, while credits that it never reads lie
// in its control socket: the system resets that one.
TEST(TcpFault, WhatAPeerSentBeforeItClosedIsAllReceived) {
  for (const char* kind : {"tcp", "tcp-3", "tcp-ipv6", "tcp-unix", "tcp-3-tiny"}) {
    if (!TransportWorld::obstacleTo(kind).empty()) continue;
    for (int round = 0; round < 20; ++round) {
      SCOPED_TRACE(std::string(kind) + " round " + std::to_string(round));
      TransportWorld world(kind, 2, 64 << 10);
      Link* out = world.link(0, true, kUnicast, 1);
      Link* in = world.link(1, false, kUnicast, 0);
      const auto* table = in->endpoint->table;
      const std::string payload(out->slotBytes, 'z');
      uint64_t received = 0, sent = 0, fingerprint = 0;
      std::string got;
      for (; sent < out->credits / 2; ++sent) ASSERT_TRUE(world.send(out, payload, sent));
      for (; received < sent; ++received)
        ASSERT_TRUE(world.receive(in, payload.size(), &got, &fingerprint));
      // From here on rank 0 reads nothing; rank 1 has reported half a window.
      Chunk chunk;
      while (table->acquire(out, payload.size(), &chunk) == Outcome::kOk) {
        std::copy(payload.begin(), payload.end(), chunk.data);
        ASSERT_EQ(table->commit(out, payload.size(), sent++), Outcome::kOk);
      }
      ASSERT_TRUE(world.eventually([&] { return !world.endpoint(0)->hasUnsent; }));
      world.close(0);
      for (; received < sent; ++received) {
        ASSERT_TRUE(world.receive(in, payload.size(), &got, &fingerprint)) << "chunk " << received;
        ASSERT_EQ(fingerprint, received);
        ASSERT_EQ(got, payload);
      }
      ASSERT_TRUE(
          world.eventually([&] { return table->peek(in, 0, &chunk) == Outcome::kPeerGone; }));
      EXPECT_EQ(world.endpoint(1)->failedPeer, 0);
      EXPECT_NE(std::string(world.endpoint(1)->error).find("rank 0"), std::string::npos);
      EXPECT_FALSE(world.endpoint(1)->hasUnsent) << "credits that nobody wants";
    }
  }
}

TEST(TcpFault, APeerThatEndsIsNamedToWhoeverNeedsIt) {
  TransportWorld world("tcp", 3, 4096);
  Endpoint* endpoint = world.endpoint(0);
  const auto* table = endpoint->table;
  Link* in = world.link(0, false, kUnicast, 1);
  Link* out = world.link(0, true, kUnicast, 1);
  Link* group = world.link(0, true, kMulticast, 0);
  Link* other = world.link(0, true, kUnicast, 2);
  Chunk chunk, held;
  EXPECT_EQ(table->peek(in, 1, &chunk), Outcome::kAgain);
  ASSERT_EQ(table->acquire(group, 3, &held), Outcome::kOk);
  std::copy_n("all", 3, held.data);
  world.close(1);
  ASSERT_TRUE(world.eventually([&] { return table->peek(in, 1, &chunk) == Outcome::kPeerGone; }));
  const auto expectNamed = [&](Outcome outcome) {
    EXPECT_EQ(outcome, Outcome::kPeerGone);
    EXPECT_EQ(endpoint->failedPeer, 1);
    EXPECT_NE(std::string(endpoint->error).find("rank 1"), std::string::npos) << endpoint->error;
    endpoint->failedPeer = -1;
    endpoint->error[0] = 0;
  };
  expectNamed(table->peek(in, 1, &chunk));
  expectNamed(table->acquire(out, 1, &chunk));
  // What was acquired stays, and its commit still reaches those who live.
  ASSERT_EQ(table->acquire(group, 3, &chunk), Outcome::kOk);
  EXPECT_EQ(chunk.data, held.data);
  expectNamed(table->commit(group, 3, 5));
  expectNamed(table->acquire(group, 3, &chunk));
  std::string got;
  uint64_t fingerprint = 0;
  ASSERT_TRUE(world.receive(world.link(2, false, kMulticast, 0), 3, &got, &fingerprint));
  EXPECT_EQ(got, "all");
  // Nobody else is troubled.
  ASSERT_TRUE(world.send(other, "hi", 6));
  ASSERT_TRUE(world.receive(world.link(2, false, kUnicast, 0), 2, &got, &fingerprint));
  world.settle();
  EXPECT_EQ(table->progress(endpoint), Outcome::kAgain);
  EXPECT_FALSE(endpoint->hasUnsent);
}

TEST(TcpFault, AResetIsNamedAndWhatCameBeforeItIsKept) {
  TcpPeer peer(2, {});
  Link* in = peer.link(false, kUnicast);
  ASSERT_TRUE(peer.write(1, peer.chunk(kUnicast, 0, "before")));
  ASSERT_TRUE(peer.write(2, peer.chunk(kUnicast, 1, "also")));
  ASSERT_TRUE(peer.stirs(10'000));
  const linger hard{1, 0};
  ASSERT_EQ(setsockopt(peer.socket(2), SOL_SOCKET, SO_LINGER, &hard, sizeof hard), 0);
  peer.closeSocket(2);
  Chunk chunk;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(peer.until([&] { return peer.table().peek(in, 1, &chunk) == Outcome::kOk; })) << i;
    ASSERT_EQ(peer.table().release(in), Outcome::kOk);
  }
  ASSERT_TRUE(peer.until([&] { return peer.table().peek(in, 1, &chunk) == Outcome::kPeerGone; }));
  EXPECT_EQ(peer.endpoint()->failedPeer, 1);
  EXPECT_NE(std::string(peer.endpoint()->error).find("Connection reset by peer"), std::string::npos)
      << peer.endpoint()->error;
  EXPECT_FALSE(peer.stirs(20));
}

TEST(TcpFault, AChunkThatBreaksOffIsNoChunk) {
  for (const size_t kept : {1u, 20u, 31u, 32u, 35u, 37u}) {
    SCOPED_TRACE(kept);
    TcpPeer peer;
    Link* in = peer.link(false, kUnicast);
    ASSERT_TRUE(peer.write(1, peer.chunk(kUnicast, 0, "whole")));
    ASSERT_TRUE(peer.write(1, peer.chunk(kUnicast, 1, "broken").substr(0, kept)));
    peer.closeAll();
    EXPECT_EQ(peer.settle(), Outcome::kAgain) << "progress does not fail because a peer has ended";
    Chunk chunk;
    ASSERT_EQ(peer.table().peek(in, 5, &chunk), Outcome::kOk);
    ASSERT_EQ(peer.table().release(in), Outcome::kOk);
    EXPECT_EQ(peer.table().peek(in, 5, &chunk), Outcome::kPeerGone);
    EXPECT_FALSE(peer.stirs(0));
  }
}

TEST(TcpFault, NothingStaysUnsentForAPeerThatIsGone) {
  TcpPeer peer(2, {.family = AF_UNIX, .sendBytes = 4096});
  Link* out = peer.link(true, kUnicast);
  Chunk chunk;
  while (peer.table().acquire(out, TcpPeer::kSlotBytes, &chunk) == Outcome::kOk)
    ASSERT_EQ(peer.table().commit(out, TcpPeer::kSlotBytes, 0), Outcome::kOk);
  EXPECT_TRUE(peer.endpoint()->hasUnsent);
  peer.closeAll();
  EXPECT_EQ(peer.settle(), Outcome::kAgain);
  EXPECT_FALSE(peer.endpoint()->hasUnsent);
  EXPECT_EQ(peer.table().acquire(out, 0, &chunk), Outcome::kPeerGone);
  EXPECT_FALSE(peer.stirs(0));
}

TEST(TcpFault, ACommitThatFindsThePeerGoneSaysSo) {
  for (const int family : {AF_UNIX, AF_INET}) {
    TcpPeer peer(1, {.family = family});
    Link* out = peer.link(true, kUnicast);
    Link* in = peer.link(false, kUnicast);
    ASSERT_TRUE(peer.write(1, peer.chunk(kUnicast, 0, "farewell")));
    Chunk chunk;
    ASSERT_EQ(peer.table().acquire(out, 1, &chunk), Outcome::kOk);
    peer.closeAll();
    // The endpoint has not looked at its sockets since. Over TCP the first write may still succeed.
    Outcome outcome = Outcome::kOk;
    ASSERT_TRUE(peer.until([&] {
      if (peer.table().acquire(out, 1, &chunk) == Outcome::kOk)
        outcome = peer.table().commit(out, 1, 0);
      else
        outcome = Outcome::kPeerGone;
      return outcome != Outcome::kOk;
    }));
    EXPECT_EQ(outcome, Outcome::kPeerGone);
    EXPECT_EQ(peer.endpoint()->failedPeer, 1);
    ASSERT_EQ(peer.table().peek(in, 8, &chunk), Outcome::kOk) << "it was there before";
    EXPECT_EQ(std::string(chunk.data, chunk.data + chunk.bytes), "farewell");
  }
}

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

TEST(TcpFault, MalformedFramesFailTheEndpointAndNameTheRank) {
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

TEST(TcpFault, TenThousandRandomFramesDoNoHarm) {
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
