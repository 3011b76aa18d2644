#include "core/bootstrap/council.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "core/bootstrap/acceptor.h"
#include "core/bootstrap/council_lines.h"
#include "core/bootstrap/frame.h"
#include "core/bootstrap/rank_list.h"
#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Deadline;
using base::Duration;
using base::Result;
using base::Status;
using base::TimePoint;

// Who comes within this is not knocked for: where a death is to be found out, and elsewhere.
constexpr Duration kKnockAfterDeath = std::chrono::milliseconds(10);
constexpr Duration kKnockElse = std::chrono::milliseconds(500);
constexpr size_t kMaxKnocks = 32;
// Between looks at who is gone.
constexpr int kNapMs = 5;
// After its deadline a rank waits this long for the word of who presides, who knows who is missing.
constexpr Duration kGrace = std::chrono::milliseconds(500);
constexpr int64_t kLastWordMs = 250;
// After a decision, for those it excludes although somebody listens for them.
constexpr int64_t kFarewellMs = 250;
// Argument of kFailed: it is about this connection's other end alone.
constexpr uint32_t kShunned = 1;

uint32_t wireMs(Deadline deadline, const base::Clock& clock) {
  if (deadline.isNever()) return 0;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining(clock)).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(ms, 1, UINT32_MAX));
}

Deadline withGrace(Deadline deadline, const base::Clock& clock) {
  if (deadline.isNever()) return deadline;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining(clock) + kGrace).count();
  return Deadline::afterMs(clock, left);
}

pollfd pollOf(const CouncilLine& line) { return {line.fd.get(), line.events(), 0}; }

// While the call pauses it has no descriptor, which poll skips.
pollfd pollOf(const CouncilCall& call) {
  if (call.line.has_value()) return pollOf(*call.line);
  return {call.link.fd(), call.link.events(), 0};
}

class Council {
 public:
  Council(const CouncilParty& party, const CouncilAgenda& agenda, const WaitLimits& limits)
      : party_(party),
        agenda_(agenda),
        limits_(limits),
        clock_(*limits.clock),
        deadline_(limits.deadline),
        patience_(withGrace(limits.deadline, *limits.clock)),
        start_(clock_.now()),
        isExcluded_(party.nranks(), false),
        blobs_(party.nranks()) {
    for (const uint32_t rank : agenda.excluded) isExcluded_[rank] = true;
  }

  Result<CouncilResult> hold(base::UniqueFd* listener);

 private:
  Result<CouncilResult> deliberate();
  Status turn();
  Status end(const Status& cause);
  void tellLate(const SharedFrame& frame);
  Status lookForGone();
  Status exclude(uint32_t rank, const std::string& why);
  uint32_t president() const;
  bool isPresident() const { return president() == party_.rank; }
  std::vector<uint32_t> excludedList() const;
  std::vector<uint32_t> missing() const;
  SharedFrame ownReport(FrameType type) const;
  SharedFrame notice(const Status& status, uint32_t argument = 0) const {
    return encodeFrame(FrameType::kFailed, status.code(), party_.rank, argument, status.message());
  }
  SharedFrame shunning() const {
    return notice(
        Status(Code::kRemoteError,
               "the other ranks take this one for dead and go on without it: somebody has "
               "lost the connection to it, or was told to leave it out"),
        kShunned);
  }

  void welcome();
  Status hearGuests();
  Status hearKnockers();
  // Reads what has come. `isOver`: the connection has ended, or must.
  Status hear(uint32_t from, CouncilLine* line, std::optional<std::string>* blob, bool* isOver);
  Status take(uint32_t from, const Frame& frame, std::optional<std::string>* blob);
  Status unite(uint32_t from, const CouncilReport& report);
  Status knock();
  Status stepKnock(uint32_t to);
  // The connection to who presides.
  Status attend();
  void leavePresident();
  void sayFarewell();
  void awaitFarewells();
  Status takeFromPresident(Frame& frame);
  Status step(CouncilCall* call, uint32_t to);
  std::unique_ptr<CouncilCall> makeCall(uint32_t to, LinkKind kind) const;
  Result<CouncilResult> decide();
  Status timeout() const;
  void flush(int64_t limitMs);
  void awaitGuestsGone();
  void wait() const;
  std::string differs(uint32_t from, const CouncilReport& report) const;

