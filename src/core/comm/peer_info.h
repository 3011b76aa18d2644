// Who and where a rank is, as all ranks tell each other before they connect.
//
// Value types and pure functions, except for describeSelf(), which asks the system.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace omnes::core {

struct PeerInfo {
  // Round 0: in the blob in this order.
  std::string host;          // name, for messages
  std::string machine;       // equal on ranks whose processors are the same ones
  std::string hostIdentity;  // equal on ranks that share memory
  int64_t pid = 0;           // as it calls itself, for messages
  std::vector<int> cpus;     // that it may run on
  std::string channel;       // address of its local listener
  // Found out while connecting.
  int64_t visiblePid = 0;  // as our process namespace calls it; 0 = not visible from here

  // "rank 3 (host a, process 123)"
  std::string nameAs(int32_t rank) const;
  // One field a line; docs/wire.md describes it.
  std::string encode() const;
  static base::Result<PeerInfo> decode(std::string_view blob, int32_t rank);
};

// All but the channel. hostId: OMNES_HOST_ID, empty = the kernel's own name for this boot.
PeerInfo describeSelf(const std::string& hostId);

// How a rank is reached: its blob of round 1.
struct PeerContact {
  std::string network;  // address of its network listener; empty = it needs none
  // What its endpoints described, each with the name of its transport.
  std::vector<std::pair<std::string, std::string>> endpoints;

  // Null when it has no endpoint of that name.
  const std::string* descriptionBy(std::string_view transport) const;
  std::string encode() const;
  static base::Result<PeerContact> decode(std::string_view blob, int32_t rank);
};

// Whether the ranks of this machine get in each other's way on the cores that `rank` may use.
bool sharesCores(const std::vector<PeerInfo>& peers, int32_t rank, int usableCores);

// Whether that is so anywhere, as far as all ranks know of each other: the same answer on each of
// them.
bool anyShareCores(const std::vector<PeerInfo>& peers);

}  // namespace omnes::core
