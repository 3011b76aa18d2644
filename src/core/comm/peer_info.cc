#include "core/comm/peer_info.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/cpus.h"
#include "base/proc_file.h"
#include "base/text.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

Status badForm(int32_t rank) {
  return Status(Code::kRemoteError,
                "rank " + std::to_string(rank) + " described itself in a form we do not know");
}

// Equal for all processes between two starts of the machine, whatever containers they are in.
std::string machineName() {
  std::string id = base::readProcFile("/proc/sys/kernel/random/boot_id");
  if (id.empty()) id = "host " + base::hostname();
  id.erase(std::remove(id.begin(), id.end(), '\n'), id.end());
  return id;
}

// Memory is handed over abstract sockets, which reach no further than their network namespace.
std::string networkNamespace() {
  char target[PATH_MAX];
  const ssize_t length = readlink("/proc/self/ns/net", target, sizeof target);
  return length <= 0 ? "unknown network" : std::string(target, static_cast<size_t>(length));
}

}  // namespace

std::string PeerInfo::nameAs(int32_t rank) const {
  return "rank " + std::to_string(rank) + " (host " + host + ", process " + std::to_string(pid) +
         ")";
}

std::string PeerInfo::encode() const {
  std::string list;
  for (const int cpu : cpus) list += (list.empty() ? "" : ",") + std::to_string(cpu);
  return host + "\n" + machine + "\n" + hostIdentity + "\n" + std::to_string(pid) + "\n" + list +
         "\n" + channel + "\n";
}

Result<PeerInfo> PeerInfo::decode(std::string_view blob, int32_t rank) {
  std::vector<std::string> lines = linesOf(blob);
  if (lines.size() != 6) return badForm(rank);
  PeerInfo info;
  info.host = lines[0];
  info.machine = lines[1];
  info.hostIdentity = lines[2];
  const auto pid = base::parseInt(lines[3]);
  if (!pid.isOk()) return badForm(rank);
  info.pid = pid.value();
  for (const std::string_view cpu : base::splitList(lines[4])) {
    const auto number = base::parseInt(cpu);
    if (!number.isOk()) return badForm(rank);
    info.cpus.push_back(static_cast<int>(number.value()));
  }
  info.channel = lines[5];
  return info;
}

PeerInfo describeSelf(const std::string& hostId) {
  PeerInfo info;
  info.host = base::hostname();
  info.machine = machineName();
  // Users do not share: who may not look into the other's process may not look into its memory.
  info.hostIdentity = (hostId.empty() ? info.machine : "OMNES_HOST_ID " + hostId) + ", " +
                      networkNamespace() + ", user " + std::to_string(geteuid());
  info.pid = getpid();
  info.cpus = base::allowedCpus();
  return info;
}

const std::string* PeerContact::descriptionBy(std::string_view transport) const {
  for (const auto& [name, text] : endpoints)
    if (name == transport) return &text;
  return nullptr;
}

std::string PeerContact::encode() const {
  std::string out = network + "\n";
  for (const auto& [name, text] : endpoints) out.append(name).append(" ").append(text).append("\n");
  return out;
}

Result<PeerContact> PeerContact::decode(std::string_view blob, int32_t rank) {
  const std::vector<std::string> lines = linesOf(blob);
  if (lines.empty()) return badForm(rank);
  PeerContact contact;
  contact.network = lines[0];
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t space = lines[i].find(' ');
    if (space == std::string::npos) return badForm(rank);
    contact.endpoints.emplace_back(lines[i].substr(0, space), lines[i].substr(space + 1));
  }
  return contact;
}

namespace {

// More than one rank's worth on a core, and some.
constexpr double kOverload = 1.001;

// How many ranks there are on each core of a machine. Every rank spreads itself evenly over its
// cores.
std::map<int, double> loadOf(const std::vector<PeerInfo>& peers, const std::string& machine) {
  std::map<int, double> load;
  for (const PeerInfo& peer : peers) {
    if (peer.machine != machine) continue;
    for (const int cpu : peer.cpus) load[cpu] += 1.0 / static_cast<double>(peer.cpus.size());
  }
  return load;
}

}  // namespace

bool anyShareCores(const std::vector<PeerInfo>& peers) {
  std::map<std::string_view, bool> seen;
  for (const PeerInfo& peer : peers) {
    if (!seen.try_emplace(peer.machine, true).second) continue;
    for (const auto& [cpu, load] : loadOf(peers, peer.machine))
      if (load > kOverload) return true;
  }
  return false;
}

bool sharesCores(const std::vector<PeerInfo>& peers, int32_t rank, int usableCores) {
  const auto here = std::count_if(peers.begin(), peers.end(), [&](const PeerInfo& peer) {
    return peer.machine == peers[rank].machine;
  });
  if (here <= 1) return false;
  std::map<int, double> load = loadOf(peers, peers[rank].machine);
  double most = 0;
  for (const int cpu : peers[rank].cpus) most = std::max(most, load[cpu]);
  // A quota of processor time binds like fewer cores (the ranks of this machine share it).
  const bool quotaBinds =
      usableCores < static_cast<int>(peers[rank].cpus.size()) && here > usableCores;
  return most > kOverload || quotaBinds;
}

}  // namespace omnes::core