  const CouncilParty& party_;
  const CouncilAgenda& agenda_;
  const WaitLimits& limits_;
  const base::Clock& clock_;
  Deadline deadline_;  // the earliest that is known
  const Deadline patience_;
  const TimePoint start_;
  std::vector<bool> isExcluded_;
  bool hasGrown_ = false;  // isExcluded_, since the last report
  std::unique_ptr<Acceptor> acceptor_;
  std::map<uint32_t, CouncilGuest> guests_;  // by rank: those who report to us
  std::map<uint32_t, CouncilLine> knockers_;
  std::map<uint32_t, std::unique_ptr<CouncilCall>> knocks_;
  uint32_t attended_ = kNoRank;  // whom call_ leads to
  std::unique_ptr<CouncilCall> call_;
  // To those who were to preside until somebody took them for dead: they may live, and must hear.
  std::map<uint32_t, std::unique_ptr<CouncilCall>> farewells_;
  std::vector<std::string> blobs_;  // from who presides
  std::optional<CouncilDecision> decision_;
  bool isShunned_ = false;  // the others go on without this rank
  bool wasTold_ = false;    // by who presides, that the council has failed
};

uint32_t Council::president() const {
  for (uint32_t rank = 0; rank < party_.nranks(); ++rank)
    if (!isExcluded_[rank]) return rank;
  return kNoRank;
}

std::vector<uint32_t> Council::excludedList() const {
  std::vector<uint32_t> list;
  for (uint32_t rank = 0; rank < party_.nranks(); ++rank)
    if (isExcluded_[rank]) list.push_back(rank);
  return list;
}

std::vector<uint32_t> Council::missing() const {
  std::vector<uint32_t> list;
  for (uint32_t rank = 0; rank < party_.nranks(); ++rank) {
    if (isExcluded_[rank] || rank == party_.rank) continue;
    const auto guest = guests_.find(rank);
    if (guest == guests_.end() || !guest->second.blob.has_value()) list.push_back(rank);
  }
  return list;
}

SharedFrame Council::ownReport(FrameType type) const {
  CouncilReport report{agenda_.purpose, excludedList(), {}};
  if (type == FrameType::kReport) report.blob = agenda_.blob;
  return encodeFrame(type, Code::kOk, party_.rank, wireMs(deadline_, clock_), report.encode());
}

std::unique_ptr<CouncilCall> Council::makeCall(uint32_t to, LinkKind kind) const {
  const Result<SocketAddress> address = numericAddress(party_.addresses[to]);
  if (!address.isOk()) return nullptr;
  return std::make_unique<CouncilCall>(party_, to, kind, address.value(), clock_.now());
}

// A rank that has died. Not OK: the council cannot go on without it.
Status Council::exclude(uint32_t rank, const std::string& why) {
  if (isExcluded_[rank]) return Status::ok();
  if (!agenda_.excludesDead)
    return Status(Code::kRemoteError, party_.nameOf(rank) + " " + why + " and cannot come to " +
                                          agenda_.what +
                                          "; OMNES_SHRINK_FAILED makes a communicator without it");
  isExcluded_[rank] = true;
  hasGrown_ = true;
  knocks_.erase(rank);
  knockers_.erase(rank);
  const auto guest = guests_.find(rank);
  if (guest == guests_.end()) return Status::ok();
  // It may live: somebody has lost its connection.
  guest->second.line.send(shunning());
  guests_.erase(guest);
  return Status::ok();
}

Result<CouncilResult> Council::hold(base::UniqueFd* listener) {
  AcceptorOptions options;
  options.address = party_.addresses[party_.rank];
  options.secret = party_.secret;
  options.expected = {.commId = party_.commId,
                      .nranks = party_.nranks(),
                      .to = party_.rank,
                      .kind = LinkKind::kReport};
  options.kinds = 2;
  options.refusesDuplicates = false;  // the latest one counts
  OMNES_ASSIGN_OR_RETURN(acceptor_, Acceptor::adopt(std::move(*listener), options, clock_));
  Result<CouncilResult> result = deliberate();
  *listener = acceptor_->takeListener();
  return result;
}

