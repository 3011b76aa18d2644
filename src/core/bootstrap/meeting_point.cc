#include "core/bootstrap/meeting_point.h"

#include <sodium.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "core/bootstrap/meeting_host.h"
#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr std::string_view kIdPurpose = "omnes unique id";

// The text both sides derive from: what they meet for, and whose they are.
std::string withUser(std::string_view text) {
  return std::string(text) + "\n" + std::to_string(::geteuid());
}

// With port 0 the system would choose one for rank 0 that the others cannot know.
Status checkPort(std::string_view text) {
  const std::string_view port = text.substr(text.rfind(':') + 1);
  if (port.find_first_not_of('0') != std::string_view::npos) return Status::ok();
  return Status(Code::kInvalidUsage,
                "OMNES_COMM_ID is '" + std::string(text) +
                    "': ranks cannot meet at port 0; give a port from 1 to 65535 that is free on "
                    "rank 0's host, the same on all ranks");
}

Status takeSecret(const SecretSettings& settings, std::string_view material, const char* source,
                  MeetingPoint* point) {
  if (!settings.file.empty()) {
    OMNES_ASSIGN_OR_RETURN(point->secret, Secret::fromFile(settings.file));
    return Status::ok();
  }
  if (settings.isRequired) {
    return Status(
        Code::kInvalidUsage,
        std::string("OMNES_REQUIRE_SECRET is set, but the key would only be derived from ") +
            source + " and the user; name a file with a secret in OMNES_SECRET_FILE on all ranks");
  }
  point->secret = Secret::derive("omnes derived", bytesOf(material));
  point->isSecretDerived = true;
  OMNES_LOG_INFO(Bootstrap,
                 "the key is derived from %s and the user: this stops strays and not attackers; "
                 "OMNES_SECRET_FILE gives a real one",
                 source);
  return Status::ok();
}

}  // namespace

Result<MeetingPoint> MeetingPoint::fromUniqueId(std::span<const uint8_t, kUniqueIdBytes> bytes) {
  OMNES_RETURN_IF_ERROR(initCrypto());
  OMNES_ASSIGN_OR_RETURN(const UniqueId id, UniqueId::decode(bytes));
  OMNES_RETURN_IF_ERROR(
      numericAddress(id.address).status().withContext("the unique id leads nowhere"));
  MeetingPoint point;
  point.address = id.address;
  point.commId = id.commId;
  point.secret = Secret::derive(kIdPurpose, id.secret);
  return point;
}

Result<MeetingPoint> MeetingPoint::fromCommId(std::string_view text, const SecretSettings& secret) {
  OMNES_RETURN_IF_ERROR(initCrypto());
  MeetingPoint point;
  if (text.starts_with("unix:@")) {
    point.address = text;
  } else {
    Result<std::string> address = tcpAddressText(text);
    if (!address.isOk()) return address.status().withContext("OMNES_COMM_ID");
    OMNES_RETURN_IF_ERROR(checkPort(text));
    point.address = std::move(address).value();
  }
  const std::string material = withUser(point.address);
  point.commId = hashText("omnes address\n" + material);
  point.isHostedByRankZero = true;
  OMNES_RETURN_IF_ERROR(takeSecret(secret, material, "OMNES_COMM_ID", &point));
  return point;
}

Result<MeetingPoint> MeetingPoint::fromJob(std::string_view jobId, const SecretSettings& secret) {
  OMNES_RETURN_IF_ERROR(initCrypto());
  MeetingPoint point;
  const std::string material = withUser(jobId);
  point.commId = hashText("omnes job\n" + material);
  // Hashed, so that any job name fits and none can spell another user's address.
  point.address =
      "unix:@omnes-job-" + std::to_string(::geteuid()) + "-" + std::to_string(hashText(material));
  point.isHostedByRankZero = true;
  OMNES_RETURN_IF_ERROR(takeSecret(secret, material, "the launcher's job", &point));
  return point;
}

void MeetingPoint::addKey(const Secret& other) {
  std::array<uint8_t, 2 * Secret::kBytes> both;
  const auto mine = peerSecret().bytes();
  std::copy(mine.begin(), mine.end(), both.begin());
  std::copy(other.bytes().begin(), other.bytes().end(), both.begin() + Secret::kBytes);
  ownPeerSecret = Secret::derive("omnes several ids", both);
  hasPeerSecret = true;
  ::sodium_memzero(both.data(), both.size());
}

MeetingPoint MeetingPoint::derived(const Secret& parent, std::string_view nonce,
                                   std::string_view label, std::string address) {
  MeetingPoint point;
  point.address = std::move(address);
  point.commId = hashText("omnes derived\n" + std::string(nonce) + std::string(label));
  point.isDerived = true;
  std::string material;
  material.reserve(Secret::kBytes + nonce.size() + label.size());  // no copy stays behind
  material.append(reinterpret_cast<const char*>(parent.bytes().data()), Secret::kBytes);
  material.append(nonce).append(label);
  point.secret = Secret::derive("omnes derived communicator", bytesOf(material));
  ::sodium_memzero(material.data(), material.size());
  return point;
}

HostedId::~HostedId() { ::sodium_memzero(id.data(), id.size()); }

namespace {

Result<std::string> addressForId(const IdOptions& options) {
  if (!options.address.empty()) return options.address;
  if (options.isLocal) return randomUnixAddress();
  OMNES_ASSIGN_OR_RETURN(const std::optional<std::string> host, chooseHost(options.network));
  if (host.has_value()) return "tcp:" + *host + ":0";
  OMNES_LOG_INFO(Bootstrap, "%s",
                 "no network interface is up: the unique id serves ranks of this host only");
  return randomUnixAddress();
}

}  // namespace

Result<HostedId> makeHostedId(const IdOptions& idOptions) {
  OMNES_RETURN_IF_ERROR(initCrypto());
  OMNES_ASSIGN_OR_RETURN(std::string address, addressForId(idOptions));
  UniqueId id = UniqueId::make(std::move(address));
  MeetingHostOptions options;
  options.address = id.address;
  Result<base::PortRange> ports = base::parsePortRange(idOptions.network.ports);
  if (!ports.isOk()) return ports.status().withContext("OMNES_PORT_RANGE");
  options.listen.ports = ports.value();
  options.commId = id.commId;
  options.secret = Secret::derive(kIdPurpose, id.secret);
  options.keepsListening = true;
  HostedId hosted;
  OMNES_ASSIGN_OR_RETURN(hosted.host, MeetingHost::start(std::move(options)));
  id.address = hosted.host->address();
  const Status encoded = id.encode(hosted.id);
  if (!encoded.isOk()) {
    hosted.host->stop();
    return encoded;
  }
  return hosted;
}

}  // namespace omnes::core::bootstrap
