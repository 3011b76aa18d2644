#include "core/bootstrap/outgoing_link.h"

#include <errno.h>
#include <poll.h>

#include <algorithm>

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Duration;
using base::Status;
using base::TimePoint;

constexpr TimePoint kNever{Duration::max()};
constexpr Duration kFirstPause = std::chrono::milliseconds(1);
constexpr Duration kLongestPause = std::chrono::milliseconds(50);
// A full queue swallows the request, and the kernel asks again only after 1, 3, 7 s. A new attempt
// asks at once.
constexpr Duration kFirstPatience = std::chrono::milliseconds(250);
constexpr Duration kLongestPatience = std::chrono::seconds(4);

// Until the deadline: these may end by themselves.
bool isPassing(int error) {
  switch (error) {
    case EAGAIN:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOBUFS: return true;
    default: return false;
  }
}

bool isRefusal(int error) { return error == ECONNREFUSED || error == ENETUNREACH; }

}  // namespace

short OutgoingLink::events() const {
  if (state_ == State::kConnecting) return POLLOUT;
  return proof_.has_value() && !proof_->output().empty() ? POLLOUT : POLLIN;
}

Status OutgoingLink::step(TimePoint now) {
  switch (state_) {
    case State::kPausing: return now < wakeAt_ ? Status::ok() : start(now);
    case State::kConnecting: {
      if (now >= wakeAt_) return onConnected(ETIMEDOUT, now);
      // Only called when the socket is writable, or was woken for nothing: then it is not
      // connected.
      const int error = finishConnect(fd_.get());
      sockaddr_storage peer{};
      socklen_t length = sizeof peer;
      const bool isConnected =
          ::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&peer), &length) == 0;
      if (error == 0 && !isConnected) return Status::ok();
      return onConnected(error, now);
    }
    case State::kProving: return prove(now);
    case State::kDone: break;
  }
  return Status::ok();
}

Status OutgoingLink::start(TimePoint now) {
  patience_ = std::clamp(2 * patience_, kFirstPatience, kLongestPatience);
  OMNES_ASSIGN_OR_RETURN(ConnectAttempt attempt, startConnect(address_));
  fd_ = std::move(attempt.fd);
  if (attempt.error != EINPROGRESS) return onConnected(attempt.error, now);
  state_ = State::kConnecting;
  wakeAt_ = now + patience_;
  return Status::ok();
}

Status OutgoingLink::onConnected(int error, TimePoint now) {
  if (error != 0) return retry(error, now);
  refusedSince_ = kNever;
  state_ = State::kProving;
  // The peer answers when it comes to it: from here on only the owner's deadline counts.
  wakeAt_ = kNever;
  proof_.emplace(secret_, identity_);
  return prove(now);
}

Status OutgoingLink::prove(TimePoint now) {
  driveProof(fd_.get(), *proof_);
  if (proof_->state() == ProofState::kDone) {
    state_ = State::kDone;
    return Status::ok();
  }
  if (proof_->state() != ProofState::kFailed) return Status::ok();
  if (proof_->wasClosed()) {
    // Pushed out by strangers, or the peer has gone: the next attempt finds out.
    wasLost_ = true;
    trouble_ = proof_->status().message();
    pause(now);
    return Status::ok();
  }
  // The peer may not have noticed yet that it has lost the connection that was proven before.
  if (proof_->refusal() == Refusal::kDuplicate && wasLost_) {
    trouble_ = proof_->status().message();
    duplicateSince_ = std::min(duplicateSince_, now);
    if (now - duplicateSince_ < refusalGrace_) {
      pause(now);
      return Status::ok();
    }
  }
  return proof_->status();
}

Status OutgoingLink::retry(int error, TimePoint now) {
  const Status cause = Status::fromErrno(error, "connect");
  trouble_ = cause.message();
  if (isRefusal(error)) {
    refusedSince_ = std::min(refusedSince_, now);
    if (now - refusedSince_ >= refusalGrace_) {
      return Status(Code::kRemoteError,
                    trouble_ + (error == ECONNREFUSED ? ": nobody listens there any more"
                                                      : ": this host has no route to it"));
    }
  } else if (!isPassing(error)) {
    return cause;
  }
  pause(now);
  return Status::ok();
}

void OutgoingLink::pause(TimePoint now) {
  fd_.reset();
  proof_.reset();
  state_ = State::kPausing;
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  wakeAt_ = now + pause_;
}

}  // namespace omnes::core::bootstrap
