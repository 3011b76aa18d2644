#include "core/bootstrap/meeting.h"

#include <algorithm>

#include "core/bootstrap/rank_list.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;

std::string_view takeLine(std::string_view* text) {
  const size_t end = text->find('\n');
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return line;
}

std::string_view nameIn(std::string_view line) { return line.substr(0, line.find('=')); }

std::string_view valueIn(std::string_view line) {
  const size_t at = line.find('=');
  return at == std::string_view::npos ? std::string_view() : line.substr(at + 1);
}

}  // namespace

std::string describeDifference(std::string_view mine, std::string_view theirs,
                               std::string_view nameOfMine, std::string_view nameOfTheirs) {
  while (!mine.empty() || !theirs.empty()) {
    const std::string_view a = takeLine(&mine);
    const std::string_view b = takeLine(&theirs);
    if (a == b) continue;
    std::string text("the setting ");
    text.append(a.empty() ? nameIn(b) : nameIn(a)).append(" differs: '");
    // Lines with different names mean that one side has a setting the other lacks altogether.
    text.append(valueIn(a)).append("' on ").append(nameOfMine).append(", '");
    text.append(nameIn(a) == nameIn(b) || a.empty() ? valueIn(b) : std::string_view())
        .append("' on ");
    return text.append(nameOfTheirs).append("; set it alike on all ranks");
  }
  return {};
}

std::string Meeting::nameOf(uint32_t rank) const {
  std::string text = "rank " + std::to_string(rank);
  const JoinInfo& info = members_[rank].info;
  if (!info.host.empty())
    text += " (process " + std::to_string(info.pid) + " on " + info.host + ")";
  return text;
}

void Meeting::sendToAll(const SharedFrame& frame, uint32_t except) {
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    if (rank != except && isConnected(rank)) send_(rank, frame);
  }
}

void Meeting::fail(Code code, const std::string& text) {
  if (state_ == State::kFailed) return;
  state_ = State::kFailed;
  deadline_ = base::Deadline::never();
  failure_ = encodeFrame(FrameType::kFailed, code, kNoRank, 0, text);
  sendToAll(failure_);
}

SharedFrame Meeting::lastWord() const {
  if (failure_ != nullptr) return failure_;
  return encodeFrame(FrameType::kFailed, Code::kInvalidUsage, kNoRank, 0,
                     "the unique id is spent: its communicator has met already; get a new one from "
                     "omnesGetUniqueId");
}

bool Meeting::admit(const Hello& hello) {
  const ProofIdentity& who = hello.identity;
  if (state_ != State::kGathering) {
    const bool isLate =
        who.from < members_.size() && members_[who.from].presence == Presence::kAbsent;
    if (isLate) members_[who.from].presence = Presence::kGone;
    return false;
  }
  if (members_.empty()) {
    members_.resize(who.nranks);
    firstRank_ = who.from;
  }
  if (who.nranks != members_.size()) {
    fail(Code::kInvalidUsage, "ranks disagree on their number: rank " + std::to_string(who.from) +
                                  " was started with " + std::to_string(who.nranks) + " ranks, " +
                                  nameOf(firstRank_) + " with " + std::to_string(members_.size()));
    return false;
  }
  Member& member = members_[who.from];
  if (member.presence != Presence::kAbsent) {
    fail(Code::kInvalidUsage, "two processes claim rank " + std::to_string(who.from) + " of " +
                                  std::to_string(members_.size()) + "; the first is " +
                                  nameOf(who.from));
    return false;
  }
  member.presence = Presence::kProven;
  return true;
}

bool Meeting::hasSeenAll() const {
  return std::none_of(members_.begin(), members_.end(),
                      [](const Member& member) { return member.presence == Presence::kAbsent; });
}

void Meeting::onRefused(const base::Status& reason) {
  if (state_ == State::kGathering) fail(reason.code(), std::string(reason.message()));
}

void Meeting::shorten(uint32_t milliseconds) {
  if (milliseconds == 0) return;
  const base::Deadline theirs = base::Deadline::afterMs(clock_, milliseconds);
  if (theirs.remaining(clock_) < deadline_.remaining(clock_)) deadline_ = theirs;
}

bool Meeting::onFrame(uint32_t rank, Frame& frame) {
  switch (frame.type) {
    case FrameType::kJoin: return onJoin(rank, frame);
    case FrameType::kBlob: return onBlob(rank, frame);
    case FrameType::kError: onError(rank, frame); return true;
    case FrameType::kEntered: return onEntered(rank, frame);
    case FrameType::kGoodbye:
      if (state_ == State::kGathering) return false;
      members_[rank].presence = Presence::kLeft;
      if (state_ == State::kMet)
        sendToAll(encodeFrame(FrameType::kGoodbye, Code::kOk, rank, 0, {}));
      return true;
    default: return false;
  }
}

