// The rules of a meeting: who has joined, what is wrong, what everybody must be told. No sockets,
// no threads, no clock of its own; MeetingHost feeds it and carries what it says.
//
//   gathering --all joined--> met --(exchanges, errors, goodbyes)
//   gathering or met --any failure--> failed: every member has been sent the same cause, once
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "core/bootstrap/frame.h"
#include "core/bootstrap/proof.h"

namespace omnes::core::bootstrap {

class Meeting {
 public:
  using Send = std::function<void(uint32_t rank, const SharedFrame& frame)>;
  enum class State : uint8_t { kGathering, kMet, kFailed };

  // `send` queues a frame for a member; it must not call back. `clock` must outlive the Meeting.
  Meeting(const base::Clock& clock, Send send) : clock_(clock), send_(std::move(send)) {}

  State state() const { return state_; }
  // Whether a proven rank becomes a member. If not, lastWord() is what it must be told before it is
  // closed.
  bool admit(const Hello& hello);
  SharedFrame lastWord() const;
  // Whether every rank has come, be it to hear that the meeting has failed.
  bool hasSeenAll() const;
  // One of the family was refused (version), or the host cannot go on: the meeting cannot succeed.
  void onRefused(const base::Status& reason);
  // False: the member broke the protocol and its connection must be closed (then call onClosed).
  bool onFrame(uint32_t rank, Frame& frame);
  void onClosed(uint32_t rank);
  // When onTime() must be called at the latest; "never" when nothing is waited for.
  base::Deadline deadline() const { return deadline_; }
  void onTime();
  // `note` ends the text of a failed gathering: what the listener has seen meanwhile.
  void setNote(std::string note) { note_ = std::move(note); }

 private:
  enum class Presence : uint8_t { kAbsent, kProven, kJoined, kLeft, kGone };
  struct Member {
    Presence presence = Presence::kAbsent;
    JoinInfo info;
    SharedFrame blob;  // of the round under way
  };

  bool isConnected(uint32_t rank) const {
    return members_[rank].presence == Presence::kProven ||
           members_[rank].presence == Presence::kJoined;
  }
  std::string nameOf(uint32_t rank) const;
  void fail(base::Code code, const std::string& text);
  void sendToAll(const SharedFrame& frame, uint32_t except = kNoRank);
  void shorten(uint32_t milliseconds);
  bool onJoin(uint32_t rank, const Frame& frame);
  void checkSettings(uint32_t rank);
  void meet();
  bool onBlob(uint32_t rank, Frame& frame);
  void finishRound();
  void onError(uint32_t rank, const Frame& frame);
  bool onEntered(uint32_t rank, const Frame& frame);

  const base::Clock& clock_;
  const Send send_;
  State state_ = State::kGathering;
  std::vector<Member> members_;   // empty until the first rank says how many there are
  uint32_t firstRank_ = kNoRank;  // who said it
  uint32_t joined_ = 0;
  uint32_t round_ = 0;
  uint32_t blobs_ = 0;
  base::Deadline deadline_ = base::Deadline::never();
  std::string note_;
  SharedFrame failure_;
};

// "name=value" lines: the first name whose lines differ, with both values; empty when equal.
std::string describeDifference(std::string_view mine, std::string_view theirs,
                               std::string_view nameOfMine, std::string_view nameOfTheirs);

}  // namespace omnes::core::bootstrap
