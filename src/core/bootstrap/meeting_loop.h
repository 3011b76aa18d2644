// The loop of one meeting's host: it listens, proves, and runs the rules of meeting.h over sockets.
//
// It knows one meeting and nothing of others in this process; meeting_host.h starts it in a thread
// and keeps the list of those that run. It never blocks on a peer, and ends when its ranks have all
// said goodbye or closed, a moment after the meeting has failed, or when it is asked to.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/event.h"
#include "base/status.h"
#include "core/bootstrap/acceptor.h"
#include "core/bootstrap/frame.h"
#include "core/bootstrap/keep_alive.h"
#include "core/bootstrap/meeting.h"

namespace omnes::core::bootstrap {

class MeetingLoop;

struct MeetingLoopOptions {
  // After the meeting: whether to go on listening, to tell later comers that the id is spent.
  bool keepsListening = true;
  // How long ranks that come after a failure are still told its cause.
  base::Duration linger = std::chrono::seconds(1);
  // Called once, in the loop's thread, when the meeting has failed and the loop begins to linger at
  // `address`, before the ranks that are still here are told. Must be set, and must not wait.
  std::function<void(const std::string& address, std::weak_ptr<MeetingLoop> self)> onLingering;
};

// Shared by the thread that runs it and all who ask something of it. run() is for that one thread;
// all else is thread-safe, and may also be called after run() has returned.
class MeetingLoop : public std::enable_shared_from_this<MeetingLoop> {
 public:
  // `acceptor` listens already and must not refuse duplicates. `clock` must outlive the loop.
  static base::Result<std::shared_ptr<MeetingLoop>> make(MeetingLoopOptions options,
                                                         const base::Clock& clock,
                                                         std::unique_ptr<Acceptor> acceptor);

  // Serves the meeting until it is over. When it returns, all connections and the address have been
  // let go. Once.
  void run();
  // Ends run() at once; ranks see their connections close. Does not wait.
  void requestStop() const { stop_.signal(); }
  // Fails the meeting with `cause`; without effect once all have met. Does not wait.
  void requestGivingUp(const base::Status& cause);
  // Waits until what members had sent before has been passed on, or the limit.
  void awaitSettled(base::Duration limit);
  // Waits until all members have been sent the cause of the failure, or the limit; with `andLate`
  // for those who have not come yet as well.
  void awaitTold(base::Duration limit, bool andLate);

 private:
  struct Descriptors {
    base::Epoll epoll;
    base::EventFd stop;
    base::EventFd giveUp;
    base::EventFd settle;
  };
  struct Connection {
    base::UniqueFd fd;
    KeepAlive keepAlive;
    uint32_t rank = kNoRank;  // kNoRank: not a member; closed when it has been told why
    FrameReader reader;
    FrameWriter writer;
    bool isWatchedForWriting = false;
    bool isClosing = false;
  };
  static constexpr uint64_t kFirstConnectionTag = 4;  // below: what wakes the loop itself

  MeetingLoop(MeetingLoopOptions options, const base::Clock& clock,
              std::unique_ptr<Acceptor> acceptor, Descriptors own);
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

  // Everything but what has a lock or wakes it is the running thread's alone.
  const MeetingLoopOptions options_;
  const base::Clock& clock_;
  std::unique_ptr<Acceptor> acceptor_;
  base::Epoll epoll_;
  base::EventFd stop_;
  base::EventFd giveUp_;
  base::EventFd settle_;
  base::Deadline settlingUntil_ = base::Deadline::never();
  bool isSettling_ = false;
  std::mutex givingUpMutex_;
  base::Status givingUp_;  // guarded by givingUpMutex_; OK: nobody gives up
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

}  // namespace omnes::core::bootstrap
