#include "core/bootstrap/meeting_host.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/event.h"
#include "base/fork.h"
#include "base/log.h"
#include "core/bootstrap/acceptor.h"
#include "core/bootstrap/detached_thread.h"
#include "core/bootstrap/frame.h"
#include "core/bootstrap/keep_alive.h"
#include "core/bootstrap/meeting.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr uint64_t kStopTag = 0;
constexpr uint64_t kAcceptorTag = 1;
constexpr uint64_t kGiveUpTag = 2;
constexpr uint64_t kSettleTag = 3;
constexpr uint64_t kFirstConnectionTag = 4;
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

std::atomic<int> runningHosts{0};
// How long a start waits for a lingering host of this process to let go of the address.
constexpr auto kHandOverStep = std::chrono::milliseconds(1);
constexpr int kHandOverSteps = 500;

struct Connection {
  base::UniqueFd fd;
  KeepAlive keepAlive;
  uint32_t rank = kNoRank;  // kNoRank: not a member; closed when it has been told why
  FrameReader reader;
  FrameWriter writer;
  bool isWatchedForWriting = false;
  bool isClosing = false;
};

}  // namespace

// Owned by the thread and the handle together. Everything but what has a lock or wakes it is
// the thread's alone.
class MeetingHost::Loop : public std::enable_shared_from_this<MeetingHost::Loop> {
 public:
  Loop(MeetingHostOptions options, const base::Clock& clock, std::unique_ptr<Acceptor> acceptor,
       base::Epoll epoll, base::EventFd stop, base::EventFd giveUp, base::EventFd settle)
      : options_(std::move(options)),
        clock_(clock),
        acceptor_(std::move(acceptor)),
        epoll_(std::move(epoll)),
        stop_(std::move(stop)),
        giveUp_(std::move(giveUp)),
        settle_(std::move(settle)),
        meeting_(clock, [this](uint32_t rank, const SharedFrame& frame) { queue(rank, frame); }) {}

  Status watchOwn() const {
    OMNES_RETURN_IF_ERROR(epoll_.add(stop_.fd(), EPOLLIN, kStopTag));
    OMNES_RETURN_IF_ERROR(epoll_.add(giveUp_.fd(), EPOLLIN, kGiveUpTag));
    OMNES_RETURN_IF_ERROR(epoll_.add(settle_.fd(), EPOLLIN, kSettleTag));
    return epoll_.add(acceptor_->fd(), EPOLLIN, kAcceptorTag);
  }
  void requestStop() const { stop_.signal(); }
  void requestGivingUp(const Status& cause) {
    {
      const std::lock_guard<std::mutex> lock(givingUpMutex_);
      givingUp_ = cause;
    }
    giveUp_.signal();
  }
  void run();
  // Ends the hosts of this process that only linger at `address`. Whether there was one.
  static bool endLingering(const std::string& address);
  // The host of this process that lingers at `address` after a failure; null when there is none.
  static std::shared_ptr<Loop> findLingering(const std::string& address);
  static std::shared_ptr<Loop> findRunning(uint64_t commId);
  static void noteRunning(const std::shared_ptr<Loop>& loop);
  // Waits until what members had sent before has been passed on, or the limit.
  void awaitSettled(base::Duration limit) {
    std::unique_lock<std::mutex> lock(toldMutex_);
    const uint64_t mine = ++settlesWanted_;
    settle_.signal();
    toldChanged_.wait_for(lock, limit, [&] { return settlesDone_ >= mine; });
  }
  // Waits until all members have been sent the cause of the failure, or the limit.
  void awaitTold(base::Duration limit, bool andLate) {
    std::unique_lock<std::mutex> lock(toldMutex_);
    toldChanged_.wait_for(lock, limit, [&] { return isTold_ && (!andLate || areLateTold_); });
  }

 private:
  struct LingerTable;
  void serve();
  bool isOver();
  base::Deadline nextWake() const;
  void acceptNew();
  void addConnection(ProvenConnection proven);
  void queue(uint32_t rank, const SharedFrame& frame);
  void onReadable(Connection& connection);
  void flushAll();
  void removeClosing();
  void noteStrays();
  void noteDescriptors();
  void onGivingUp();
  void noteTold();
  void noteSettled(bool isQuiet);
  void afterStateChange();

