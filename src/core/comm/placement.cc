#include "core/comm/placement.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/bootstrap/rank_list.h"
#include "transports/streams.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;

bool contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Without a network all ranks must share one host.
Status checkOneHost(const std::vector<PeerInfo>& peers) {
  for (size_t rank = 1; rank < peers.size(); ++rank)
    if (peers[rank].hostIdentity != peers[0].hostIdentity)
      return Status(Code::kInvalidUsage,
                    peers[0].nameAs(0) + " and " + peers[rank].nameAs(static_cast<int32_t>(rank)) +
                        " do not share memory (" + peers[0].hostIdentity + "; " +
                        peers[rank].hostIdentity +
                        "), and OMNES_TRANSPORTS leaves out what joins hosts; add tcp to it");
  return Status::ok();
}

int32_t largestHost(const std::vector<PeerInfo>& peers) {
  std::map<std::string_view, int32_t> ranks;
  int32_t most = 1;
  for (const PeerInfo& peer : peers) most = std::max(most, ++ranks[peer.hostIdentity]);
  return most;
}

}  // namespace

Result<Placement> place(const std::vector<PeerInfo>& peers, int32_t rank,
                        const std::vector<std::string>& transports, size_t slotBytesWish) {
  const bool mayShare = contains(transports, kSharedMemory);
  if (!contains(transports, kNetwork)) OMNES_RETURN_IF_ERROR(checkOneHost(peers));
  Placement out;
  // By who shares a host even when nobody may share memory: the same call is cut alike then.
  out.slotBytes = transports::slotBytesFor(largestHost(peers), slotBytesWish);
  PlacedEndpoint shared{kSharedMemory, {}};
  PlacedEndpoint network{kNetwork, {}};
  for (int32_t peer = 0; peer < static_cast<int32_t>(peers.size()); ++peer) {
    const bool isOwn = peer == rank;
    const bool isHere = mayShare && peers[peer].hostIdentity == peers[rank].hostIdentity;
    if (isOwn || isHere) shared.members.push_back(peer);
    if (isOwn || !isHere) network.members.push_back(peer);
  }
  if (shared.members.size() > 1) out.endpoints.push_back(std::move(shared));
  if (network.members.size() > 1) out.endpoints.push_back(std::move(network));
  return out;
}

bool usesNetwork(const std::vector<PeerInfo>& peers, const std::vector<std::string>& transports) {
  return peers.size() > 1 && (!contains(transports, kSharedMemory) || !checkOneHost(peers).isOk());
}

plan::Hierarchy hierarchyOf(const std::vector<PeerInfo>& peers) {
  std::map<std::string_view, int32_t> hosts;
  plan::Level level;
  for (const PeerInfo& peer : peers)
    level.group.push_back(
        hosts.try_emplace(peer.hostIdentity, static_cast<int32_t>(hosts.size())).first->second);
  return plan::simplified({static_cast<int32_t>(peers.size()), {std::move(level)}});
}

std::string describe(const Placement& placement, int32_t rank) {
  std::string out;
  for (const PlacedEndpoint& endpoint : placement.endpoints) {
    std::vector<uint32_t> others;
    for (const int32_t member : endpoint.members)
      if (member != rank) others.push_back(static_cast<uint32_t>(member));
    out += (out.empty() ? "" : ", ") + bootstrap::formatRanks(others) + " by " + endpoint.transport;
  }
  return out.empty() ? "no other rank" : out;
}

}  // namespace omnes::core
