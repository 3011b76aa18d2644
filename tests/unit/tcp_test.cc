// The tcp transport beyond the conformance suite: how chunks and credits travel. Its faults are in
// tcp_fault_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "transports/tcp/buffer_pool.h"
#include "transports/tcp/chunk_queue.h"
#include "transports/tcp/window.h"
#include "unit/tcp_peer.h"
#include "unit/transport_world.h"

namespace omnes::tests {
namespace {

using transports::Chunk;
using transports::Endpoint;
using transports::Link;
using transports::Outcome;

constexpr uint8_t kUnicast = 1, kMulticast = 2, kSignal = 3;

std::string randomText(std::mt19937_64& random, size_t bytes) {
  std::string out(bytes, 0);
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

// A stream of chunks in both directions at once, each end ahead of the other by what it may.
void exchangeMany(TransportWorld& world, int chunks, size_t mostBytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::string> sent;
  for (int i = 0; i < chunks; ++i) sent.push_back(randomText(random, random() % (mostBytes + 1)));
  struct Side {
    Link *out, *in;
    size_t sent = 0, received = 0;
  } sides[] = {{world.link(0, true, kUnicast, 1), world.link(0, false, kUnicast, 1)},
               {world.link(1, true, kUnicast, 0), world.link(1, false, kUnicast, 0)}};
  const auto advance = [&](Side* side) {
    const auto* table = side->out->endpoint->table;
    Chunk chunk;
    while (side->sent < sent.size() &&
           table->acquire(side->out, sent[side->sent].size(), &chunk) == Outcome::kOk) {
      std::copy(sent[side->sent].begin(), sent[side->sent].end(), chunk.data);
      ASSERT_EQ(table->commit(side->out, sent[side->sent].size(), side->sent), Outcome::kOk);
      ++side->sent;
    }
    while (side->received < sent.size() &&
           table->peek(side->in, sent[side->received].size(), &chunk) == Outcome::kOk) {
      ASSERT_EQ(chunk.fingerprint, side->received);
      ASSERT_EQ(std::string(chunk.data, chunk.data + chunk.bytes), sent[side->received]);
      ASSERT_EQ(table->release(side->in), Outcome::kOk);
      ++side->received;
    }
  };
  EXPECT_TRUE(world.eventually([&] {
    for (Side& side : sides) advance(&side);
    return ::testing::Test::HasFatalFailure() ||
           (sides[0].received == sent.size() && sides[1].received == sent.size());
  }));
  for (const Side& side : sides)
    EXPECT_TRUE(world.eventually([&] { return !side.out->endpoint->hasUnsent; }));
}

TEST(Tcp, ManyChunksAcrossSocketsStayInOrder) {
  for (const char* kind : {"tcp", "tcp-3", "tcp-3-unix"}) {
    SCOPED_TRACE(kind);
    TransportWorld world(kind, 2, 8192);
    exchangeMany(world, 3000, 8192, 1);
  }
}

TEST(Tcp, PartialWritesAndReads) {
  for (const char* kind : {"tcp-tiny", "tcp-3-tiny", "tcp-unix-tiny", "tcp-3-unix-tiny"}) {
    SCOPED_TRACE(kind);
    TransportWorld world(kind, 2, 128 << 10);
    exchangeMany(world, 60, 128 << 10, 2);
  }
}

TEST(Tcp, UsesEverySocket) {
  TcpPeer peer(3);
  Link* out = peer.link(true, kUnicast);
  for (int i = 0; i < 6; ++i) {
    Chunk chunk;
    ASSERT_EQ(peer.table().acquire(out, 3, &chunk), Outcome::kOk);
    std::copy_n("abc", 3, chunk.data);
    ASSERT_EQ(peer.table().commit(out, 3, 40 + i), Outcome::kOk);
  }
  EXPECT_FALSE(peer.endpoint()->hasUnsent);
  std::set<uint64_t> sequences;
  for (size_t socket = 1; socket <= 3; ++socket) {
    const std::string bytes = peer.read(socket);
    ASSERT_EQ(bytes.size(), 2 * (transports::tcp::kChunkHeaderBytes + 3));
    for (size_t at = 0; at < bytes.size(); at += transports::tcp::kChunkHeaderBytes + 3) {
      transports::tcp::ChunkHeader header;
      ASSERT_TRUE(decode(reinterpret_cast<const uint8_t*>(bytes.data() + at), &header));
      EXPECT_EQ(header.fingerprint, 40 + header.sequence);
      EXPECT_EQ(bytes.substr(at + transports::tcp::kChunkHeaderBytes, 3), "abc");
      sequences.insert(header.sequence);
    }
  }
  EXPECT_EQ(sequences.size(), 6u);
  EXPECT_EQ(peer.read(0), "");
}

TEST(Tcp, ChunksThatOvertakeEachOtherAreReadInOrder) {
  TcpPeer peer(2);
  ASSERT_TRUE(peer.write(2, peer.chunk(kUnicast, 1, "second")));
  ASSERT_EQ(peer.settle(), Outcome::kAgain);
  // Before the link has been opened.
  Link* in = peer.link(false, kUnicast);
  Chunk chunk;
  ASSERT_EQ(peer.table().peek(in, 5, &chunk), Outcome::kAgain);
  EXPECT_EQ(in->awaited, 1);
  ASSERT_TRUE(peer.write(1, peer.chunk(kUnicast, 0, "first")));
  ASSERT_EQ(peer.settle(), Outcome::kAgain);
  for (const std::string expected : {"first", "second"}) {
    ASSERT_EQ(peer.table().peek(in, expected.size(), &chunk), Outcome::kOk);
    EXPECT_EQ(std::string(chunk.data, chunk.data + chunk.bytes), expected);
    ASSERT_EQ(peer.table().release(in), Outcome::kOk);
  }
  EXPECT_EQ(peer.table().peek(in, 5, &chunk), Outcome::kAgain);
}

TEST(Tcp, BytesMayComeOneByOne) {
  // Between two endpoints stands a relay for each socket that passes on one byte at a time.
  std::vector<std::pair<base::UniqueFd, base::UniqueFd>> relays;
  std::vector<int> ends[2];
  for (int i = 0; i < 3; ++i) {
    auto [a, nearA] = connectedPair({.family = AF_UNIX});
    auto [b, nearB] = connectedPair({.family = AF_UNIX});
    ends[0].push_back(a.release());
    ends[1].push_back(b.release());
    relays.emplace_back(std::move(nearA), std::move(nearB));
  }
  Endpoint* endpoints[2];
  const auto& table = transports::tcp::table();
  for (int32_t rank = 0; rank < 2; ++rank) {
    transports::OpenParameters parameters;
    parameters.rank = rank;
    parameters.nranks = 2;
    parameters.slotBytes = 512;
    parameters.dataSockets = 2;
    ASSERT_EQ(table.open(&parameters, &endpoints[rank]), Outcome::kOk);
    transports::Description description;
    table.describe(endpoints[rank], &description);
    transports::Peer peers[2];
    peers[1 - rank] = {description.text, description.bytes, -1, ends[rank].data()};
    ASSERT_EQ(table.connect(endpoints[rank], peers), Outcome::kOk);
  }
  const auto passOneByte = [](int from, int to) {
    char byte;
    if (::recv(from, &byte, 1, 0) == 1) {
      ASSERT_EQ(::send(to, &byte, 1, MSG_NOSIGNAL), 1);
    }
  };
  Link *out = nullptr, *in = nullptr;
  const transports::LinkShape outShape{true, kUnicast, 1}, inShape{false, kUnicast, 0};
  ASSERT_EQ(table.openLink(endpoints[0], &outShape, &out), Outcome::kOk);
  ASSERT_EQ(table.openLink(endpoints[1], &inShape, &in), Outcome::kOk);
  std::mt19937_64 random(3);
  std::vector<std::string> chunks;
  for (uint32_t i = 0; i < 2 * out->credits; ++i)
    chunks.push_back(randomText(random, random() % 4 == 0 ? 512 : random() % 40));
  const base::Clock& clock = base::Clock::monotonic();
  const base::Deadline deadline = base::Deadline::afterMs(clock, 20'000);
  size_t sent = 0, received = 0;
  while (received < chunks.size()) {
    ASSERT_FALSE(deadline.hasPassed(clock)) << received << " chunks have arrived";
    Chunk chunk;
    if (sent < chunks.size() && table.acquire(out, chunks[sent].size(), &chunk) == Outcome::kOk) {
      std::copy(chunks[sent].begin(), chunks[sent].end(), chunk.data);
      ASSERT_EQ(table.commit(out, chunks[sent].size(), sent), Outcome::kOk);
      ++sent;
    }
    for (const auto& [a, b] : relays) {
      passOneByte(a.get(), b.get());
      passOneByte(b.get(), a.get());
    }
    for (Endpoint* endpoint : endpoints) table.progress(endpoint);
    if (table.peek(in, chunks[received].size(), &chunk) != Outcome::kOk) continue;
    ASSERT_EQ(std::string(chunk.data, chunk.data + chunk.bytes), chunks[received]);
    ASSERT_EQ(chunk.fingerprint, received);
    ASSERT_EQ(table.release(in), Outcome::kOk);
    ++received;
  }
  for (Endpoint* endpoint : endpoints) table.close(endpoint);
}

TEST(Tcp, CreditsAreReportedByTheHalfOrWhenTheSenderHasNone) {
  TcpPeer peer;
  Link* in = peer.link(false, kUnicast);
  const uint32_t window = in->credits;
  ASSERT_GE(window, 4u);
  const auto send = [&](uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      ASSERT_TRUE(peer.write(1, peer.chunk(kUnicast, first + i, "x")));
    ASSERT_EQ(peer.settle(), Outcome::kAgain);
  };
  const auto take = [&](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      Chunk chunk;
      ASSERT_EQ(peer.table().peek(in, 1, &chunk), Outcome::kOk);
      ASSERT_EQ(peer.table().release(in), Outcome::kOk);
    }
  };
  // Less than half of it used up, and the sender has credit left: silence.
  send(0, window - 1);
  take(window / 2 - 1);
  EXPECT_FALSE(peer.endpoint()->hasUnsent);
  peer.settle();
  EXPECT_EQ(peer.read(0), "");
  // Half of it: at once, since the executor may be busy for long.
  take(1);
  EXPECT_FALSE(peer.endpoint()->hasUnsent);
  EXPECT_EQ(peer.read(0), peer.credit(kUnicast, window / 2));
  // The sender uses the last that it knows of: every chunk counts, and is unsent until progress.
  take(1);
  EXPECT_FALSE(peer.endpoint()->hasUnsent);
  send(window - 1, window / 2 + 1);
  EXPECT_EQ(peer.read(0), peer.credit(kUnicast, window / 2 + 1));
  take(1);
  EXPECT_FALSE(peer.endpoint()->hasUnsent);
  send(window + window / 2, 1);
  EXPECT_EQ(peer.read(0), peer.credit(kUnicast, window / 2 + 2));
  // No chunk more than the window, counted from what was used up.
  const std::string excess = peer.chunk(kUnicast, window / 2 + 2 + window, "x");
  ASSERT_TRUE(peer.write(1, excess));
  EXPECT_EQ(peer.settle(), Outcome::kFailed);
}

TEST(Tcp, ACreditIsUnsentUntilProgressHasWrittenIt) {
  TcpPeer peer;
  Link* in = peer.link(false, kSignal);
  for (uint64_t i = 0; i < in->credits; ++i) ASSERT_TRUE(peer.write(1, peer.chunk(kSignal, i, "")));
  ASSERT_EQ(peer.settle(), Outcome::kAgain);
  Chunk chunk;
  ASSERT_EQ(peer.table().peek(in, 0, &chunk), Outcome::kOk);
  ASSERT_EQ(peer.table().release(in), Outcome::kOk);
  EXPECT_TRUE(peer.endpoint()->hasUnsent);
  EXPECT_EQ(peer.progress(), Outcome::kOk);
  EXPECT_FALSE(peer.endpoint()->hasUnsent);
  EXPECT_EQ(peer.read(0), peer.credit(kSignal, 1));
}

TEST(Tcp, UnsentChunksWaitForRoom) {
  TcpPeer peer(1, {.family = AF_UNIX, .sendBytes = 4096});
  Link* out = peer.link(true, kUnicast);
  Chunk chunk;
  uint32_t sent = 0;
  const std::string payload(TcpPeer::kSlotBytes, 'p');
  while (peer.table().acquire(out, payload.size(), &chunk) == Outcome::kOk) {
    std::copy(payload.begin(), payload.end(), chunk.data);
    ASSERT_EQ(peer.table().commit(out, payload.size(), sent++), Outcome::kOk);
  }
  EXPECT_EQ(sent, out->credits);
  EXPECT_EQ(out->awaited, 1);
  EXPECT_TRUE(peer.endpoint()->hasUnsent);
  EXPECT_EQ(peer.progress(), Outcome::kAgain);
  EXPECT_FALSE(peer.stirs(20)) << "there is no room, hence nothing to do";
  std::string got;
  EXPECT_TRUE(peer.until([&] {
    got += peer.read(1);
    return !peer.endpoint()->hasUnsent;
  }));
  got += peer.read(1);
  EXPECT_EQ(got.size(), sent * (transports::tcp::kChunkHeaderBytes + payload.size()));
  EXPECT_FALSE(peer.stirs(20)) << "there is room, but nobody wants it";
}

TEST(Tcp, IsQuietWhenThereIsNothingToDo) {
  TransportWorld world("tcp-3", 3, 4096);
  const auto isQuiet = [&](int32_t rank) {
    pollfd fd{world.endpoint(rank)->pollFd, POLLIN, 0};
    return ::poll(&fd, 1, 20) == 0;
  };
  ASSERT_GE(world.endpoint(0)->pollFd, 0);
  for (int32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(isQuiet(rank));
  ASSERT_TRUE(world.send(world.link(0, true, kMulticast, 0), "hello", 1));
  pollfd fd{world.endpoint(1)->pollFd, POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 10'000), 1) << "a chunk has come";
  world.settle();
  // Also with a chunk that nobody has taken, and after a peer has closed its end.
  for (int32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(isQuiet(rank));
  world.close(0);
  world.settle();
  for (int32_t rank = 1; rank < 3; ++rank) EXPECT_TRUE(isQuiet(rank));
}

TEST(Tcp, MembersMayBeSomeOfTheRanks) {
  const std::vector<int32_t> members = {1, 4, 5};
  const auto& table = transports::tcp::table();
  SocketMesh mesh(6, 2, {});
  std::vector<Endpoint*> endpoints(6);
  for (const int32_t rank : members) {
    transports::OpenParameters parameters;
    parameters.rank = rank;
    parameters.nranks = 6;
    parameters.members = members.data();
    parameters.memberCount = 3;
    ASSERT_EQ(table.open(&parameters, &endpoints[rank]), Outcome::kOk);
    transports::Description description;
    table.describe(endpoints[rank], &description);
    std::vector<transports::Peer> peers(6);
    for (const int32_t peer : members)
      peers[peer] = {description.text, description.bytes, -1, mesh.take(rank, peer)};
    ASSERT_EQ(table.connect(endpoints[rank], peers.data()), Outcome::kOk);
  }
  Link *out = nullptr, *none = nullptr;
  const transports::LinkShape group{true, kMulticast, 0}, stranger{true, kUnicast, 2};
  ASSERT_EQ(table.openLink(endpoints[4], &group, &out), Outcome::kOk);
  EXPECT_EQ(table.openLink(endpoints[4], &stranger, &none), Outcome::kFailed);
  Chunk chunk;
  ASSERT_EQ(table.acquire(out, 2, &chunk), Outcome::kOk);
  std::copy_n("hi", 2, chunk.data);
  ASSERT_EQ(table.commit(out, 2, 9), Outcome::kOk);
  for (const int32_t rank : {1, 5}) {
    Link* in = nullptr;
    const transports::LinkShape from{false, kMulticast, 4};
    ASSERT_EQ(table.openLink(endpoints[rank], &from, &in), Outcome::kOk);
    pollfd fd{endpoints[rank]->pollFd, POLLIN, 0};
    ASSERT_EQ(::poll(&fd, 1, 10'000), 1);
    table.progress(endpoints[rank]);
    ASSERT_EQ(table.peek(in, 2, &chunk), Outcome::kOk);
    EXPECT_EQ(std::string(chunk.data, chunk.data + chunk.bytes), "hi");
  }
  for (const int32_t rank : members) table.close(endpoints[rank]);
}

// Each thread sleeps on its endpoint's descriptor whenever it is stuck, without a time limit that
// could hide a lost wake-up.
TEST(Tcp, ASleeperIsWokenForAllThatItNeeds) {
  TransportWorld world("tcp-3", 2, 4096);
  constexpr uint64_t kChunks = 20'000;
  const auto run = [&](int32_t rank) {
    Link* out = world.link(rank, true, kUnicast, 1 - rank);
    Link* in = world.link(rank, false, kUnicast, 1 - rank);
    const auto* table = out->endpoint->table;
    uint64_t sent = 0, received = 0;
    while (sent < kChunks || received < kChunks || out->endpoint->hasUnsent) {
      bool moved = false;
      Chunk chunk;
      const size_t bytes = sent % 97 * 40;
      if (sent < kChunks && table->acquire(out, bytes, &chunk) == Outcome::kOk) {
        std::fill_n(chunk.data, bytes, static_cast<uint8_t>(sent));
        ASSERT_EQ(table->commit(out, bytes, sent++), Outcome::kOk);
        moved = true;
      }
      if (received < kChunks && table->peek(in, 0, &chunk) == Outcome::kOk) {
        ASSERT_EQ(chunk.fingerprint, received);
        ASSERT_EQ(chunk.bytes, received % 97 * 40);
        const uint8_t last =
            chunk.bytes == 0 ? static_cast<uint8_t>(received) : chunk.data[chunk.bytes - 1];
        ASSERT_EQ(last, static_cast<uint8_t>(received));
        ASSERT_EQ(table->release(in), Outcome::kOk);
        ++received;
        moved = true;
      }
      if (moved || table->progress(out->endpoint) == Outcome::kOk) continue;
      pollfd fd{out->endpoint->pollFd, POLLIN, 0};
      ASSERT_EQ(::poll(&fd, 1, 30'000), 1) << "sent " << sent << " received " << received;
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

TEST(TcpParts, ABufferGoesBackWhenItsLastUserDropsIt) {
  transports::tcp::BufferPool pool(100);
  transports::tcp::Buffer* one = pool.take();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one->payload()) % 64, 0u);
  std::fill_n(one->frame(), transports::tcp::kChunkHeaderBytes + 100, uint8_t{1});
  {
    transports::tcp::ChunkQueue queue;
    queue.push(one);
    queue.push(one);
    transports::tcp::BufferPool::drop(one);
    EXPECT_NE(pool.take(), one);
    transports::tcp::BufferPool::drop(queue.pop());
  }
  EXPECT_EQ(pool.take(), one) << "the one given back last is the first to be taken";
  EXPECT_EQ(pool.buffers(), 2u);
}

TEST(TcpParts, WindowsHoldTwiceWhatPlansCountOn) {
  for (const size_t slotBytes : {64u, 4096u, 65536u, 262144u, 16u << 20})
    for (uint8_t stream = 0; stream < transports::kStreams; ++stream) {
      const auto streamClass = transports::streamClass(stream, slotBytes);
      const uint32_t window = transports::tcp::windowOf(stream, slotBytes);
      EXPECT_GE(window, 2 * streamClass.slots);
      EXPECT_LE(window * streamClass.bodyBytes,
                std::max<size_t>(2 << 20, 2 * streamClass.slots * streamClass.bodyBytes));
    }
}

}  // namespace
}  // namespace omnes::tests