Result<CouncilResult> Council::deliberate() {
  for (;;) {
    const Status status = turn();
    if (!status.isOk()) return end(status);
    if (decision_.has_value()) {
      CouncilResult result{std::vector<bool>(party_.nranks(), false), std::move(blobs_),
                           decision_->nonce};
      for (const uint32_t rank : decision_->excluded) result.isExcluded[rank] = true;
      if (result.isExcluded[party_.rank])
        return Status(Code::kRemoteError, "the other ranks exclude this one");
      return result;
    }
    if (isPresident() && missing().empty()) return decide();
    wait();
  }
}

Status Council::lookForGone() {
  // Who has been told the decision may be done with the communicator before others have read it.
  if (!agenda_.excludesDead && !isPresident()) return Status::ok();
  for (uint32_t rank = 0; rank < party_.nranks(); ++rank)
    if (!isExcluded_[rank] && rank != party_.rank && party_.isGone(rank))
      OMNES_RETURN_IF_ERROR(exclude(rank, "has died or has ended the communicator"));
  return Status::ok();
}

Status Council::turn() {
  if (isAborted(limits_)) return abortedStatus(agenda_.what);
  OMNES_RETURN_IF_ERROR(lookForGone());
  welcome();
  OMNES_RETURN_IF_ERROR(hearGuests());
  OMNES_RETURN_IF_ERROR(hearKnockers());
  sayFarewell();
  if (isPresident()) {
    leavePresident();
    OMNES_RETURN_IF_ERROR(knock());
  } else {
    knocks_.clear();
    OMNES_RETURN_IF_ERROR(attend());
  }
  if (decision_.has_value()) return Status::ok();
  hasGrown_ = false;
  // Who presides knows who is missing, and may say so a moment later.
  const bool mayBeTold = !isPresident() && call_ != nullptr && call_->line.has_value();
  return (mayBeTold ? patience_ : deadline_).hasPassed(clock_) ? timeout() : Status::ok();
}

Status Council::timeout() const {
  std::vector<uint32_t> late = missing();
  if (!isPresident()) late = {president()};
  return Status(Code::kTimeout, formatRanks(late) + " of " + std::to_string(party_.nranks()) +
                                    (late.size() == 1 ? " has" : " have") + " not come to " +
                                    agenda_.what + " in time: every rank" +
                                    (agenda_.excludesDead ? " that lives" : "") +
                                    " must call it; OMNES_INIT_TIMEOUT_MS sets the time");
}

void Council::welcome() {
  std::vector<ProvenConnection> proven;
  acceptor_->step(&proven, nullptr);
  for (ProvenConnection& connection : proven) {
    const ProofIdentity& who = connection.hello.identity;
    if (who.from >= party_.nranks() || who.from == party_.rank) continue;
    CouncilLine line(std::move(connection.fd));
    if (who.kind == LinkKind::kReport)
      guests_.insert_or_assign(who.from, CouncilGuest{std::move(line), std::nullopt});
    else
      knockers_.insert_or_assign(who.from, std::move(line));
  }
}

std::string Council::differs(uint32_t from, const CouncilReport& report) const {
  std::string text =
      party_.nameOf(from) + " and " + party_.nameOf(party_.rank) + " called different things: ";
  if (report.purpose != agenda_.purpose)
    return text + "'" + report.purpose + "' and '" + agenda_.purpose + "'";
  return text + agenda_.purpose + " without " + formatRanks(report.excluded) + ", and without " +
         formatRanks(excludedList()) + "; give the same list on all ranks";
}