  const MeetingHostOptions options_;
  const base::Clock& clock_;
  std::unique_ptr<Acceptor> acceptor_;
  base::Epoll epoll_;
  base::EventFd stop_;
  base::EventFd giveUp_;
  base::EventFd settle_;
  base::Deadline settlingUntil_ = base::Deadline::never();
  bool isSettling_ = false;
  std::mutex givingUpMutex_;
  Status givingUp_;  // guarded by givingUpMutex_; OK: nobody gives up
  std::optional<base::TimePoint> withoutDescriptorsSince_;
  Meeting meeting_;
  Meeting::State lastState_ = Meeting::State::kGathering;
  std::map<uint64_t, Connection> connections_;
  std::unordered_map<uint32_t, uint64_t> tagOfRank_;
  uint64_t nextTag_ = kFirstConnectionTag;
  base::Deadline lingerUntil_ = base::Deadline::never();
  std::mutex toldMutex_;
  std::condition_variable toldChanged_;
  bool isTold_ = false;         // guarded by toldMutex_
  bool areLateTold_ = false;    // guarded by toldMutex_
  uint64_t settlesWanted_ = 0;  // guarded by toldMutex_
  uint64_t settlesDone_ = 0;    // guarded by toldMutex_
};

// The failed meetings of this process that still tell late comers why. A new meeting at the same
// address, such as a second attempt after a failed one, takes it over. Never destroyed: hosts may
// outlive main().
struct MeetingHost::Loop::LingerTable {
  std::mutex mutex;
  std::vector<std::pair<std::string, std::weak_ptr<Loop>>> loops;  // guarded by mutex
  std::vector<std::weak_ptr<Loop>> running;                        // guarded by mutex
  static LingerTable& instance() {
    static constinit base::PerProcess<LingerTable> table;
    return table.get();
  }
};

bool MeetingHost::Loop::endLingering(const std::string& address) {
  LingerTable& table = LingerTable::instance();
  const std::lock_guard<std::mutex> lock(table.mutex);
  bool found = false;
  for (const auto& [theirs, loop] : table.loops) {
    const std::shared_ptr<Loop> alive = theirs == address ? loop.lock() : nullptr;
    if (alive == nullptr) continue;
    alive->requestStop();
    found = true;
  }
  return found;
}

std::shared_ptr<MeetingHost::Loop> MeetingHost::Loop::findLingering(const std::string& address) {
  LingerTable& table = LingerTable::instance();
  const std::lock_guard<std::mutex> lock(table.mutex);
  for (const auto& [theirs, loop] : table.loops)
    if (std::shared_ptr<Loop> alive = theirs == address ? loop.lock() : nullptr) return alive;
  return nullptr;
}

void MeetingHost::Loop::noteRunning(const std::shared_ptr<Loop>& loop) {
  LingerTable& table = LingerTable::instance();
  const std::lock_guard<std::mutex> lock(table.mutex);
  std::erase_if(table.running, [](const auto& entry) { return entry.expired(); });
  table.running.push_back(loop);
}

std::shared_ptr<MeetingHost::Loop> MeetingHost::Loop::findRunning(uint64_t commId) {
  LingerTable& table = LingerTable::instance();
  const std::lock_guard<std::mutex> lock(table.mutex);
  for (const auto& entry : table.running)
    if (std::shared_ptr<Loop> loop = entry.lock(); loop && loop->options_.commId == commId)
      return loop;
  return nullptr;
}

// Settled: in one turn nobody had anything to say, and nothing waits to be sent.
void MeetingHost::Loop::noteSettled(bool isQuiet) {
  if (!isSettling_) return;
  const bool isSent = std::all_of(connections_.begin(), connections_.end(),
                                  [](const auto& entry) { return entry.second.writer.isEmpty(); });
  if (!(isQuiet && isSent) && !settlingUntil_.hasPassed(clock_)) return;
  isSettling_ = false;
  const std::lock_guard<std::mutex> lock(toldMutex_);
  settlesDone_ = settlesWanted_;
  toldChanged_.notify_all();
}

