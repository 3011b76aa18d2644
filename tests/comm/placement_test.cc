// Which transport joins which ranks, and that ranks cut a message alike whatever joins them.
#include "core/comm/placement.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

#include "algorithms/registry.h"
#include "core/exec/prepared.h"
#include "transports/streams.h"

namespace omnes::core {
namespace {

std::vector<PeerInfo> ranksOn(const std::vector<std::string>& hosts) {
  std::vector<PeerInfo> out;
  for (const std::string& host : hosts) {
    out.emplace_back();
    out.back().host = out.back().hostIdentity = host;
  }
  return out;
}

const std::vector<std::string> kAll = {"shm", "tcp"};

Placement placeOrFail(const std::vector<PeerInfo>& peers, int32_t rank,
                      const std::vector<std::string>& transports, size_t wish = 0) {
  auto placed = place(peers, rank, transports, wish);
  EXPECT_TRUE(placed.isOk()) << placed.status().message();
  return placed.isOk() ? std::move(placed).value() : Placement{};
}

TEST(Placement, RanksOfAHostShareMemoryOthersUseTheNetwork) {
  const auto peers = ranksOn({"a", "b", "a", "c", "b"});
  EXPECT_EQ(describe(placeOrFail(peers, 0, kAll), 0), "rank 2 by shm, ranks 1, 3, 4 by tcp");
  EXPECT_EQ(describe(placeOrFail(peers, 3, kAll), 3), "ranks 0-2, 4 by tcp");
  EXPECT_EQ(describe(placeOrFail(ranksOn({"a", "a", "a"}), 1, kAll), 1), "ranks 0, 2 by shm");
  EXPECT_EQ(describe(placeOrFail(ranksOn({"a"}), 0, kAll), 0), "no other rank");
  EXPECT_EQ(describe(placeOrFail(peers, 2, {"tcp"}), 2), "ranks 0, 1, 3, 4 by tcp");
  const Placement mixed = placeOrFail(peers, 4, kAll);
  ASSERT_EQ(mixed.endpoints.size(), 2u);
  EXPECT_EQ(mixed.endpoints[0].members, (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(mixed.endpoints[1].members, (std::vector<int32_t>{0, 2, 3, 4}));
}

TEST(Placement, WithoutANetworkTheHostsAreNamedAlikeOnAllRanks) {
  const auto peers = ranksOn({"a", "a", "b"});
  const auto first = place(peers, 0, {"shm"}, 0);
  ASSERT_FALSE(first.isOk());
  EXPECT_EQ(first.status().code(), base::Code::kInvalidUsage);
  for (const char* part : {"rank 0 (host a", "rank 2 (host b", "OMNES_TRANSPORTS", "tcp"})
    EXPECT_NE(first.status().message().find(part), std::string_view::npos)
        << first.status().message();
  for (const int32_t rank : {1, 2}) {
    const auto other = place(peers, rank, {"shm"}, 0);
    ASSERT_FALSE(other.isOk());
    EXPECT_EQ(other.status().message(), first.status().message());
  }
}

TEST(Placement, SlotsFollowTheLargestHostOnAllRanks) {
  const auto peers = ranksOn({"a", "b", "b", "b", "b", "b", "b", "b", "b"});
  const size_t bytes = transports::slotBytesFor(8, 0);
  EXPECT_NE(bytes, transports::slotBytesFor(1, 0));
  for (int32_t rank = 0; rank < 9; ++rank) {
    EXPECT_EQ(placeOrFail(peers, rank, kAll).slotBytes, bytes);
    EXPECT_EQ(placeOrFail(peers, rank, {"tcp"}).slotBytes, bytes);
    EXPECT_EQ(placeOrFail(peers, rank, kAll, 1000).slotBytes, 1024u);
  }
}

TEST(PeerInfo, EncodedAndDecodedIsTheSame) {
  PeerInfo info = describeSelf("a name");
  info.channel = "unix:@x";
  const auto back = PeerInfo::decode(info.encode(), 3);
  ASSERT_TRUE(back.isOk()) << back.status().message();
  EXPECT_EQ(back.value().encode(), info.encode());
  EXPECT_NE(info.hostIdentity.find("OMNES_HOST_ID a name, net:["), std::string::npos)
      << info.hostIdentity;
  EXPECT_EQ(describeSelf("").hostIdentity.find(info.machine), 0u);
  for (const char* bad : {"", "a\n", "a\nb\nc\nx\n\n\n", "a\nb\nc\n1\nx\n\n", "a\nb\nc\n1\n\n\n\n"})
    EXPECT_FALSE(PeerInfo::decode(bad, 3).isOk()) << bad;
}

TEST(PeerContact, EncodedAndDecodedIsTheSame) {
  PeerContact contact;
  contact.network = "tcp:10.0.0.1:77";
  contact.endpoints = {{"shm", "shm 4096"}, {"tcp", ""}};
  const auto back = PeerContact::decode(contact.encode(), 0);
  ASSERT_TRUE(back.isOk());
  EXPECT_EQ(back.value().encode(), contact.encode());
  ASSERT_NE(back.value().descriptionBy("shm"), nullptr);
  EXPECT_EQ(*back.value().descriptionBy("shm"), "shm 4096");
  EXPECT_EQ(*back.value().descriptionBy("tcp"), "");
  EXPECT_EQ(back.value().descriptionBy("ofi"), nullptr);
  for (const char* bad : {"", "x", "\nshm\n"}) EXPECT_FALSE(PeerContact::decode(bad, 3).isOk());
}

TEST(SharedCores, OnlyRanksOfOneMachineGetInEachOthersWay) {
  std::vector<PeerInfo> peers = ranksOn({"a", "b"});
  for (PeerInfo& peer : peers) peer.cpus = {0};
  peers[0].machine = peers[1].machine = "m";
  EXPECT_TRUE(sharesCores(peers, 0, 1));  // kept apart, and yet on the same core
  peers[1].machine = "another";
  EXPECT_FALSE(sharesCores(peers, 0, 1));
}

// The links of a rank as prepare() sees them, of one transport or of two.
class FakeLinks {
 public:
  FakeLinks(size_t slotBytes, bool isMixed, uint32_t extraSlots)
      : slotBytes_(slotBytes), isMixed_(isMixed), extraSlots_(extraSlots) {}

  base::Result<LinkList> open(const transports::LinkShape& shape) {
    const auto wanted = transports::streamClass(shape.stream, slotBytes_);
    const size_t links = shape.outgoing && wanted.multicast && isMixed_ ? 2 : 1;
    LinkList out;
    for (size_t i = 0; i < links; ++i) {
      transports::Link& link = all_.emplace_back();
      link.slotBytes = wanted.bodyBytes;
      link.credits = wanted.slots + extraSlots_;
      out.push_back(&link);
    }
    return out;
  }

 private:
  size_t slotBytes_;
  bool isMixed_;
  uint32_t extraSlots_;
  std::deque<transports::Link> all_;
};

// {slices, elements of a slice}, zero when it cannot be prepared.
std::pair<uint64_t, uint64_t> cutOf(const algorithms::Algorithm& algorithm,
                                    const algorithms::PlanRequest& request, const Shape& shape,
                                    FakeLinks links) {
  auto made =
      prepare(algorithm.make(request), shape, [&](const auto& link) { return links.open(link); });
  return made.isOk() ? std::pair(made->slices, made->sliceElements)
                     : std::pair<uint64_t, uint64_t>();
}

// Ranks that use other streams than their peers, or have more slots, must cut as they do.
TEST(Cut, IsTheSameOnAllRanksWhateverJoinsThem) {
  for (const algorithms::Algorithm& algorithm : algorithms::all())
    for (const int32_t nranks : {2, 3, 4, 5, 6, 7, 8, 17}) {
      // Hosts of three ranks, and what is left.
      std::vector<int32_t> hosts;
      for (int32_t rank = 0; rank < nranks; ++rank) hosts.push_back(rank / 3);
      const plan::Hierarchy hierarchy{nranks, {{hosts}}};
      for (const plan::Hierarchy* given :
           {static_cast<const plan::Hierarchy*>(nullptr), &hierarchy})
        for (const size_t slotBytes : {size_t{4096}, size_t{65536}})
          for (const uint64_t count : {0, 1, 1000, 5000, 1000003}) {
            const Shape shape{algorithm.collective, count};
            if (!algorithm.supports({0, nranks, -1, given})) continue;
            std::pair<uint64_t, uint64_t> first;
            for (int32_t rank = 0; rank < nranks; ++rank) {
              const auto cut = cutOf(algorithm, {rank, nranks, -1, given}, shape,
                                     {slotBytes, rank % 2 == 1, rank % 3 == 0 ? 14u : 0u});
              if (rank == 0) first = cut;
              ASSERT_EQ(cut, first)
                  << algorithm.name << " rank " << rank << " of " << nranks << " count " << count;
            }
            if (algorithm.name == "hierarchical") {
              EXPECT_GT(first.first, 0u) << "not prepared";
            }
          }
    }
}

TEST(Hierarchy, HasTheRanksOfAHostAsAGroup) {
  EXPECT_EQ(hierarchyOf(ranksOn({"b", "a", "b", "c"})).levels,
            (std::vector<plan::Level>{{{0, 1, 0, 2}}}));
  EXPECT_TRUE(hierarchyOf(ranksOn({"a", "a", "a"})).levels.empty());
  EXPECT_TRUE(hierarchyOf(ranksOn({"a", "b", "c"})).levels.empty());
  EXPECT_EQ(hierarchyOf(ranksOn({"a", "b"})).nranks, 2);
}

}  // namespace
}  // namespace omnes::core
