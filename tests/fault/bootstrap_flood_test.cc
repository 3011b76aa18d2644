// Case C39: ranks that meet and connect to each other while strangers flood the meeting and the
// listener of every rank.
#include "core/bootstrap/peer_network.h"
#include "fault/attacker.h"
#include "unit/bootstrap_ranks.h"

namespace omnes::core::bootstrap {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint32_t kSockets = 2;
constexpr unsigned kInits = 200;
constexpr unsigned kAttacks = 10'000;
// Ranks and attackers share the cores of the machine that runs this.
constexpr int kSlack = 5;

// What one rank does to be connected. `attackers` are told of its listener, and are given the time
// to begin before it is used.
base::Status initRank(const MeetingPoint& point, uint32_t rank,
                      const std::vector<std::unique_ptr<Attacker>>& attackers, unsigned enough) {
  const base::Deadline deadline = inMs(kPatientMs);
  OMNES_ASSIGN_OR_RETURN(const std::unique_ptr<Rendezvous> meeting,
                         join(point, {.rank = rank, .nranks = kRanks}));
  const LocalIdentity self{point.secret, point.commId, rank, kRanks};
  OMNES_ASSIGN_OR_RETURN(const std::unique_ptr<PeerNetwork> network,
                         PeerNetwork::open(self, {.hint = meeting->localAddress()}, realClock()));
  const Target target = overhear(network->address(), point.secret,
                                 {point.commId, kRanks, (rank + 1) % kRanks, rank, tcpKind(0)});
  for (const auto& attacker : attackers) {
    const unsigned before = attacker->attacks();
    attacker->add(target);
    EXPECT_TRUE(eventually([&] { return attacker->attacks() >= before + enough; }));
  }
  OMNES_ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                         meeting->exchange(network->address(), deadline));
  std::vector<int32_t> peers;
  for (uint32_t peer = 0; peer < kRanks; ++peer)
    if (peer != rank) peers.push_back(static_cast<int32_t>(peer));
  OMNES_ASSIGN_OR_RETURN(const auto sockets, network->connectAll(peers, addresses, kSockets,
                                                                 {deadline, &realClock(), -1}));
  for (const int32_t peer : peers) EXPECT_EQ(sockets[static_cast<size_t>(peer)].size(), kSockets);
  // Nobody leaves before all are connected.
  return meeting->exchange("ready", deadline).status();
}

base::Duration initAll(const std::vector<std::unique_ptr<Attacker>>& attackers, unsigned enough) {
  const Meetable meetable = freshId("tcp:127.0.0.1:0");
  const MeetingPoint& point = meetable.point;
  const Target target =
      overhear(point.address, point.secret, {point.commId, kRanks, 1, kNoRank, LinkKind::kMeeting});
  for (const auto& attacker : attackers) {
    attacker->add(target);
    EXPECT_TRUE(eventually([&] { return attacker->attacks() >= enough; }));
  }
  const auto start = realClock().now();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const base::Status status = initRank(point, rank, attackers, enough);
      EXPECT_TRUE(status.isOk()) << "rank " << rank << ": " << status.message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return realClock().now() - start;
}

TEST(Flood, C39EveryInitSucceedsAmongTenThousandStrangers) {
  ASSERT_TRUE(initCrypto().isOk());
  base::Duration normal{0};
  for (int i = 0; i < 20; ++i) normal = std::max(normal, initAll({}, 0));
  base::Duration longest{0};
  unsigned attacks = 0;
  unsigned inits = 0;
  for (; inits < kInits || attacks < kAttacks; ++inits) {
    SCOPED_TRACE("seed " + std::to_string(inits));
    std::vector<std::unique_ptr<Attacker>> attackers;
    for (unsigned i = 0; i < 2; ++i) attackers.push_back(std::make_unique<Attacker>(2 * inits + i));
    const base::Duration time = initAll(attackers, 6);
    longest = std::max(longest, time);
    EXPECT_LT(time, normal + kSlack * std::chrono::seconds(1));
    for (const auto& attacker : attackers) attacks += attacker->attacks();
    if (HasFailure()) break;
  }
  const auto ms = [](base::Duration time) {
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
  };
  RecordProperty("inits", static_cast<int>(inits));
  RecordProperty("attacks", static_cast<int>(attacks));
  RecordProperty("normalMs", ms(normal));
  RecordProperty("longestMs", ms(longest));
  std::printf("%u inits, %u attacks, normal %d ms, longest %d ms\n", inits, attacks, ms(normal),
              ms(longest));
  EXPECT_TRUE(allHostsEnd());
}

}  // namespace
}  // namespace omnes::core::bootstrap
