// Ranks as threads that connect to each other over TCP: what works, and what they are told when it
// does not.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <optional>

#include "bootstrap_ranks.h"
#include "core/bootstrap/peer_network.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Status;
using Sockets = std::vector<std::vector<base::UniqueFd>>;

constexpr uint64_t kCommId = 77;

WaitLimits within(int64_t ms, int abortFd = -1) { return {inMs(ms), &realClock(), abortFd}; }

LocalIdentity identity(uint32_t rank, uint32_t nranks, const char* secret = "secret") {
  return {Secret::derive("test", bytesOf(secret)), kCommId, rank, nranks};
}

bool hasAddress(const char* host) { return listenOn("tcp:" + std::string(host) + ":0").isOk(); }

// The networks of all ranks of one communicator, and their addresses.
class Ranks {
 public:
  explicit Ranks(uint32_t nranks, const std::string& host = "127.0.0.1") {
    EXPECT_TRUE(initCrypto().isOk());
    for (uint32_t rank = 0; rank < nranks; ++rank) add(identity(rank, nranks), host);
  }
  void add(const LocalIdentity& self, const std::string& host) {
    auto network = PeerNetwork::open(self, {.hint = host}, realClock());
    ASSERT_TRUE(network.isOk()) << network.status().message();
    addresses.push_back(network.value()->address());
    networks.push_back(std::move(network).value());
  }
  std::vector<int32_t> othersThan(uint32_t rank) const {
    std::vector<int32_t> peers;
    for (uint32_t peer = 0; peer < networks.size(); ++peer)
      if (peer != rank) peers.push_back(static_cast<int32_t>(peer));
    return peers;
  }
  base::Result<Sockets> connect(uint32_t rank, uint32_t count, const WaitLimits& limits) {
    return networks[rank]->connectAll(othersThan(rank), addresses, count, limits);
  }
  // Waits until `rank` serves its listener: it then lets in a rank 1 with a socket that nobody
  // wants.
  void awaitServing(uint32_t rank) {
    const auto nranks = static_cast<uint32_t>(networks.size());
    auto attempt = connectOnce(addresses[rank], within(kPatientMs));
    ASSERT_TRUE(attempt.isOk() && attempt.value().error == 0);
    ProofInitiator proof(identity(1, nranks).secret,
                         {kCommId, nranks, 1, rank, tcpKind(kMaxSocketsPerPeer - 1)});
    const Status status = runProof(attempt.value().fd.get(), proof, within(kPatientMs));
    EXPECT_TRUE(status.isOk()) << status.message();
  }
  // All at once, one thread each; a rank of `absent` does not come.
  std::vector<base::Result<Sockets>> connectAll(uint32_t count, int64_t ms = kPatientMs,
                                                int absent = -1) {
    std::vector<base::Result<Sockets>> results;
    for (size_t rank = 0; rank < networks.size(); ++rank) results.emplace_back(Status());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < networks.size(); ++rank) {
      if (static_cast<int>(rank) == absent) continue;
      threads.emplace_back(
          [&, rank] { results[rank] = connect(static_cast<uint32_t>(rank), count, within(ms)); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  std::vector<std::unique_ptr<PeerNetwork>> networks;
  std::vector<std::string> addresses;
};

std::string greeting(size_t from, size_t to, size_t socket) {
  return std::to_string(from) + ">" + std::to_string(to) + "#" + std::to_string(socket);
}

void expectProperties(int fd) {
  EXPECT_TRUE(::fcntl(fd, F_GETFL) & O_NONBLOCK);
  EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
  int noDelay = 0;
  socklen_t length = sizeof noDelay;
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &noDelay, &length), 0);
  EXPECT_EQ(noDelay, 1);
}

// That each socket leads where it should: both ends say who they are.
void expectMesh(const std::vector<base::Result<Sockets>>& results, uint32_t count) {
  for (const auto& result : results) ASSERT_TRUE(result.isOk()) << result.status().message();
  const auto each = [&](auto&& visit) {
    for (size_t rank = 0; rank < results.size(); ++rank)
      for (size_t peer = 0; peer < results.size(); ++peer)
        for (size_t i = 0; i < results[rank].value()[peer].size(); ++i)
          visit(rank, peer, i, results[rank].value()[peer][i].get());
  };
  size_t seen = 0;
  each([&](size_t rank, size_t peer, size_t i, int fd) {
    ++seen;
    EXPECT_NE(rank, peer);
    expectProperties(fd);
    EXPECT_TRUE(sendAll(fd, bytesOf(greeting(rank, peer, i)), within(kPatientMs), "test").isOk());
  });
  EXPECT_EQ(seen, results.size() * (results.size() - 1) * count);
  each([&](size_t rank, size_t peer, size_t i, int fd) {
    const std::string expected = greeting(peer, rank, i);
    std::string text(expected.size(), ' ');
    const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(text.data()), text.size());
    EXPECT_TRUE(receiveAll(fd, bytes, within(kPatientMs), "test").isOk());
    EXPECT_EQ(text, expected);
  });
}