Status Council::unite(uint32_t from, const CouncilReport& report) {
  if (report.purpose != agenda_.purpose) return Status(Code::kInvalidUsage, differs(from, report));
  if (!agenda_.excludesDead) {
    const bool isSame = report.excluded == excludedList();
    return isSame ? Status::ok() : Status(Code::kInvalidUsage, differs(from, report));
  }
  for (const uint32_t rank : report.excluded) {
    if (rank == party_.rank) {
      isShunned_ = true;
      return Status(Code::kRemoteError,
                    party_.nameOf(from) +
                        " takes this rank for dead and goes on without it: it has lost the "
                        "connection to it, or was told to leave it out");
    }
    if (rank != from) OMNES_RETURN_IF_ERROR(exclude(rank, "is dead"));
  }
  return Status::ok();
}

Status Council::take(uint32_t from, const Frame& frame, std::optional<std::string>* blob) {
  if (frame.type == FrameType::kFailed) {
    isShunned_ = frame.argument == kShunned;
    return Status(frame.code, frame.payload);
  }
  if (frame.type != FrameType::kReport && frame.type != FrameType::kKnock)
    return Status(Code::kRemoteError, party_.nameOf(from) + " sent a message that makes no sense");
  OMNES_ASSIGN_OR_RETURN(CouncilReport report,
                         CouncilReport::decode(frame.payload, party_.nranks()));
  OMNES_RETURN_IF_ERROR(unite(from, report));
  if (frame.argument != 0) {
    const Deadline theirs = Deadline::afterMs(clock_, frame.argument);
    if (theirs.remaining(clock_) < deadline_.remaining(clock_)) deadline_ = theirs;
  }
  if (blob != nullptr) *blob = std::move(report.blob);
  return Status::ok();
}

Status Council::hear(uint32_t from, CouncilLine* line, std::optional<std::string>* blob,
                     bool* isOver) {
  // Who has hung up may have said why: that is read even when nothing can be sent any more.
  const bool isDeaf = line->writer.flush(line->fd.get()) == IoState::kClosed;
  while (!*isOver) {
    const FrameReader::Outcome outcome = line->reader.read(line->fd.get());
    if (outcome == FrameReader::Outcome::kAgain) {
      *isOver = isDeaf;
      return Status::ok();
    }
    *isOver = outcome != FrameReader::Outcome::kFrame;
    if (*isOver) return Status::ok();
    if (agenda_.excludesDead && isExcluded_[from]) {
      line->send(shunning());
      *isOver = true;
      return Status::ok();
    }
    OMNES_RETURN_IF_ERROR(take(from, line->reader.frame(), blob));
  }
  return Status::ok();
}

Status Council::hearGuests() {
  // What one guest says may end the visit of another.
  std::vector<uint32_t> ranks;
  for (const auto& [rank, guest] : guests_) ranks.push_back(rank);
  for (const uint32_t rank : ranks) {
    const auto found = guests_.find(rank);
    if (found == guests_.end()) continue;
    bool isOver = false;
    OMNES_RETURN_IF_ERROR(hear(rank, &found->second.line, &found->second.blob, &isOver));
    if (isOver) guests_.erase(rank);
  }
  return Status::ok();
}

Status Council::hearKnockers() {
  std::vector<uint32_t> ranks;
  for (const auto& [rank, line] : knockers_) ranks.push_back(rank);
  for (const uint32_t rank : ranks) {
    const auto found = knockers_.find(rank);
    if (found == knockers_.end()) continue;
    bool isOver = false;
    OMNES_RETURN_IF_ERROR(hear(rank, &found->second, nullptr, &isOver));
    if (isOver) knockers_.erase(rank);
  }
  return Status::ok();
}

// Moves a connection that is being made on. The rank is excluded when nobody is there.
Status Council::step(CouncilCall* call, uint32_t to) {
  const TimePoint now = clock_.now();
  const Status status = call->link.step(now);
  // What this rank lacks says nothing about the other.
  if (status.code() == Code::kSystemError)
    return status.withContext("connecting to rank " + std::to_string(to));
  if (!status.isOk())
    return exclude(to, "is not there any more (" + std::string(status.message()) + ")");
  if (call->isUnreachable(now))
    return exclude(to, "cannot be reached (" + call->link.trouble() + ")");
  if (call->link.state() == OutgoingLink::State::kDone) call->line.emplace(call->link.take());
  return Status::ok();
}

