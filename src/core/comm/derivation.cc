#include "core/comm/derivation.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/event.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/bootstrap/council.h"
#include "core/bootstrap/meeting_host.h"
#include "core/bootstrap/socket_address.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;
using bootstrap::CouncilAgenda;
using bootstrap::CouncilResult;
using bootstrap::ListeningSocket;
using bootstrap::MeetingPoint;
using bootstrap::WaitLimits;

constexpr const char* kIdPurpose = "omnes grow";

// What ends the derivation: the caller's abort, or the end of the origin.
struct Ends {
  base::Epoll epoll;
  std::shared_ptr<const void> abort;
  std::shared_ptr<Roster> roster;
};

// Whoever holds the origin may do so for long.
class TurnEnd {
 public:
  explicit TurnEnd(Turn& turn) : turn_(turn) {}
  ~TurnEnd() { turn_.end(); }
  TurnEnd(const TurnEnd&) = delete;
  TurnEnd& operator=(const TurnEnd&) = delete;

 private:
  Turn& turn_;
};

struct Task {
  Roster& roster;
  const CommSettings& settings;
  AbortSignal ends;
  WaitLimits limits;
};

Result<Task> begin(const Origin& origin, const AbortSignal& abort) {
  const base::Clock& clock = base::Clock::monotonic();
  Roster& roster = origin.turn->roster();
  OMNES_ASSIGN_OR_RETURN(base::Epoll epoll, base::Epoll::open());
  OMNES_RETURN_IF_ERROR(epoll.add(roster.endedFd(), EPOLLIN, 0));
  if (abort.fd >= 0) OMNES_RETURN_IF_ERROR(epoll.add(abort.fd, EPOLLIN, 1));
  const int fd = epoll.fd();
  auto owner = std::make_shared<Ends>(Ends{std::move(epoll), abort.owner, origin.turn->owner()});
  Task task{roster, origin.settings, {std::move(owner), fd}, {}};
  task.limits = {base::Deadline::afterMs(clock, origin.settings.initTimeoutMs), &clock, fd};
  OMNES_RETURN_IF_ERROR(origin.turn->await(task.limits));
  return task;
}

// Where this rank would host the meeting, should it be the one.
Result<ListeningSocket> listenAnew(const Task& task) {
  const std::string& own = task.roster.addresses()[task.roster.rank()];
  bootstrap::ListenOptions options;
  Result<base::PortRange> ports = base::parsePortRange(task.settings.portRange);
  if (!ports.isOk()) return ports.status().withContext("OMNES_PORT_RANGE");
  options.ports = ports.value();
  const bool isLocal = own.starts_with("unix:");
  return bootstrap::listenOn(
      isLocal ? bootstrap::randomUnixAddress() : own.substr(0, own.rfind(':')) + ":0", options);
}

Result<CouncilResult> confer(const Task& task, const CouncilAgenda& agenda) {
  Roster& roster = task.roster;
  const bootstrap::CouncilParty party{
      .secret = roster.secret(),
      .commId = roster.commId(),
      .rank = static_cast<uint32_t>(roster.rank()),
      .addresses = roster.addresses(),
      .isGone =
          [&roster](uint32_t rank) {
            const auto number = static_cast<int32_t>(rank);
            return roster.isDead(number) || roster.hasLeft(number);
          },
      .nameOf = [&roster](uint32_t rank) { return roster.nameOf(static_cast<int32_t>(rank)); }};
  return bootstrap::holdCouncil(party, agenda, roster.listener(), task.limits);
}

CommSettings withTimeLeft(const Task& task) {
  CommSettings settings = task.settings.withTimeLeft(task.limits.deadline, *task.limits.clock);
  settings.meeting.clear();  // how the origin met
  return settings;
}

// A group of old ranks, in their new order, that becomes a communicator.
struct Members {
  std::vector<int32_t> ranks;
  std::string address;  // of the first one's new listener
};

// A member that dies after the council and before it has connected is missed by no connection of
// the meeting. Its host looks for such deaths in the origin, and gives up; once all have met that
// has no effect.
class MemberWatch {
 public:
  static Result<MemberWatch> start(const Roster& roster, std::vector<int32_t> members,
                                   std::shared_ptr<bootstrap::MeetingHost> host) {
    OMNES_ASSIGN_OR_RETURN(base::EventFd stop, base::EventFd::open());
    auto shared = std::make_shared<base::EventFd>(std::move(stop));
    OMNES_ASSIGN_OR_RETURN(
        base::Thread thread,
        base::Thread::start("omnes-members", [&roster, members = std::move(members),
                                              host = std::move(host), shared] {
          pollfd stopped{shared->fd(), POLLIN, 0};
          do {
            for (const int32_t member : members) {
              if (!roster.isDead(member)) continue;
              return host->giveUp(
                  Status(Code::kRemoteError, roster.nameOf(member) + " died before all had met"));
            }
          } while (::poll(&stopped, 1, kLookMs) <= 0);
        }));
    return MemberWatch(std::move(shared), std::move(thread));
  }
  MemberWatch(MemberWatch&&) = default;
  ~MemberWatch() {
    if (stop_ != nullptr) stop_->signal();
  }