class Mesh : public ::testing::TestWithParam<std::tuple<uint32_t, uint32_t, const char*>> {};

TEST_P(Mesh, EverySocketLeadsToItsPeer) {
  const auto [nranks, count, host] = GetParam();
  if (!hasAddress(host)) GTEST_SKIP() << "this host has no address " << host;
  Ranks ranks(nranks, host);
  for (const std::string& address : ranks.addresses)
    EXPECT_TRUE(address.starts_with("tcp:" + std::string(host) + ":")) << address;
  expectMesh(ranks.connectAll(count), count);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mesh,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 5),
                                            ::testing::Values(1, 3, kMaxSocketsPerPeer),
                                            ::testing::Values("127.0.0.1", "[::1]")));

// More connections than a listener holds unproven, all of them to rank 0.
TEST(PeerNetwork, ManyRanksComeAtOnce) {
  Ranks ranks(12);
  const auto results = ranks.connectAll(kMaxSocketsPerPeer);
  expectMesh(results, kMaxSocketsPerPeer);
}

TEST(PeerNetwork, ALateRankIsWaitedFor) {
  Ranks ranks(3);
  std::atomic<int> returned{0};
  std::vector<std::thread> early;
  for (const uint32_t rank : {0u, 2u}) {
    early.emplace_back([&, rank] {
      const auto result = ranks.connect(rank, 2, within(kPatientMs));
      EXPECT_TRUE(result.isOk()) << result.status().message();
      // Relaxed: a count that nothing else depends on.
      returned.fetch_add(1, std::memory_order_relaxed);
    });
  }
  for (const uint32_t rank : {0u, 2u}) ranks.awaitServing(rank);
  EXPECT_EQ(returned.load(std::memory_order_relaxed), 0);
  EXPECT_TRUE(ranks.connect(1, 2, within(kPatientMs)).isOk());
  for (std::thread& thread : early) thread.join();
}

// Some pairs first, then others, on the same listeners.
TEST(PeerNetwork, PeersAreConnectedInSeveralCalls) {
  Ranks ranks(3);
  const auto pair = [&](uint32_t low, uint32_t high) {
    base::Result<Sockets> first = Status();
    std::thread thread([&] {
      first = ranks.networks[low]->connectAll({static_cast<int32_t>(high)}, ranks.addresses, 1,
                                              within(kPatientMs));
    });
    const auto second = ranks.networks[high]->connectAll({static_cast<int32_t>(low)},
                                                         ranks.addresses, 1, within(kPatientMs));
    thread.join();
    ASSERT_TRUE(first.isOk() && second.isOk())
        << first.status().message() << second.status().message();
    EXPECT_EQ(first.value()[high].size(), 1u);
    EXPECT_EQ(second.value()[low].size(), 1u);
  };
  pair(0, 2);
  pair(1, 2);
  pair(0, 1);
}