Status Council::knock() {
  const std::vector<uint32_t> late = missing();
  std::erase_if(knocks_, [&late](const auto& entry) {
    return !std::binary_search(late.begin(), late.end(), entry.first);
  });
  const bool isAnyDead =
      std::find(isExcluded_.begin(), isExcluded_.end(), true) != isExcluded_.end();
  const Duration patience = agenda_.excludesDead && isAnyDead ? kKnockAfterDeath : kKnockElse;
  if (clock_.now() - start_ < patience) return Status::ok();
  for (const uint32_t rank : late) {
    if (guests_.contains(rank)) continue;  // it is about to report
    if (!knocks_.contains(rank)) {
      if (knocks_.size() >= kMaxKnocks) break;
      std::unique_ptr<CouncilCall> call = makeCall(rank, LinkKind::kKnock);
      if (call != nullptr) knocks_.emplace(rank, std::move(call));
    }
    if (knocks_.contains(rank)) OMNES_RETURN_IF_ERROR(stepKnock(rank));
  }
  return Status::ok();
}

Status Council::stepKnock(uint32_t to) {
  CouncilCall* call = knocks_.at(to).get();
  if (!call->line.has_value()) {
    OMNES_RETURN_IF_ERROR(step(call, to));
    const bool isThere = knocks_.contains(to) && call->line.has_value();
    if (isThere) call->line->send(ownReport(FrameType::kKnock));
    return Status::ok();
  }
  if (hasGrown_) call->line->send(ownReport(FrameType::kKnock));
  bool isOver = false;
  OMNES_RETURN_IF_ERROR(hear(to, &*call->line, nullptr, &isOver));
  if (isOver) knocks_.erase(to);  // and again, if it has not reported meanwhile
  return Status::ok();
}

Status Council::takeFromPresident(Frame& frame) {
  switch (frame.type) {
    case FrameType::kFailed:
      wasTold_ = true;
      isShunned_ = frame.argument == kShunned;
      return Status(frame.code, std::move(frame.payload));
    case FrameType::kBlob:
      if (frame.rank < party_.nranks()) blobs_[frame.rank] = std::move(frame.payload);
      return Status::ok();
    case FrameType::kDecided: {
      OMNES_ASSIGN_OR_RETURN(decision_, CouncilDecision::decode(frame.payload, party_.nranks()));
      return Status::ok();
    }
    default:
      return Status(Code::kRemoteError,
                    party_.nameOf(attended_) + " sent a message that makes no sense");
  }
}

Status Council::attend() {
  const uint32_t to = president();
  if (attended_ != to) leavePresident();
  attended_ = to;
  if (call_ == nullptr) {
    call_ = makeCall(to, LinkKind::kReport);
    if (call_ == nullptr)
      return Status(Code::kRemoteError, "rank " + std::to_string(to) + " gave '" +
                                            party_.addresses[to] +
                                            "' as its address, which is none");
  }
  if (!call_->line.has_value()) {
    OMNES_RETURN_IF_ERROR(step(call_.get(), to));
    if (!call_->line.has_value()) return Status::ok();
    call_->line->send(ownReport(FrameType::kReport));
  } else if (hasGrown_) {
    call_->line->send(ownReport(FrameType::kReport));
  }
  // Its last word is read even when it has hung up before this rank has reported.
  const bool isDeaf = call_->line->writer.flush(call_->line->fd.get()) == IoState::kClosed;
  bool isOver = false;
  while (!isOver && !decision_.has_value()) {
    const FrameReader::Outcome outcome = call_->line->reader.read(call_->line->fd.get());
    if (outcome == FrameReader::Outcome::kAgain && !isDeaf) return Status::ok();
    isOver = outcome != FrameReader::Outcome::kFrame;
    if (!isOver) OMNES_RETURN_IF_ERROR(takeFromPresident(call_->line->reader.frame()));
  }
  // Whether it has died is found out by calling it once more.
  if (isOver) call_.reset();
  return Status::ok();
}