 private:
  static constexpr int kLookMs = 10;

  MemberWatch(std::shared_ptr<base::EventFd> stop, base::Thread thread)
      : stop_(std::move(stop)), thread_(std::move(thread)) {}

  std::shared_ptr<base::EventFd> stop_;
  base::Thread thread_;  // joined after the signal
};

// Meets the other members. mayHaveFormed: see wire().
Result<std::unique_ptr<Communicator>> meet(const Task& task, const CouncilResult& council,
                                           const Members& members, ListeningSocket own,
                                           bool* mayHaveFormed) {
  const auto place = std::find(members.ranks.begin(), members.ranks.end(), task.roster.rank());
  const auto rank = static_cast<int32_t>(place - members.ranks.begin());
  std::string label;
  for (const int32_t member : members.ranks) label += std::to_string(member) + "\n";
  const std::string_view nonce(reinterpret_cast<const char*>(council.nonce.data()),
                               council.nonce.size());
  const MeetingPoint point =
      MeetingPoint::derived(task.roster.secret(), nonce, label, members.address);
  std::shared_ptr<bootstrap::MeetingHost> host;
  std::optional<MemberWatch> watch;
  if (rank == 0) {
    bootstrap::MeetingHostOptions options;
    options.address = own.address;
    options.listener = std::move(own.fd);
    options.secret = point.secret;
    options.commId = point.commId;
    options.keepsListening = false;
    OMNES_ASSIGN_OR_RETURN(host, bootstrap::MeetingHost::start(std::move(options)));
    OMNES_ASSIGN_OR_RETURN(MemberWatch started,
                           MemberWatch::start(task.roster, members.ranks, host));
    watch.emplace(std::move(started));
  }
  own.fd.reset();
  auto made = Communicator::join(point, rank, static_cast<int32_t>(members.ranks.size()),
                                 withTimeLeft(task), task.ends, mayHaveFormed);
  if (!made.isOk() && host != nullptr) host->giveUp(made.status());
  return made;
}

// What a rank says in the council of a split.
struct SplitWord {
  int32_t color = 0;
  int32_t key = 0;
  std::string address;

  std::string encode() const {
    return std::to_string(color) + " " + std::to_string(key) + " " + address;
  }
  static std::optional<SplitWord> decode(const std::string& blob) {
    const size_t first = blob.find(' ');
    const size_t second = first == std::string::npos ? first : blob.find(' ', first + 1);
    if (second == std::string::npos) return std::nullopt;
    const auto color = base::parseInt(std::string_view(blob).substr(0, first));
    const auto key = base::parseInt(std::string_view(blob).substr(first + 1, second - first - 1));
    if (!color.isOk() || !key.isOk()) return std::nullopt;
    return SplitWord{static_cast<int32_t>(color.value()), static_cast<int32_t>(key.value()),
                     blob.substr(second + 1)};
  }
};

// The ranks of a colour by (key, rank).
Result<Members> membersOf(int32_t color, const CouncilResult& council) {
  std::vector<std::pair<int32_t, int32_t>> order;
  std::vector<std::string> addresses;
  for (size_t rank = 0; rank < council.blobs.size(); ++rank) {
    const std::optional<SplitWord> word = SplitWord::decode(council.blobs[rank]);
    if (!word.has_value())
      return Status(Code::kRemoteError, "rank " + std::to_string(rank) +
                                            " sent a colour in a form that we do not know");
    addresses.push_back(word->address);
    if (word->color == color) order.emplace_back(word->key, static_cast<int32_t>(rank));
  }
  std::sort(order.begin(), order.end());
  Members members;
  for (const auto& [key, rank] : order) members.ranks.push_back(rank);
  if (!members.ranks.empty()) members.address = addresses[members.ranks.front()];
  return members;
}

}  // namespace