TEST(PeerNetwork, ListsTheRankThatDoesNotCome) {
  Ranks ranks(4);
  const auto results = ranks.connectAll(2, 300, 2);
  for (const int rank : {0, 1}) {
    expectStatus(results[rank].status(), Code::kTimeout,
                 {"timed out", "rank 2 of 4 is missing", "higher ranks connect to",
                  ranks.addresses[rank].c_str()});
  }
  expectStatus(results[3].status(), Code::kTimeout,
               {"rank 2 of 4 is missing", ranks.addresses[2].c_str(), "no answer"});
}

TEST(PeerNetwork, SaysThatNobodyListensAnyMore) {
  Ranks ranks(2);
  ranks.networks[0]->close();
  const auto start = realClock().now();
  expectStatus(ranks.connect(1, 1, within(kPatientMs)).status(), Code::kRemoteError,
               {"rank 0", ranks.addresses[0].c_str(), "nobody listens there any more"});
  EXPECT_LT(realClock().now() - start, std::chrono::seconds(5));
}

TEST(PeerNetwork, AbortEndsIt) {
  Ranks ranks(3);
  const auto abort = base::EventFd::open();
  ASSERT_TRUE(abort.isOk());
  std::vector<std::thread> threads;
  for (const uint32_t rank : {0u, 2u}) {
    threads.emplace_back([&, rank] {
      const auto result = ranks.connect(rank, 1, within(kPatientMs, abort.value().fd()));
      expectStatus(result.status(), Code::kInvalidUsage, {"aborted", "over TCP"});
    });
  }
  for (const uint32_t rank : {0u, 2u}) ranks.awaitServing(rank);
  const auto start = realClock().now();
  abort.value().signal();
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(realClock().now() - start, std::chrono::milliseconds(500));
}

TEST(PeerNetwork, RefusesAnotherSecret) {
  Ranks ranks(0);
  ranks.add(identity(0, 2), "127.0.0.1");
  ranks.add(identity(1, 2, "another"), "127.0.0.1");
  const auto results = ranks.connectAll(1, 500);
  expectStatus(results[0].status(), Code::kTimeout,
               {"rank 1 of 2 is missing", "without a valid proof"});
  expectStatus(results[1].status(), Code::kInvalidUsage, {"rank 0", "the secrets differ"});
}

// Connections made by hand, to a rank 0 that waits in a thread.
class ByHand : public ::testing::Test {
 protected:
  void SetUp() override {
    ranks_.emplace(3);
    auto abort = base::EventFd::open();
    ASSERT_TRUE(abort.isOk());
    abort_.emplace(std::move(abort).value());
    waiting_ = std::thread([this] { result_ = ranks_->connect(0, 2, limits()); });
  }
  void TearDown() override {
    if (!waiting_.joinable()) return;
    abort_->signal();
    waiting_.join();
  }
  WaitLimits limits() const { return within(kPatientMs, abort_->fd()); }
  struct Attempt {
    base::UniqueFd fd;
    Status status;
  };
  Attempt claim(uint32_t from, LinkKind kind, uint32_t to = 0, uint32_t nranks = 3) {
    auto attempt = connectOnce(ranks_->addresses[0], within(kPatientMs));
    if (!attempt.isOk()) return {{}, attempt.status()};
    ProofInitiator proof(identity(0, 3).secret, {kCommId, nranks, from, to, kind});
    Status status = runProof(attempt.value().fd.get(), proof, within(kPatientMs));
    return {std::move(attempt.value().fd), std::move(status)};
  }
  void expectThatTheRestConnects() {
    std::thread second([this] { EXPECT_TRUE(ranks_->connect(2, 2, limits()).isOk()); });
    const auto first = ranks_->connect(1, 2, limits());
    EXPECT_TRUE(first.isOk()) << first.status().message();
    second.join();
    waiting_.join();
    EXPECT_TRUE(result_.isOk()) << result_.status().message();
  }

