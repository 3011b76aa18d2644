// What the tcp transport does when it is not given what it needs, and when a peer ends or dies.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "unit/tcp_peer.h"
#include "unit/transport_world.h"

namespace omnes::tests {
namespace {

using transports::Chunk;
using transports::Endpoint;
using transports::Link;
using transports::Outcome;

constexpr uint8_t kUnicast = 1, kMulticast = 2;

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

// A living child of a rank that has ended holds copies of its descriptors.
TEST(TcpFault, AnEndIsSeenAlthoughADescriptorWasCopied) {
  const auto& table = transports::tcp::table();
  transports::OpenParameters parameters;
  parameters.nranks = 2;
  parameters.slotBytes = TcpPeer::kSlotBytes;
  Endpoint* endpoint = nullptr;
  ASSERT_EQ(table.open(&parameters, &endpoint), Outcome::kOk);
  transports::Description description;
  table.describe(endpoint, &description);
  std::vector<base::UniqueFd> copies, theirs;
  std::vector<int> sockets;
  for (int32_t i = 0; i < description.sockets; ++i) {
    auto [one, other] = connectedPair();
    copies.emplace_back(fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
    sockets.push_back(one.release());
    theirs.push_back(std::move(other));
  }
  const transports::Peer peers[] = {{}, {description.text, description.bytes, -1, sockets.data()}};
  ASSERT_EQ(table.connect(endpoint, peers), Outcome::kOk);
  table.close(endpoint);
  for (const base::UniqueFd& fd : theirs) {
    pollfd look{fd.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&look, 1, 10'000), 1);
    char byte;
    EXPECT_EQ(::recv(fd.get(), &byte, 1, 0), 0);
  }
}

// The child's close is no end: the connections are its parent's.
TEST(TcpFault, AForkedChildThatClosesEndsNothing) {
  TransportWorld world("tcp", 2, 4096);
  const pid_t child = ::fork();
  if (child == 0) {
    world.close(0);
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(world.nothingComes(world.link(1, false, kUnicast, 0)));
  ASSERT_TRUE(world.send(world.link(0, true, kUnicast, 1), "alive", 1));
  std::string got;
  uint64_t fingerprint = 0;
  ASSERT_TRUE(world.receive(world.link(1, false, kUnicast, 0), 5, &got, &fingerprint));
  EXPECT_EQ(got, "alive");
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
    EXPECT_NE(std::string(peer.endpoint()->error).find("is lost"), std::string::npos)
        << "this was no end in order: " << peer.endpoint()->error;
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

}  // namespace
}  // namespace omnes::tests