void MeetingHost::Loop::noteTold() {
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

void MeetingHost::Loop::run() {
  serve();
  // The handle may live on; descriptors and ranks must not wait for it.
  connections_.clear();
  acceptor_.reset();
  noteTold();
  // Relaxed: a count that tests and diagnostics look at; it orders nothing.
  runningHosts.fetch_sub(1, std::memory_order_relaxed);
}

void MeetingHost::Loop::serve() {
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

bool MeetingHost::Loop::isOver() {
  if (meeting_.state() == Meeting::State::kGathering) return false;
  if (meeting_.state() == Meeting::State::kMet) return tagOfRank_.empty();
  return lingerUntil_.hasPassed(clock_);
}

base::Deadline MeetingHost::Loop::nextWake() const {
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

void MeetingHost::Loop::acceptNew() {
  std::vector<ProvenConnection> proven;
  std::vector<RefusedConnection> refused;
  acceptor_->step(&proven, &refused);
  for (ProvenConnection& connection : proven) addConnection(std::move(connection));
  for (const RefusedConnection& connection : refused) meeting_.onRefused(connection.reason);
}

void MeetingHost::Loop::addConnection(ProvenConnection proven) {
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

void MeetingHost::Loop::queue(uint32_t rank, const SharedFrame& frame) {
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

void MeetingHost::Loop::onReadable(Connection& connection) {
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

void MeetingHost::Loop::flushAll() {
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

void MeetingHost::Loop::removeClosing() {
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

void MeetingHost::Loop::onGivingUp() {
  giveUp_.drain();
  const std::lock_guard<std::mutex> lock(givingUpMutex_);
  meeting_.onRefused(givingUp_);
}

// Strangers give their descriptors back, so a short want of them passes; what lasts is a limit that
// is too low for the ranks.
void MeetingHost::Loop::noteDescriptors() {
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

void MeetingHost::Loop::noteStrays() {
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

void MeetingHost::Loop::afterStateChange() {
  if (meeting_.state() == lastState_) return;
  lastState_ = meeting_.state();
  if (lastState_ == Meeting::State::kFailed) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(options_.linger).count();
    lingerUntil_ = base::Deadline::afterMs(clock_, std::max<int64_t>(ms, 1));
    LingerTable& table = LingerTable::instance();
    const std::lock_guard<std::mutex> lock(table.mutex);
    std::erase_if(table.loops, [](const auto& entry) { return entry.second.expired(); });
    table.loops.emplace_back(acceptor_->address(), weak_from_this());
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

Result<std::shared_ptr<MeetingHost>> MeetingHost::start(MeetingHostOptions options,
                                                        const base::Clock& clock) {
  AcceptorOptions accept;
  accept.address = options.address;
  accept.listen = options.listen;
  accept.secret = options.secret;
  accept.expected = {.commId = options.commId, .to = kNoRank, .kind = LinkKind::kMeeting};
  accept.refusesDuplicates = false;  // the meeting has more to say about them
  accept.maxUnproven = options.maxUnproven;
  accept.proofTime = options.proofTime;
  accept.wireVersion = options.wireVersion;
  int savedErrno = 0;
  Result<std::unique_ptr<Acceptor>> acceptor =
      options.listener.isOpen() ? Acceptor::adopt(std::move(options.listener), accept, clock)
                                : Acceptor::listen(accept, clock, &savedErrno);
  for (int i = 0;
       savedErrno == EADDRINUSE && i < kHandOverSteps && Loop::endLingering(options.address); ++i) {
    std::this_thread::sleep_for(kHandOverStep);
    savedErrno = 0;
    acceptor = Acceptor::listen(accept, clock, &savedErrno);
  }
  if (!acceptor.isOk()) return acceptor.status();
  OMNES_ASSIGN_OR_RETURN(base::Epoll epoll, base::Epoll::open());
  OMNES_ASSIGN_OR_RETURN(base::EventFd stop, base::EventFd::open());
  OMNES_ASSIGN_OR_RETURN(base::EventFd giveUp, base::EventFd::open());
  OMNES_ASSIGN_OR_RETURN(base::EventFd settle, base::EventFd::open());
  std::shared_ptr<MeetingHost> host(new MeetingHost());  // NOLINT: private constructor
  host->address_ = acceptor.value()->address();
  host->loop_ = std::make_shared<Loop>(std::move(options), clock, std::move(acceptor).value(),
                                       std::move(epoll), std::move(stop), std::move(giveUp),
                                       std::move(settle));
  OMNES_RETURN_IF_ERROR(host->loop_->watchOwn());
  Loop::noteRunning(host->loop_);
  runningHosts.fetch_add(1, std::memory_order_relaxed);
  const Status started =
      startDetachedThread("omnes-meeting", [loop = host->loop_] { loop->run(); });
  if (started.isOk()) return host;
  runningHosts.fetch_sub(1, std::memory_order_relaxed);
  return started;
}

void MeetingHost::awaitFailureTold(const std::string& address, base::Duration limit, bool andLate) {
  if (const std::shared_ptr<Loop> loop = Loop::findLingering(address))
    loop->awaitTold(limit, andLate);
}

void MeetingHost::awaitSettled(uint64_t commId, base::Duration limit) {
  if (const std::shared_ptr<Loop> loop = Loop::findRunning(commId)) loop->awaitSettled(limit);
}

void MeetingHost::awaitTold(base::Duration limit) const { loop_->awaitTold(limit, false); }

void MeetingHost::giveUp(const Status& cause) const { loop_->requestGivingUp(cause); }

void MeetingHost::stop() const { loop_->requestStop(); }

int MeetingHost::running() { return runningHosts.load(std::memory_order_relaxed); }

}  // namespace omnes::core::bootstrap