  std::optional<Ranks> ranks_;
  std::optional<base::EventFd> abort_;
  base::Result<Sockets> result_ = Status();
  std::thread waiting_;
};

TEST_F(ByHand, RefusesWhatIsNotMeantForIt) {
  for (const LinkKind kind : {LinkKind::kMeeting, LinkKind::kShm, static_cast<LinkKind>(15),
                              tcpKind(kMaxSocketsPerPeer - 1), static_cast<LinkKind>(32)}) {
    const Status status = claim(1, kind).status;
    if (kind == tcpKind(kMaxSocketsPerPeer - 1)) {
      EXPECT_TRUE(status.isOk()) << status.message();
    } else {
      expectStatus(status, Code::kInvalidUsage, {"not rank 0"});
    }
  }
  expectStatus(claim(1, tcpKind(0), 2).status, Code::kInvalidUsage, {"not rank 2"});
  expectStatus(claim(1, tcpKind(0), 0, 4).status, Code::kInvalidUsage, {"4 ranks"});
  expectThatTheRestConnects();
}

TEST_F(ByHand, RefusesALiveDuplicateOfOneKindOnly) {
  const Attempt first = claim(1, tcpKind(0));
  EXPECT_TRUE(first.status.isOk()) << first.status.message();
  expectStatus(claim(1, tcpKind(0)).status, Code::kInvalidUsage, {"already connected as rank 1"});
  const Attempt second = claim(1, tcpKind(1));
  EXPECT_TRUE(second.status.isOk()) << second.status.message();
  expectStatus(claim(1, tcpKind(1)).status, Code::kInvalidUsage, {"already connected as rank 1"});
  // The first one is not disturbed.
  pollfd alive{first.fd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&alive, 1, 0), 0);
}

TEST_F(ByHand, ADeadDuplicateMakesRoom) {
  EXPECT_TRUE(claim(1, tcpKind(0)).status.isOk());  // and is closed here
  ASSERT_TRUE(eventually([this] { return claim(1, tcpKind(0)).status.isOk(); }));
  // That one is closed as well; the real rank 1 must come through all the same.
  ASSERT_TRUE(eventually([this] {
    const Attempt attempt = claim(1, tcpKind(0));
    return !attempt.status.isOk();  // refused, which made room
  }));
  expectThatTheRestConnects();
}

TEST(PeerNetwork, ChecksItsArguments) {
  Ranks ranks(2);
  PeerNetwork& network = *ranks.networks[0];
  const auto refused = [&](const std::vector<int32_t>& peers, uint32_t count, const char* part) {
    expectStatus(network.connectAll(peers, ranks.addresses, count, within(1000)).status(),
                 Code::kInvalidArgument, {part});
  };
  refused({1}, 0, "1 to 16");
  refused({1}, 17, "1 to 16");
  refused({0}, 1, "rank 0");
  refused({2}, 1, "rank 2");
  refused({-1}, 1, "rank -1");
  refused({1, 1}, 1, "twice");
  expectStatus(network.connectAll({1}, {}, 1, within(1000)).status(), Code::kInvalidArgument,
               {"0 addresses for 2 ranks"});
  for (const char* bad : {"", "tcp:", "tcp:somewhere:1", "unix:@name", "nonsense"}) {
    expectStatus(ranks.networks[1]->connectAll({0}, {bad, ""}, 1, within(1000)).status(),
                 Code::kRemoteError, {"rank 0", bad});
  }
}

TEST(PeerNetwork, LeavesNoDescriptor) {
  const size_t before = openDescriptors();
  for (int i = 0; i < 50; ++i) {
    Ranks ranks(3);
    expectMesh(ranks.connectAll(2), 2);
  }
  EXPECT_EQ(openDescriptors(), before);
}

}  // namespace
}  // namespace omnes::core::bootstrap
