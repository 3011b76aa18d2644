#include "core/bootstrap/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "core/bootstrap/meeting_host.h"
#include "core/bootstrap/rank_list.h"
#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Deadline;
using base::Result;
using base::Status;

// The host's word on who is missing beats our own "timed out"; this is how long after the deadline
// it may arrive.
constexpr base::Duration kGrace = std::chrono::milliseconds(500);
constexpr base::Duration kFirstPause = std::chrono::milliseconds(1);
constexpr base::Duration kLongestPause = std::chrono::milliseconds(50);
// A full queue of a TCP listener swallows the request to connect, and the kernel repeats it only
// after 1, 3, 7 s; a new attempt repeats it at once.
constexpr base::Duration kFirstPatience = std::chrono::milliseconds(250);
constexpr base::Duration kLongestPatience = std::chrono::seconds(4);
constexpr int64_t kGoodbyeMs = 250;
constexpr int64_t kGivingUpMs = 20;
constexpr int64_t kSettleMs = 100;
constexpr int64_t kLateComersMs = 500;

// Milliseconds left as they go on the wire: 0 = never, at least 1 otherwise.
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

Status checkArguments(uint32_t rank, uint32_t nranks, const std::string& settings) {
  if (nranks == 0 || nranks > kMaxRanks || rank >= nranks) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                              std::to_string(nranks) +
                                              " ranks: ranks count from 0, up to " +
                                              std::to_string(kMaxRanks) + " of them");
  }
  if (settings.size() > kMaxSettingsBytes) {
    return Status(Code::kInvalidArgument, "the settings that all ranks must share take " +
                                              std::to_string(settings.size()) +
                                              " bytes, at most 16384 are possible");
  }
  return Status::ok();
}

}  // namespace

Rendezvous::Rendezvous(const MeetingPoint& point, uint32_t rank, uint32_t nranks,
                       const base::Clock& clock, int abortFd)
    : point_(point),
      rank_(rank),
      nranks_(nranks),
      clock_(clock),
      abortFd_(abortFd),
      hasLeft_(nranks, false) {}

Rendezvous::~Rendezvous() { goodbye(); }

std::string Rendezvous::hostName() const { return "the meeting at " + point_.address; }

Result<std::unique_ptr<Rendezvous>> Rendezvous::join(const MeetingPoint& point, uint32_t rank,
                                                     uint32_t nranks, std::string settings,
                                                     Deadline deadline, const base::Clock& clock,
                                                     int abortFd) {
  OMNES_RETURN_IF_ERROR(checkArguments(rank, nranks, settings));
  std::shared_ptr<MeetingHost> ownHost;
  if (point.isHostedByRankZero && rank == 0) {
    MeetingHostOptions options;
    options.address = point.address;
    options.secret = point.secret;
    options.commId = point.commId;
    options.keepsListening = false;
    options.wireVersion = point.wireVersion;
    options.listen.limits = {deadline, &clock, abortFd};
    Result<std::shared_ptr<MeetingHost>> host = MeetingHost::start(std::move(options));
    if (!host.isOk()) return host.status().withContext("rank 0 hosts the meeting");
    ownHost = std::move(host).value();
  }
  std::unique_ptr<Rendezvous> self(
      new Rendezvous(point, rank, nranks, clock, abortFd));  // NOLINT: private
  const Status connected = self->connect(deadline);
  if (!connected.isOk()) {
    if (ownHost != nullptr) {
      const std::string who = "rank 0, which hosts the meeting, could not join: ";
      ownHost->giveUp(Status(Code::kRemoteError, who + std::string(connected.message())));
      ownHost->awaitTold(std::chrono::milliseconds(kGoodbyeMs));  // as below
    } else if (isAborted(self->limits(deadline))) {
      self->tellOfAbort(settings, connected);
    }
    return connected;
  }
  const Status met = self->awaitMet(settings, deadline);
  if (met.isOk()) return self;
  // The caller may end the process next, and the host with it.
  // Ranks that disagree fail as soon as two of them have come, and a host without descriptors fails
  // with the first; those who start a little later must not look for a host that has gone with its
  // process, which most often is rank 0's.
  const bool isEarly = met.code() == Code::kInvalidUsage || met.code() == Code::kSystemError;
  const bool andLate = rank == 0 && isEarly && !isAborted({deadline, &clock, abortFd});
  const int64_t ms = andLate ? kLateComersMs : kGoodbyeMs;
  MeetingHost::awaitFailureTold(point.address, std::chrono::milliseconds(ms), andLate);
  return met;
}

