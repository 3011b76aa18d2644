#include "core/bootstrap/meeting_loop.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "base/log.h"

namespace omnes::core::bootstrap {
namespace {

using base::Result;
using base::Status;

constexpr uint64_t kStopTag = 0;
constexpr uint64_t kAcceptorTag = 1;
constexpr uint64_t kGiveUpTag = 2;
constexpr uint64_t kSettleTag = 3;
// The longest that the host looks for a turn in which nobody speaks.
constexpr int64_t kSettleMs = 250;
// Exchanges queue one frame a rank; what goes far beyond is a member that no longer reads.
constexpr size_t kMaxQueuedFrames = 4096;
// News of what ranks are doing are repeated: a member that is slow to read, perhaps stopped, misses
// some of them instead of losing its connection.
constexpr size_t kMaxQueuedNews = 64;

constexpr base::Duration kDescriptorPatience = std::chrono::milliseconds(250);
// Between looks at members that do not read.
constexpr std::chrono::milliseconds kSuspendedLook{1000};

}  // namespace

Result<std::shared_ptr<MeetingLoop>> MeetingLoop::make(MeetingLoopOptions options,
                                                       const base::Clock& clock,
                                                       std::unique_ptr<Acceptor> acceptor) {
  OMNES_ASSIGN_OR_RETURN(base::Epoll epoll, base::Epoll::open());
  OMNES_ASSIGN_OR_RETURN(base::EventFd stop, base::EventFd::open());
  OMNES_ASSIGN_OR_RETURN(base::EventFd giveUp, base::EventFd::open());
  OMNES_ASSIGN_OR_RETURN(base::EventFd settle, base::EventFd::open());
  OMNES_RETURN_IF_ERROR(epoll.add(stop.fd(), EPOLLIN, kStopTag));
  OMNES_RETURN_IF_ERROR(epoll.add(giveUp.fd(), EPOLLIN, kGiveUpTag));
  OMNES_RETURN_IF_ERROR(epoll.add(settle.fd(), EPOLLIN, kSettleTag));
  OMNES_RETURN_IF_ERROR(epoll.add(acceptor->fd(), EPOLLIN, kAcceptorTag));
  return std::shared_ptr<MeetingLoop>(  // NOLINT: private constructor
      new MeetingLoop(std::move(options), clock, std::move(acceptor),
                      {std::move(epoll), std::move(stop), std::move(giveUp), std::move(settle)}));
}

MeetingLoop::MeetingLoop(MeetingLoopOptions options, const base::Clock& clock,
                         std::unique_ptr<Acceptor> acceptor, Descriptors own)
    : options_(std::move(options)),
      clock_(clock),
      acceptor_(std::move(acceptor)),
      epoll_(std::move(own.epoll)),
      stop_(std::move(own.stop)),
      giveUp_(std::move(own.giveUp)),
      settle_(std::move(own.settle)),
      meeting_(clock, [this](uint32_t rank, const SharedFrame& frame) { queue(rank, frame); }) {}

void MeetingLoop::requestGivingUp(const Status& cause) {
  {
    const std::lock_guard<std::mutex> lock(givingUpMutex_);
    givingUp_ = cause;
  }
  giveUp_.signal();
}

void MeetingLoop::awaitSettled(base::Duration limit) {
  std::unique_lock<std::mutex> lock(toldMutex_);
  const uint64_t mine = ++settlesWanted_;
  settle_.signal();
  toldChanged_.wait_for(lock, limit, [&] { return settlesDone_ >= mine; });
}

void MeetingLoop::awaitTold(base::Duration limit, bool andLate) {
  std::unique_lock<std::mutex> lock(toldMutex_);
  toldChanged_.wait_for(lock, limit, [&] { return isTold_ && (!andLate || areLateTold_); });
}

// Settled: in one turn nobody had anything to say, and nothing waits to be sent.
void MeetingLoop::noteSettled(bool isQuiet) {
  if (!isSettling_) return;
  const bool isSent = std::all_of(connections_.begin(), connections_.end(),
                                  [](const auto& entry) { return entry.second.writer.isEmpty(); });
  if (!(isQuiet && isSent) && !settlingUntil_.hasPassed(clock_)) return;
  isSettling_ = false;
  const std::lock_guard<std::mutex> lock(toldMutex_);
  settlesDone_ = settlesWanted_;
  toldChanged_.notify_all();
}

void MeetingLoop::noteTold() {
  if (meeting_.state() != Meeting::State::kFailed) return;
  for (const auto& [tag, connection] : connections_)
    if (connection.writer.frames() != 0) return;
  // Those who have come and are not members yet.
  if (acceptor_ != nullptr && (acceptor_->unproven() != 0 || acceptor_->isOutOfDescriptors()))
    return;
  const std::lock_guard<std::mutex> lock(toldMutex_);
  isTold_ = true;
  areLateTold_ = meeting_.hasSeenAll();
  toldChanged_.notify_all();
}

void MeetingLoop::run() {
  serve();
  // The handle may live on; descriptors and ranks must not wait for it.
  connections_.clear();
  acceptor_.reset();
  noteTold();
}

void MeetingLoop::serve() {
  std::vector<epoll_event> ready(64);
  while (!isOver()) {
    const Result<size_t> count = epoll_.wait(nextWake(), clock_, ready);
    if (!count.isOk()) {
      OMNES_LOG_ERROR(Bootstrap, "the meeting host ends: %s",
                      std::string(count.status().message()).c_str());
      return;
    }
    const bool isQuiet = count.value() == 0;
    for (size_t i = 0; i < count.value(); ++i) {
      const uint64_t tag = ready[i].data.u64;
      if (tag == kStopTag) return;
      if (tag == kSettleTag) {
        settle_.drain();
        isSettling_ = true;
        settlingUntil_ = base::Deadline::afterMs(clock_, kSettleMs);
      }
      if (tag == kAcceptorTag) continue;  // after the members, below
      if (tag == kGiveUpTag) onGivingUp();
      const auto found = connections_.find(tag);
      if (found != connections_.end()) onReadable(found->second);
    }
    acceptNew();
    noteDescriptors();
    noteStrays();
    meeting_.onTime();
    afterStateChange();
    flushAll();
    removeClosing();
    noteTold();
    noteSettled(isQuiet);
  }
}

bool MeetingLoop::isOver() {
  if (meeting_.state() == Meeting::State::kGathering) return false;
  if (meeting_.state() == Meeting::State::kMet) return tagOfRank_.empty();
  return lingerUntil_.hasPassed(clock_);
}

base::Deadline MeetingLoop::nextWake() const {
  base::Deadline wake = meeting_.deadline();
  if (lingerUntil_.remaining(clock_) < wake.remaining(clock_)) wake = lingerUntil_;
  if (isSettling_) wake = base::Deadline::afterMs(clock_, 1);
  const bool isAnySuspended =
      std::any_of(connections_.begin(), connections_.end(),
                  [](const auto& entry) { return entry.second.keepAlive.isSuspended(); });
  if (isAnySuspended && wake.remaining(clock_) > kSuspendedLook)
    wake = base::Deadline::afterMs(clock_, kSuspendedLook.count());
  const int acceptorMs = acceptor_->timeoutMs();
  if (acceptorMs >= 0 && wake.remaining(clock_) > std::chrono::milliseconds(acceptorMs)) {
    wake = base::Deadline::afterMs(clock_, std::max(acceptorMs, 1));  // 0 would mean never
  }
  return wake;
}

void MeetingLoop::acceptNew() {
  std::vector<ProvenConnection> proven;
  std::vector<RefusedConnection> refused;
  acceptor_->step(&proven, &refused);
  for (ProvenConnection& connection : proven) addConnection(std::move(connection));
  for (const RefusedConnection& connection : refused) meeting_.onRefused(connection.reason);
}

void MeetingLoop::addConnection(ProvenConnection proven) {
  const uint64_t tag = nextTag_++;
  if (!epoll_.add(proven.fd.get(), EPOLLIN, tag).isOk())
    return;  // the rank sees its connection close
  Connection& connection = connections_[tag];
  connection.fd = std::move(proven.fd);
  connection.keepAlive = KeepAlive(connection.fd.get());
  if (meeting_.admit(proven.hello)) {
    connection.rank = proven.hello.identity.from;
    tagOfRank_[connection.rank] = tag;
  } else {
    connection.writer.push(meeting_.lastWord());
  }
}

void MeetingLoop::queue(uint32_t rank, const SharedFrame& frame) {
  const auto found = tagOfRank_.find(rank);
  if (found == tagOfRank_.end()) return;
  Connection& connection = connections_.at(found->second);
  if (typeOf(frame) == FrameType::kEntered && connection.writer.frames() >= kMaxQueuedNews) return;
  if (connection.writer.frames() > kMaxQueuedFrames + 2 * tagOfRank_.size()) {
    connection.isClosing = true;
    return;
  }
  connection.writer.push(frame);
}

void MeetingLoop::onReadable(Connection& connection) {
  // One frame a turn, so that a talkative member cannot starve the others.
  switch (connection.reader.read(connection.fd.get())) {
    case FrameReader::Outcome::kAgain: return;
    case FrameReader::Outcome::kClosed:
    case FrameReader::Outcome::kMalformed: connection.isClosing = true; return;
    case FrameReader::Outcome::kFrame: break;
  }
  if (connection.rank == kNoRank) return;  // whatever it says, it has been refused
  Frame& frame = connection.reader.frame();
  const bool isGoodbye = frame.type == FrameType::kGoodbye;
  if (!meeting_.onFrame(connection.rank, frame) || isGoodbye) connection.isClosing = true;
}

void MeetingLoop::flushAll() {
  for (auto& [tag, connection] : connections_) {
    if (connection.isClosing) continue;
    const bool isWriting = !connection.writer.isEmpty();
    const IoState state = connection.writer.flush(connection.fd.get());
    if (isWriting || connection.keepAlive.isSuspended()) connection.keepAlive.afterWrite();
    if (state == IoState::kClosed) {
      connection.isClosing = true;
      continue;
    }
    const bool wantsWriting = state == IoState::kAgain;
    if (wantsWriting == connection.isWatchedForWriting) continue;
    connection.isWatchedForWriting = wantsWriting;
    const uint32_t events = wantsWriting ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (!epoll_.modify(connection.fd.get(), events, tag).isOk()) connection.isClosing = true;
  }
}

void MeetingLoop::removeClosing() {
  // Each removal may queue news for the others, and sending it may find another one closed.
  for (bool again = true; again;) {
    again = false;
    for (auto entry = connections_.begin(); entry != connections_.end();) {
      Connection& connection = entry->second;
      if (!connection.isClosing) {
        ++entry;
        continue;
      }
      const uint32_t rank = connection.rank;
      connection.writer.flush(connection.fd.get());  // best effort
      if (rank != kNoRank) tagOfRank_.erase(rank);
      entry = connections_.erase(entry);
      if (rank != kNoRank) meeting_.onClosed(rank);
      again = true;
    }
    if (again) {
      afterStateChange();
      flushAll();
    }
  }
}

void MeetingLoop::onGivingUp() {
  giveUp_.drain();
  const std::lock_guard<std::mutex> lock(givingUpMutex_);
  meeting_.onRefused(givingUp_);
}

// Strangers give their descriptors back, so a short want of them passes; what lasts is a limit that
// is too low for the ranks.
void MeetingLoop::noteDescriptors() {
  if (!acceptor_->isOutOfDescriptors()) {
    withoutDescriptorsSince_.reset();
    return;
  }
  if (!withoutDescriptorsSince_.has_value()) withoutDescriptorsSince_ = clock_.now();
  if (clock_.now() - *withoutDescriptorsSince_ < kDescriptorPatience) return;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string what =
      "the process that hosts the meeting cannot accept all ranks: limit of "
      "descriptors " +
      std::to_string(limit.rlim_cur) + ", raise it (ulimit -n)";
  meeting_.onRefused(Status::fromErrno(acceptor_->counters().acceptErrno, what));
}

void MeetingLoop::noteStrays() {
  if (meeting_.state() != Meeting::State::kGathering) return;
  const AcceptorCounters& counters = acceptor_->counters();
  std::string note;
  if (counters.rejected + counters.dropped != 0) {
    note = "; " + std::to_string(counters.rejected + counters.dropped) +
           " connections without a valid proof were turned away (strangers, or ranks with another "
           "secret: OMNES_SECRET_FILE must be the same everywhere)";
  }
  if (counters.acceptErrno != 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    note += "; accepting failed: ";
    note += Status::fromErrno(counters.acceptErrno, "accept").message();
    note += ", limit of descriptors " + std::to_string(limit.rlim_cur) + " (ulimit -n)";
  }
  meeting_.setNote(std::move(note));
}

void MeetingLoop::afterStateChange() {
  if (meeting_.state() == lastState_) return;
  lastState_ = meeting_.state();
  if (lastState_ == Meeting::State::kFailed) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(options_.linger).count();
    lingerUntil_ = base::Deadline::afterMs(clock_, std::max<int64_t>(ms, 1));
    options_.onLingering(acceptor_->address(), weak_from_this());
  } else if (!options_.keepsListening) {
    // Before anybody hears that all have met: who meets here next finds the address free.
    acceptor_->stopListening();
  }
  const AcceptorCounters& counters = acceptor_->counters();
  if (counters.rejected + counters.dropped != 0) {
    OMNES_LOG_WARN(Bootstrap,
                   "%llu connections without a valid proof were turned away at a meeting",
                   static_cast<unsigned long long>(counters.rejected + counters.dropped));
  }
}

}  // namespace omnes::core::bootstrap