// Nobody calls there again, so this connection is the only one that can say why. One that has
// reached nobody is dropped: that is how the dead look.
void Council::leavePresident() {
  const bool isReached = call_ != nullptr && (call_->line.has_value() ||
                                              call_->link.state() == OutgoingLink::State::kProving);
  if (isReached && isExcluded_[attended_]) {
    if (call_->line.has_value()) call_->line->send(shunning());
    farewells_.insert_or_assign(attended_, std::move(call_));
  }
  call_.reset();
  attended_ = kNoRank;
}

// A farewell is over when its word is sent, or its connection lost.
void Council::sayFarewell() {
  for (auto entry = farewells_.begin(); entry != farewells_.end();) {
    CouncilCall& call = *entry->second;
    if (!call.line.has_value()) {
      const bool isLost = !call.link.step(clock_.now()).isOk() ||
                          call.link.state() == OutgoingLink::State::kPausing;
      if (!isLost && call.link.state() == OutgoingLink::State::kDone) {
        call.line.emplace(call.link.take());
        call.line->send(shunning());
      }
      entry = isLost ? farewells_.erase(entry) : std::next(entry);
      continue;
    }
    const IoState state = call.line->writer.flush(call.line->fd.get());
    entry = state == IoState::kAgain ? std::next(entry) : farewells_.erase(entry);
  }
}

void Council::awaitFarewells() {
  const Deadline limit = Deadline::afterMs(clock_, kFarewellMs);
  for (sayFarewell(); !farewells_.empty() && !limit.hasPassed(clock_); sayFarewell()) {
    std::vector<pollfd> fds;
    for (const auto& [rank, call] : farewells_) fds.push_back(pollOf(*call));
    ::poll(fds.data(), fds.size(), kNapMs);
  }
}

Result<CouncilResult> Council::decide() {
  CouncilResult result{isExcluded_, std::vector<std::string>(party_.nranks()), {}};
  CouncilDecision decision;
  fillRandom(decision.nonce);
  decision.excluded = excludedList();
  result.nonce = decision.nonce;
  result.blobs[party_.rank] = agenda_.blob;
  for (auto& [rank, guest] : guests_)
    if (guest.blob.has_value()) result.blobs[rank] = std::move(*guest.blob);
  std::vector<SharedFrame> frames;
  for (uint32_t rank = 0; rank < party_.nranks(); ++rank)
    if (!isExcluded_[rank])
      frames.push_back(encodeFrame(FrameType::kBlob, Code::kOk, rank, 0, result.blobs[rank]));
  frames.push_back(encodeFrame(FrameType::kDecided, Code::kOk, party_.rank, 0, decision.encode()));
  for (auto& [rank, guest] : guests_)
    for (const SharedFrame& frame : frames) guest.line.writer.push(frame);
  // A guest that does not read is stopped or dying, which the meeting that follows finds out.
  flush(std::max<int64_t>(kLastWordMs, wireMs(deadline_, clock_)));
  awaitGuestsGone();
  awaitFarewells();
  return result;
}

// Sends what is queued for guests and knockers, as far as that goes within the limit.
void Council::flush(int64_t limitMs) {
  const Deadline limit = Deadline::afterMs(clock_, limitMs);
  for (;;) {
    std::vector<pollfd> fds;
    const auto add = [&fds](CouncilLine& line) {
      if (line.writer.flush(line.fd.get()) == IoState::kAgain)
        fds.push_back({line.fd.get(), POLLOUT, 0});
    };
    for (auto& [rank, guest] : guests_) add(guest.line);
    for (auto& [rank, line] : knockers_) add(line);
    if (fds.empty() || limit.hasPassed(clock_)) return;
    ::poll(fds.data(), fds.size(), kNapMs);
  }
}