bool Meeting::onJoin(uint32_t rank, const Frame& frame) {
  Member& member = members_[rank];
  if (state_ == State::kFailed) return true;  // crossed with the failure, which is on its way
  if (member.presence != Presence::kProven) return false;
  base::Result<JoinInfo> info = JoinInfo::decode(frame.payload);
  if (!info.isOk()) return false;
  member.info = std::move(info).value();
  member.presence = Presence::kJoined;
  ++joined_;
  shorten(frame.argument);
  checkSettings(rank);
  if (state_ == State::kGathering && joined_ == members_.size()) meet();
  return true;
}

void Meeting::checkSettings(uint32_t rank) {
  for (uint32_t other = 0; other < members_.size(); ++other) {
    if (other == rank || members_[other].presence != Presence::kJoined) continue;
    const std::string difference = describeDifference(
        members_[other].info.settings, members_[rank].info.settings, nameOf(other), nameOf(rank));
    if (!difference.empty()) fail(Code::kInvalidUsage, difference);
    return;  // all who joined before agree with each other
  }
}

void Meeting::meet() {
  state_ = State::kMet;
  deadline_ = base::Deadline::never();
  std::string payload(8 * (members_.size() + 1), '\0');
  auto* bytes = reinterpret_cast<uint8_t*>(payload.data());
  putLe<uint64_t>(bytes, processToken());
  for (size_t i = 0; i < members_.size(); ++i)
    putLe<uint64_t>(bytes + 8 * (i + 1), members_[i].info.processToken);
  sendToAll(encodeFrame(FrameType::kMet, Code::kOk, kNoRank, 0, payload));
}

bool Meeting::onBlob(uint32_t rank, Frame& frame) {
  if (state_ == State::kFailed) return true;
  Member& member = members_[rank];
  if (state_ != State::kMet || member.blob != nullptr || frame.argument != round_ ||
      frame.payload.size() < 4) {
    return false;
  }
  shorten(getLe<uint32_t>(reinterpret_cast<const uint8_t*>(frame.payload.data())));
  member.blob = encodeFrame(FrameType::kBlob, Code::kOk, rank, round_,
                            std::string_view(frame.payload).substr(4));
  if (++blobs_ == members_.size()) finishRound();
  return true;
}

void Meeting::finishRound() {
  for (Member& member : members_) {
    sendToAll(member.blob);
    member.blob.reset();
  }
  ++round_;
  blobs_ = 0;
  deadline_ = base::Deadline::never();
}

void Meeting::onError(uint32_t rank, const Frame& frame) {
  if (state_ == State::kGathering) {
    fail(Code::kRemoteError, nameOf(rank) + " gave up joining: " + frame.payload);
  } else if (state_ == State::kMet) {
    sendToAll(encodeFrame(FrameType::kError, frame.code, frame.rank, 0, frame.payload), rank);
  }
}

bool Meeting::onEntered(uint32_t rank, const Frame& frame) {
  const uint32_t to = frame.argument;
  if (frame.payload.size() > kMaxEnteredBytes || (to != kNoRank && to >= members_.size()))
    return false;
  if (state_ != State::kMet) return state_ == State::kFailed;
  // Whatever it says of itself, it speaks for its own rank only.
  const SharedFrame passed = encodeFrame(FrameType::kEntered, Code::kOk, rank, to, frame.payload);
  if (to == kNoRank)
    sendToAll(passed, rank);
  else if (isConnected(to))
    send_(to, passed);
  return true;
}

void Meeting::onClosed(uint32_t rank) {
  if (!isConnected(rank)) return;
  members_[rank].presence = Presence::kGone;
  if (state_ == State::kGathering) {
    fail(Code::kRemoteError, nameOf(rank) + " died or broke off while joining");
  } else if (state_ == State::kMet) {
    const std::string text = nameOf(rank) + " is gone: its process died or dropped the connection";
    sendToAll(encodeFrame(FrameType::kGone, Code::kRemoteError, rank, 0, text));
  }
}

void Meeting::onTime() {
  if (!deadline_.hasPassed(clock_)) return;
  std::vector<uint32_t> missing;
  const bool isGathering = state_ == State::kGathering;
  for (uint32_t rank = 0; rank < members_.size(); ++rank) {
    const Member& member = members_[rank];
    if (isGathering ? member.presence != Presence::kJoined : member.blob == nullptr)
      missing.push_back(rank);
  }
  fail(Code::kTimeout,
       formatRanks(missing) + " of " + std::to_string(members_.size()) +
           (missing.size() == 1 ? " has" : " have") +
           (isGathering
                ? " not joined in time; are they running, and do they meet at the same place? "
                  "OMNES_INIT_TIMEOUT_MS sets the time"
                : " not come to the exchange in time") +
           note_);
}

}  // namespace omnes::core::bootstrap
