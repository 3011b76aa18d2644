// Where ranks meet, and the key they prove: from a unique id, from OMNES_COMM_ID, or from the
// launcher's job.
//
// Value type. Holds a Secret; never logged as a whole.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "core/bootstrap/interfaces.h"
#include "core/bootstrap/secret.h"
#include "core/bootstrap/unique_id.h"
#include "core/bootstrap/wire.h"

namespace omnes::core::bootstrap {

// OMNES_SECRET_FILE and OMNES_REQUIRE_SECRET.
struct SecretSettings {
  std::string file = {};
  bool isRequired = false;
};

struct MeetingPoint {
  std::string address;
  uint64_t commId = 0;
  Secret secret;
  // True: rank 0 listens at the address and the others try until it does. False: the id's maker has
  // been listening since before the id existed, so nobody listening means that the id is spent or
  // its maker has ended.
  bool isHostedByRankZero = false;
  // The key can be computed by anyone who knows the address and the user: stops strays, not
  // attackers.
  bool isSecretDerived = false;
  // Made out of another communicator: its host has listened since before the others knew of it, so
  // nobody listening means that it has died.
  bool isDerived = false;
  uint32_t wireVersion = kWireVersion;  // for tests

  // Connections between ranks are proven with a key that has this one in it as well; the host knows
  // nothing of it.
  void addKey(const Secret& other);
  // The key of connections between ranks.
  const Secret& peerSecret() const { return hasPeerSecret ? ownPeerSecret : secret; }
  Secret ownPeerSecret = {};
  bool hasPeerSecret = false;

  // Starts no host. Errors as UniqueId::decode.
  static base::Result<MeetingPoint> fromUniqueId(std::span<const uint8_t, kUniqueIdBytes> id);
  // host:port, [ip6]:port, name:port, or unix:@name. kInvalidUsage: bad form, bad secret file, or
  // no secret although one is required.
  static base::Result<MeetingPoint> fromCommId(std::string_view text, const SecretSettings& secret);
  // Of ranks that have `parent`'s key in common: key and number follow from it, from `nonce`, which
  // is fresh, and from `label`, which says who they are. Nothing of the key is ever sent.
  static MeetingPoint derived(const Secret& parent, std::string_view nonce, std::string_view label,
                              std::string address);
  // All ranks on this host: an abstract socket named by the launcher's job and the user.
  static base::Result<MeetingPoint> fromJob(std::string_view jobId, const SecretSettings& secret);
};

class MeetingHost;
// Where the host of an id listens.
struct IdOptions {
  // All ranks are on this host, or even in this process: a random abstract socket.
  bool isLocal = false;
  // Which TCP address otherwise. Where no interface is up at all, an abstract socket serves.
  NetworkOptions network = {};
  std::string address = {};  // for tests: instead of all that, e.g. "tcp:127.0.0.1:0"
};
// What omnesGetUniqueId does: a host that listens at a fresh address, and the id that leads there.
// The id is wiped at the end of this, since it has the secret in it.
struct HostedId {
  ~HostedId();
  std::array<uint8_t, kUniqueIdBytes> id{};
  std::shared_ptr<MeetingHost> host;
};
// kInvalidUsage, kInvalidArgument: no such interface, no range of ports; kSystemError: no port of
// the range is free.
base::Result<HostedId> makeHostedId(const IdOptions& options);

}  // namespace omnes::core::bootstrap
