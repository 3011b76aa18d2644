// Which transport joins which ranks: shared memory where two share a host, the network elsewhere.
//
// A pure function of what all ranks have told each other and of agreed settings, so that all ranks
// decide alike without another word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/comm/peer_info.h"
#include "plan/hierarchy.h"

namespace omnes::core {

inline constexpr const char* kSharedMemory = "shm";
inline constexpr const char* kNetwork = "tcp";

// One endpoint of a rank.
struct PlacedEndpoint {
  const char* transport = kSharedMemory;
  std::vector<int32_t> members;  // ascending, the own rank among them
};

struct Placement {
  std::vector<PlacedEndpoint> endpoints;  // none for a rank that is alone
  // Of all links of the communicator, whatever carries them: ranks cut messages by it.
  size_t slotBytes = 0;
};

// transports: the names of those that may be used. slotBytesWish: OMNES_SLOT_BYTES. kInvalidUsage
// names two ranks that nothing may join, the same on all ranks.
base::Result<Placement> place(const std::vector<PeerInfo>& peers, int32_t rank,
                              const std::vector<std::string>& transports, size_t slotBytesWish);

// Whether some ranks are joined by the network. The same on all ranks.
bool usesNetwork(const std::vector<PeerInfo>& peers, const std::vector<std::string>& transports);

// The ranks of a host as a group, simplified: no level when all share one host, or no two do. By
// who shares a host even when nobody may share memory, as for slots. The same on all ranks.
plan::Hierarchy hierarchyOf(const std::vector<PeerInfo>& peers);

// "ranks 0, 1 by shm, ranks 2-4 by tcp"
std::string describe(const Placement& placement, int32_t rank);

}  // namespace omnes::core