Status Rendezvous::connect(Deadline deadline) {
  const WaitLimits wait = limits(deadline);
  base::Duration pause = kFirstPause;
  base::Duration patience = kFirstPatience;
  std::string trouble = "no attempt was made";
  for (;;) {
    Result<bool> connected = tryConnect(wait, patience, &trouble);
    if (connected.isOk() && connected.value()) return Status::ok();
    if (!connected.isOk() && connected.status().code() != Code::kTimeout) return connected.status();
    if (deadline.hasPassed(clock_)) {
      return Status(Code::kTimeout,
                    "rank " + std::to_string(rank_) + " could not reach " + hostName() +
                        " in time (" + trouble +
                        (point_.isHostedByRankZero ? "); is rank 0 running there?" : ")"));
    }
    OMNES_RETURN_IF_ERROR(sleepFor(pause, wait, "joining " + hostName()));
    pause = std::min(2 * pause, kLongestPause);
    patience = std::min(2 * patience, kLongestPatience);
  }
}

Result<bool> Rendezvous::tryConnect(const WaitLimits& wait, base::Duration patience,
                                    std::string* trouble) {
  if (isAborted(wait)) return abortedStatus("joining " + hostName());
  Result<ConnectAttempt> connected = connectOnce(point_.address, wait, patience);
  if (!connected.isOk()) {
    *trouble = connected.status().message();
    return connected.status();
  }
  ConnectAttempt attempt = std::move(connected).value();
  if (attempt.error != 0) {
    // EAGAIN: more ranks come at once than the kernel queues.
    if (attempt.error == ECONNREFUSED && point_.isDerived)
      return Status(Code::kRemoteError, "the rank that hosts " + hostName() + " died");
    if (attempt.error == ECONNREFUSED && !point_.isHostedByRankZero) {
      return Status(Code::kInvalidUsage, "nobody listens at " + point_.address +
                                             " any more: the unique id is spent, or the process "
                                             "that made it has ended; get a new one");
    }
    // This process listened before it came here.
    if (attempt.error == ECONNREFUSED && rank_ == 0 && point_.isHostedByRankZero) {
      return Status(Code::kSystemError,
                    "the meeting that rank 0 hosts has ended before rank 0 could "
                    "join it; may the process open enough files (ulimit -n)?");
    }
    *trouble = Status::fromErrno(attempt.error, "connect").message();
    return false;
  }
  const Result<PeerCredentials> peer = checkPeer(attempt.fd.get());
  if (!peer.isOk()) return peer.status().withContext(hostName());
  ProofInitiator proof(point_.secret, {point_.commId, nranks_, rank_, kNoRank, LinkKind::kMeeting},
                       point_.wireVersion);
  const Status proven = runProof(attempt.fd.get(), proof, wait);
  if (proven.isOk()) {
    fd_ = std::move(attempt.fd);
    keepAlive_ = KeepAlive(fd_.get());
    return true;
  }
  // A host that is flooded by strangers pushes out connections that are not proven yet.
  if (proof.wasClosed()) {
    *trouble = proven.message();
    return false;
  }
  if (proven.code() == Code::kTimeout) {
    *trouble = "what listens there does not answer";
    return false;
  }
  return proven.withContext(hostName());
}