// Over TCP a connection that is closed with something unread in it takes along what has not arrived
// yet: guests hang up first, when they have heard.
void Council::awaitGuestsGone() {
  if (party_.addresses[party_.rank].starts_with("unix:")) return;
  const Deadline limit = Deadline::afterMs(clock_, kLastWordMs);
  while (!guests_.empty() && !limit.hasPassed(clock_)) {
    std::vector<pollfd> fds;
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      CouncilLine& line = guest->second.line;
      FrameReader::Outcome outcome = FrameReader::Outcome::kFrame;
      while (outcome == FrameReader::Outcome::kFrame) outcome = line.reader.read(line.fd.get());
      if (outcome != FrameReader::Outcome::kAgain) {
        guest = guests_.erase(guest);
        continue;
      }
      fds.push_back({line.fd.get(), POLLIN, 0});
      ++guest;
    }
    if (!fds.empty()) ::poll(fds.data(), fds.size(), kNapMs);
  }
}

// Whoever is on its way to this rank would otherwise wait for an answer until its deadline.
void Council::tellLate(const SharedFrame& frame) {
  const Deadline limit = Deadline::afterMs(clock_, kLastWordMs);
  std::set<uint32_t> told;
  for (const auto& [rank, guest] : guests_) told.insert(rank);
  const size_t expected = party_.nranks() - excludedList().size() - 1;
  while (told.size() < expected && !limit.hasPassed(clock_)) {
    pollfd ready{acceptor_->fd(), POLLIN, 0};
    ::poll(&ready, 1, kNapMs);
    std::vector<ProvenConnection> proven;
    acceptor_->step(&proven, nullptr);
    for (ProvenConnection& connection : proven) {
      const ProofIdentity& who = connection.hello.identity;
      if (who.kind != LinkKind::kReport || who.from >= party_.nranks() || isExcluded_[who.from])
        continue;
      const auto guest = guests_.insert_or_assign(
          who.from, CouncilGuest{CouncilLine(std::move(connection.fd)), std::nullopt});
      guest.first->second.line.send(frame);
      told.insert(who.from);
    }
  }
}

// Tells all who can be reached why this rank leaves.
Status Council::end(const Status& cause) {
  // Those who still think that it presides will hear better.
  if (isShunned_) return cause;
  const bool isOwn = cause.code() == Code::kSystemError || isAborted(limits_);
  const Status told =
      isOwn ? Status(Code::kRemoteError, party_.nameOf(party_.rank) + " has left " + agenda_.what +
                                             ": " + std::string(cause.message()))
            : cause;
  const SharedFrame frame = notice(told);
  for (auto& [rank, guest] : guests_) guest.line.send(frame);
  for (auto& [rank, line] : knockers_) line.send(frame);
  for (auto& [rank, call] : knocks_)
    if (call->line.has_value()) call->line->send(frame);
  if (call_ != nullptr && call_->line.has_value() && !wasTold_) call_->line->send(frame);
  if (isPresident() && cause.code() != Code::kTimeout && !isAborted(limits_)) tellLate(frame);
  flush(kLastWordMs);
  awaitGuestsGone();
  return cause;
}

void Council::wait() const {
  std::vector<pollfd> fds{{acceptor_->fd(), POLLIN, 0}, {limits_.abortFd, POLLIN, 0}};
  const auto addLine = [&fds](const CouncilLine& line) { fds.push_back(pollOf(line)); };
  const auto addCall = [&fds](const CouncilCall& call) { fds.push_back(pollOf(call)); };
  for (const auto& [rank, guest] : guests_) addLine(guest.line);
  for (const auto& [rank, line] : knockers_) addLine(line);
  for (const auto& [rank, call] : knocks_) addCall(*call);
  for (const auto& [rank, call] : farewells_) addCall(*call);
  if (call_ != nullptr) addCall(*call_);
  ::poll(fds.data(), fds.size(), kNapMs);
}

}  // namespace

Result<CouncilResult> holdCouncil(const CouncilParty& party, const CouncilAgenda& agenda,
                                  base::UniqueFd* listener, const WaitLimits& limits) {
  if (agenda.purpose.size() > kMaxPurposeBytes || agenda.blob.size() > kMaxCouncilBlobBytes ||
      agenda.excluded.size() > kMaxListedRanks)
    return Status(Code::kInvalidArgument,
                  agenda.what + ": at most 4096 ranks can be left out, and texts have 16384 bytes");
  return Council(party, agenda, limits).hold(listener);
}

}  // namespace omnes::core::bootstrap