Result<std::unique_ptr<Communicator>> split(const Origin& origin, int32_t color, int32_t key,
                                            const AbortSignal& abort) {
  const TurnEnd turnEnd(*origin.turn);
  OMNES_ASSIGN_OR_RETURN(const Task task, begin(origin, abort));
  OMNES_ASSIGN_OR_RETURN(ListeningSocket own, listenAnew(task));
  CouncilAgenda agenda{.what = "omnesCommSplit", .purpose = "omnesCommSplit"};
  agenda.blob = SplitWord{color, key, own.address}.encode();
  OMNES_ASSIGN_OR_RETURN(const CouncilResult council, confer(task, agenda));
  if (color == kNoColor) return std::unique_ptr<Communicator>();
  OMNES_ASSIGN_OR_RETURN(const Members members, membersOf(color, council));
  return meet(task, council, members, std::move(own), nullptr);
}

Result<std::unique_ptr<Communicator>> shrink(const Origin& origin, const ShrinkWish& wish,
                                             const AbortSignal& abort) {
  const TurnEnd turnEnd(*origin.turn);
  OMNES_ASSIGN_OR_RETURN(const Task task, begin(origin, abort));
  CouncilAgenda agenda{
      .what = "omnesCommShrink",
      .purpose = wish.withoutDead ? "omnesCommShrink with OMNES_SHRINK_FAILED" : "omnesCommShrink",
      .excluded = wish.excluded,
      .excludesDead = wish.withoutDead};
  // Each attempt fails for a death that the next one knows of.
  for (int32_t attempt = 0;; ++attempt) {
    OMNES_ASSIGN_OR_RETURN(ListeningSocket own, listenAnew(task));
    agenda.blob = own.address;
    OMNES_ASSIGN_OR_RETURN(const CouncilResult council, confer(task, agenda));
    Members members;
    for (int32_t rank = 0; rank < task.roster.nranks(); ++rank) {
      if (!council.isExcluded[rank])
        members.ranks.push_back(rank);
      else if (wish.withoutDead)
        task.roster.noteDead(rank);
    }
    members.address = council.blobs[members.ranks.front()];
    bool mayHaveFormed = false;
    auto made = meet(task, council, members, std::move(own), &mayHaveFormed);
    if (made.isOk() || !wish.withoutDead || made.status().code() != Code::kRemoteError) return made;
    if (bootstrap::isAborted(task.limits)) return made;
    if (mayHaveFormed)
      return made.status().withContext(
          "a rank died while the survivors connected, so that some of them may have a communicator "
          "that is broken; call omnesCommShrink of the old one again on all ranks");
    if (attempt >= task.roster.nranks()) return made;
    OMNES_LOG_INFO(Init, "rank %d shrinks once more: %s", task.roster.rank(),
                   std::string(made.status().message()).c_str());
  }
}

Result<std::unique_ptr<Communicator>> grow(const Origin& origin, int32_t nranks,
                                           const std::string& id, const AbortSignal& abort) {
  const TurnEnd turnEnd(*origin.turn);
  OMNES_ASSIGN_OR_RETURN(const Task task, begin(origin, abort));
  const bootstrap::Secret& secret = task.roster.secret();
  CouncilAgenda agenda{.what = "omnesCommGrow",
                       .purpose = "omnesCommGrow to " + std::to_string(nranks) + " ranks"};
  if (!id.empty()) agenda.blob = bootstrap::seal(secret, kIdPurpose, bootstrap::bytesOf(id));
  OMNES_ASSIGN_OR_RETURN(const CouncilResult council, confer(task, agenda));
  std::string known;
  int32_t knownFrom = -1;
  for (int32_t rank = 0; rank < task.roster.nranks(); ++rank) {
    if (council.blobs[rank].empty()) continue;
    OMNES_ASSIGN_OR_RETURN(std::string theirs,
                           bootstrap::unseal(secret, kIdPurpose, council.blobs[rank]));
    if (knownFrom >= 0 && theirs != known)
      return Status(Code::kInvalidUsage, "ranks " + std::to_string(knownFrom) + " and " +
                                             std::to_string(rank) +
                                             " passed different ids to omnesCommGrow");
    known = std::move(theirs);
    knownFrom = rank;
  }
  if (known.size() != bootstrap::kUniqueIdBytes)
    return Status(Code::kInvalidUsage,
                  "no rank passed an id to omnesCommGrow; the one that made it passes it");
  std::array<uint8_t, bootstrap::kUniqueIdBytes> bytes;
  std::memcpy(bytes.data(), known.data(), bytes.size());
  OMNES_ASSIGN_OR_RETURN(const MeetingPoint point, MeetingPoint::fromUniqueId(bytes));
  return Communicator::join(point, task.roster.rank(), nranks, withTimeLeft(task), task.ends);
}

}  // namespace omnes::core