Status Rendezvous::awaitMet(const std::string& settings, Deadline deadline) {
  const std::string what = "joining " + hostName();
  const JoinInfo info{processToken(), static_cast<uint32_t>(::getpid()), base::hostname(),
                      settings};
  const SharedFrame frame =
      encodeFrame(FrameType::kJoin, Code::kOk, rank_, wireMs(deadline, clock_), info.encode());
  Status status = send(frame, limits(deadline), what);
  if (status.code() == Code::kRemoteError)
    status = Status::ok();  // the host may have said why before it closed
  if (status.isOk()) {
    const Result<Frame> answer = nextFrame(withGrace(deadline, clock_), what);
    status = answer.isOk() ? takeMet(answer.value()) : answer.status();
  }
  if (status.isOk()) return status;
  tellGivingUp(status);
  return status;
}

void Rendezvous::tellGivingUp(const Status& why) {
  const std::lock_guard<std::mutex> lock(sendMutex_);
  const SharedFrame frame = encodeFrame(FrameType::kError, why.code(), rank_, 0, why.message());
  const WaitLimits soon{Deadline::afterMs(clock_, kGivingUpMs), &clock_, -1};
  (void)sendAll(fd_.get(), bytesOf(*frame), soon,
                "giving up");  // they will see the connection close in any case
  saidGoodbye_ = true;
}

void Rendezvous::tellOfAbort(const std::string& settings, const Status& why) {
  abortFd_ = -1;
  const Deadline soon = Deadline::afterMs(clock_, kGoodbyeMs);
  if (!connect(soon).isOk()) return;
  const JoinInfo info{processToken(), static_cast<uint32_t>(::getpid()), base::hostname(),
                      settings};
  const SharedFrame frame =
      encodeFrame(FrameType::kJoin, Code::kOk, rank_, wireMs(soon, clock_), info.encode());
  if (!send(frame, limits(soon), "telling of an abort").isOk()) return;
  tellGivingUp(Status(Code::kRemoteError, "rank " + std::to_string(rank_) +
                                              " could not join: " + std::string(why.message())));
}

