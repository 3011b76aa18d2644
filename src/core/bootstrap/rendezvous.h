// One rank's side of a meeting: join, exchange, and afterwards the control star.
//
// All ranks meet at one host (meeting_host.h) and keep their connection to it. exchange() hands
// every rank's blob to every rank. Later the same connections carry first causes of errors, and the
// news that a rank has left or died.
//
// join() and exchange() block, at most until the deadline plus half a second in which the host,
// which knows who is missing, may say so; abort ends them at once. Everything else is non-blocking
// except sendControl() and goodbye(), which are bounded. Receiving (exchange, receiveControl) is
// for one thread at a time; sendControl() and goodbye() are for any thread. Several ranks may live
// in one process.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "core/bootstrap/frame.h"
#include "core/bootstrap/keep_alive.h"
#include "core/bootstrap/meeting_point.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/socket_io.h"

namespace omnes::core::bootstrap {

struct ControlEvent {
  enum class Kind : uint8_t {
    kError,      // a first cause that another rank has found: rank, status
    kGone,       // rank's connection closed without a goodbye; status is kRemoteError and says who
    kLeft,       // rank has said goodbye
    kHostEnded,  // nothing more will come, and nobody is missing: watch the ranks by other means
    kEntered,    // rank says what it is doing: `payload` as it gave it to sendEntered()
  };
  Kind kind = Kind::kError;
  uint32_t rank = kNoRank;
  base::Status status;
  std::string payload = {};
};

class Rendezvous {
 public:
  // Joins as `rank` of `nranks`. `settings` is one "name=value" line a setting that must be alike
  // on all ranks, in the same order everywhere, without secrets. `abortFd`: readable means abort;
  // -1 = none. `clock` must outlive the result.
  //
  // kInvalidArgument: rank or nranks out of range, settings too long. kInvalidUsage: duplicate
  // rank, other nranks, settings, version or secret, spent id, aborted. kTimeout: lists the ranks
  // that are missing. kRemoteError: a rank died. kSystemError: address in use and the like. Nothing
  // is left behind on failure.
  static base::Result<std::unique_ptr<Rendezvous>> join(const MeetingPoint& point, uint32_t rank,
                                                        uint32_t nranks, std::string settings,
                                                        base::Deadline deadline,
                                                        const base::Clock& clock, int abortFd = -1);
  // Says goodbye if nobody has.
  ~Rendezvous();

  uint32_t rank() const { return rank_; }
  uint32_t nranks() const { return nranks_; }

  // Collective: every rank's `mine` (at most 64 KiB), by rank. All ranks call it equally often.
  base::Result<std::vector<std::string>> exchange(std::string_view mine, base::Deadline deadline);

  // For the service thread: readable = call receiveControl() until it has nothing.
  int controlFd() const { return fd_.get(); }
  // This host's end of the control connection, numeric: "10.0.0.1", "[fd00::1]"; empty for a unix
  // socket. An address that leads to the others, as far as can be known.
  std::string localAddress() const;
  // nullopt: nothing is there now, or nothing will ever come again (isEnded()).
  std::optional<ControlEvent> receiveControl();
  bool isEnded() const { return isEnded_; }
  // Tells all other ranks what `rank` has found. Thread-safe.
  base::Status sendControl(uint32_t rank, const base::Status& cause, base::Deadline deadline);
  // Tells rank `to` (kNoRank: all others) what this rank is doing, at most kMaxEnteredBytes. Never
  // waits: nothing is sent while somebody else is sending, or when there is no room. Whether it was
  // sent; that it arrives is likely and not certain. Thread-safe.
  bool sendEntered(uint32_t to, std::string_view payload);
  // Leaves in order: the others will not take the closing connection for a death. At most 250 ms.
  // Thread-safe, idempotent.
  void goodbye();
  // Ranks that live in the same process as `rank`, itself included.
  std::vector<uint32_t> ranksInProcessOf(uint32_t rank) const;

 private:
  Rendezvous(const MeetingPoint& point, uint32_t rank, uint32_t nranks, const base::Clock& clock,
             int abortFd);

  base::Status connect(base::Deadline deadline);
  // Whether connected; false = try again. `patience`: for one attempt to reach the host; `trouble`:
  // what stood in the way.
  base::Result<bool> tryConnect(const WaitLimits& limits, base::Duration patience,
                                std::string* trouble);
  base::Status awaitMet(const std::string& settings, base::Deadline deadline);
  void tellGivingUp(const base::Status& why);
  // Aborted before it could join: the others would wait for this rank until their deadline. At most
  // 250 ms.
  void tellOfAbort(const std::string& settings, const base::Status& why);
  base::Status send(const SharedFrame& frame, const WaitLimits& limits, std::string_view what);
  // Blocks for the next frame; a frame that says that all is lost is returned as its Status.
  base::Result<Frame> nextFrame(base::Deadline deadline, std::string_view what);
  base::Status takeMet(const Frame& frame);
  // The event behind a frame that is not part of an exchange; nullopt for frames that make no
  // sense.
  std::optional<ControlEvent> toEvent(Frame& frame);
  ControlEvent onHostLost();
  // The ranks that have died with the host, as far as we know.
  std::vector<uint32_t> lostWithHost() const;
  base::Status hostDeath(std::string_view what) const;
  WaitLimits limits(base::Deadline deadline) const { return {deadline, &clock_, abortFd_}; }
  std::string hostName() const;

  const MeetingPoint point_;
  const uint32_t rank_;
  const uint32_t nranks_;
  const base::Clock& clock_;
  int abortFd_;
  base::UniqueFd fd_;
  KeepAlive keepAlive_;  // guarded by sendMutex_ once connected
  FrameReader reader_;
  uint32_t round_ = 0;
  uint64_t hostToken_ = 0;
  std::vector<uint64_t> tokens_;  // by rank
  std::vector<bool> hasLeft_;     // by rank: said goodbye or is gone
  std::deque<ControlEvent> inbox_;
  bool isEnded_ = false;
  std::mutex sendMutex_;  // guards writing to fd_ and saidGoodbye_
  bool saidGoodbye_ = false;
};

}  // namespace omnes::core::bootstrap