Status Rendezvous::takeMet(const Frame& frame) {
  if (frame.type != FrameType::kMet || frame.payload.size() != 8 * (size_t{nranks_} + 1)) {
    return Status(Code::kRemoteError,
                  hostName() + " sent something other than the news that all have met");
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(frame.payload.data());
  hostToken_ = getLe<uint64_t>(bytes);
  tokens_.resize(nranks_);
  for (uint32_t i = 0; i < nranks_; ++i) tokens_[i] = getLe<uint64_t>(bytes + 8 * (size_t{i} + 1));
  return Status::ok();
}

Status Rendezvous::send(const SharedFrame& frame, const WaitLimits& wait, std::string_view what) {
  const std::lock_guard<std::mutex> lock(sendMutex_);
  if (saidGoodbye_) return Status(Code::kInvalidUsage, "this rank has left its meeting already");
  const auto afterWrite = [this] { keepAlive_.afterWrite(); };
  const Status status = sendAll(fd_.get(), bytesOf(*frame), wait, what, afterWrite);
  // Half a frame may be out: nothing that follows would be understood.
  if (!status.isOk()) ::shutdown(fd_.get(), SHUT_WR);
  return status;
}

std::string Rendezvous::localAddress() const { return localHostText(fd_.get()); }

Result<Frame> Rendezvous::nextFrame(Deadline deadline, std::string_view what) {
  for (;;) {
    switch (reader_.read(fd_.get())) {
      case FrameReader::Outcome::kFrame: {
        Frame& frame = reader_.frame();
        if (frame.type == FrameType::kFailed) return Status(frame.code, std::move(frame.payload));
        return std::move(frame);
      }
      case FrameReader::Outcome::kAgain: break;
      case FrameReader::Outcome::kClosed: isEnded_ = true; return hostDeath(what);
      case FrameReader::Outcome::kMalformed:
        isEnded_ = true;
        return Status(Code::kRemoteError, hostName() + " sent a message that makes no sense");
    }
    Status status = waitFor(fd_.get(), POLLIN, limits(deadline), what);
    if (status.code() == Code::kTimeout) return status.withContext(hostName() + " does not answer");
    OMNES_RETURN_IF_ERROR(status);
  }
}

Result<std::vector<std::string>> Rendezvous::exchange(std::string_view mine, Deadline deadline) {
  const std::string what = "exchanging addresses through " + hostName();
  if (mine.size() > kMaxBlobBytes) {
    return Status(Code::kInvalidArgument,
                  "a blob of " + std::to_string(mine.size()) + " bytes; at most 65536");
  }
  for (uint32_t rank = 0; rank < nranks_; ++rank) {
    if (hasLeft_[rank])
      return Status(Code::kRemoteError, "rank " + std::to_string(rank) + " has left already");
  }
  std::string payload(4, '\0');
  putLe<uint32_t>(reinterpret_cast<uint8_t*>(payload.data()), wireMs(deadline, clock_));
  payload.append(mine);
  const SharedFrame frame = encodeFrame(FrameType::kBlob, Code::kOk, rank_, round_, payload);
  const Status sent = send(frame, limits(deadline), what);
  if (!sent.isOk() && sent.code() != Code::kRemoteError) return sent;
  std::vector<std::string> blobs(nranks_);
  for (uint32_t have = 0; have < nranks_;) {
    OMNES_ASSIGN_OR_RETURN(Frame next, nextFrame(withGrace(deadline, clock_), what));
    if (next.type == FrameType::kBlob && next.argument == round_ && next.rank == have) {
      blobs[have++] = std::move(next.payload);
      continue;
    }
    const std::optional<ControlEvent> event = toEvent(next);
    if (!event.has_value())
      return Status(Code::kRemoteError, hostName() + " sent blobs out of order");
    inbox_.push_back(*event);
    if (event->kind == ControlEvent::Kind::kEntered) continue;
    if (event->kind != ControlEvent::Kind::kLeft) return event->status;
    return Status(Code::kRemoteError,
                  "rank " + std::to_string(event->rank) + " left instead of " + what);
  }
  ++round_;
  return blobs;
}

std::optional<ControlEvent> Rendezvous::toEvent(Frame& frame) {
  if (frame.type == FrameType::kFailed) {
    isEnded_ = true;
    return ControlEvent{ControlEvent::Kind::kError, kNoRank,
                        Status(frame.code, std::move(frame.payload))};
  }
  if (frame.rank >= nranks_) return std::nullopt;
  switch (frame.type) {
    case FrameType::kError:
      return ControlEvent{ControlEvent::Kind::kError, frame.rank,
                          Status(frame.code, std::move(frame.payload))};
    case FrameType::kGone:
      hasLeft_[frame.rank] = true;
      return ControlEvent{ControlEvent::Kind::kGone, frame.rank,
                          Status(Code::kRemoteError, std::move(frame.payload))};
    case FrameType::kGoodbye:
      hasLeft_[frame.rank] = true;
      return ControlEvent{ControlEvent::Kind::kLeft, frame.rank, Status::ok()};
    case FrameType::kEntered:
      return ControlEvent{ControlEvent::Kind::kEntered, frame.rank, Status::ok(),
                          std::move(frame.payload)};
    default: return std::nullopt;
  }
}

std::vector<uint32_t> Rendezvous::ranksInProcessOf(uint32_t rank) const {
  std::vector<uint32_t> ranks;
  for (uint32_t other = 0; other < tokens_.size(); ++other) {
    if (tokens_[other] == tokens_[rank]) ranks.push_back(other);
  }
  return ranks;
}

std::vector<uint32_t> Rendezvous::lostWithHost() const {
  std::vector<uint32_t> lost;
  for (uint32_t rank = 0; rank < tokens_.size(); ++rank) {
    if (tokens_[rank] == hostToken_ && !hasLeft_[rank]) lost.push_back(rank);
  }
  // Before all have met nobody has said which ranks live with the host; rank 0 does if it is its
  // host.
  if (tokens_.empty() && point_.isHostedByRankZero && rank_ != 0) lost.push_back(0);
  return lost;
}

Status Rendezvous::hostDeath(std::string_view what) const {
  const std::vector<uint32_t> lost = lostWithHost();
  const std::string who = lost.empty()
                              ? "the process that hosts " + hostName()
                              : formatRanks(lost) + ", whose process hosts " + hostName() + ",";
  return Status(Code::kRemoteError, who + " died while this rank was " + std::string(what));
}

ControlEvent Rendezvous::onHostLost() {
  isEnded_ = true;
  const std::vector<uint32_t> lost = lostWithHost();
  // A process without ranks, or whose ranks have all left, may end: only its news are missed.
  if (lost.empty()) return {ControlEvent::Kind::kHostEnded, kNoRank, Status::ok()};
  const Status death(Code::kRemoteError,
                     formatRanks(lost) + (lost.size() == 1 ? " is" : " are") +
                         " gone: the process that also hosted the meeting died");
  for (size_t i = 1; i < lost.size(); ++i)
    inbox_.push_back({ControlEvent::Kind::kGone, lost[i], death});
  return {ControlEvent::Kind::kGone, lost.front(), death};
}

std::optional<ControlEvent> Rendezvous::receiveControl() {
  if (!inbox_.empty()) {
    ControlEvent event = std::move(inbox_.front());
    inbox_.pop_front();
    return event;
  }
  while (!isEnded_) {
    switch (reader_.read(fd_.get())) {
      case FrameReader::Outcome::kAgain: return std::nullopt;
      case FrameReader::Outcome::kClosed:
      case FrameReader::Outcome::kMalformed: return onHostLost();
      case FrameReader::Outcome::kFrame: break;
    }
    std::optional<ControlEvent> event = toEvent(reader_.frame());
    if (event.has_value()) return event;
  }
  return std::nullopt;
}

Status Rendezvous::sendControl(uint32_t rank, const Status& cause, Deadline deadline) {
  const SharedFrame frame = encodeFrame(FrameType::kError, cause.code(), rank, 0, cause.message());
  // Not subject to abort, which is what the others may have to be told of.
  const WaitLimits bounded{deadline, &clock_, -1};
  OMNES_RETURN_IF_ERROR(send(frame, bounded, "telling the other ranks of an error"));
  // The caller may end the process next, and with it the host that has to pass this on.
  if (hostToken_ == processToken())
    MeetingHost::awaitSettled(point_.commId, std::chrono::milliseconds(kSettleMs));
  return Status::ok();
}

bool Rendezvous::sendEntered(uint32_t to, std::string_view payload) {
  const std::unique_lock<std::mutex> lock(sendMutex_, std::try_to_lock);
  if (!lock.owns_lock() || saidGoodbye_ || payload.size() > kMaxEnteredBytes) return false;
  const SharedFrame frame = encodeFrame(FrameType::kEntered, Code::kOk, rank_, to, payload);
  pollfd writable{fd_.get(), POLLOUT, 0};
  if (::poll(&writable, 1, 0) != 1 || (writable.revents & POLLOUT) == 0) return false;
  const IoResult sent = sendSome(fd_.get(), bytesOf(*frame));
  if (sent.state == IoState::kDone && sent.bytes == frame->size()) return true;
  // A socket that is writable has room for so few bytes. Should it not: nothing that follows half a
  // frame would be understood.
  if (sent.state == IoState::kDone) ::shutdown(fd_.get(), SHUT_WR);
  return false;
}

void Rendezvous::goodbye() {
  const std::lock_guard<std::mutex> lock(sendMutex_);
  if (saidGoodbye_ || !fd_.isOpen()) return;
  saidGoodbye_ = true;
  // Not subject to abort: leaving in order matters all the more then.
  const WaitLimits soon{Deadline::afterMs(clock_, kGoodbyeMs), &clock_, -1};
  const SharedFrame frame = encodeFrame(FrameType::kGoodbye, Code::kOk, rank_, 0, {});
  if (!sendAll(fd_.get(), bytesOf(*frame), soon, "leaving").isOk()) return;
  ::shutdown(fd_.get(), SHUT_WR);
  // The host hangs up when it has passed the goodbye on: then this process may end.
  (void)waitFor(fd_.get(), 0, soon, "leaving");
}

}  // namespace omnes::core::bootstrap
