// Making communicators: one at once, several side by side, or one in the background.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "api/handle.h"
#include "base/event.h"
#include "base/thread.h"
#include "core/bootstrap/meeting_point.h"
#include "core/comm/settings.h"

namespace omnes::api {

// Everything that a rank needs to join; arguments have been checked.
struct JoinPlan {
  // As far as they are known beforehand, for queries while it joins.
  int32_t rank = 0;
  int32_t nranks = 1;
  // Null without an error: this rank gets no communicator (a split without a colour).
  std::function<base::Result<std::unique_ptr<core::Communicator>>(const core::AbortSignal&)> make;
};
// The plan to meet the others at a point.
JoinPlan planAt(core::bootstrap::MeetingPoint point, int32_t rank, int32_t nranks,
                core::CommSettings settings);

// Joins in this thread. *comm is set only on success.
base::Status joinNow(const JoinPlan& plan, omnesComm_t* comm, const core::AbortSignal& abort = {});

// The ranks join side by side, each in a thread of its own; all succeed or none is left: the first
// that fails ends the others. comms[i] belongs to plans[i].
base::Status joinTogether(const std::vector<JoinPlan>& plans,
                          const std::vector<omnesComm_t*>& comms);

// A join in the background. Shared by the handle and its thread.
class Joining {
 public:
  // Sets *comm, whose magic says kJoining until it is kLive or kLost. kInProgress, or why it could
  // not be started.
  static base::Status start(JoinPlan plan, omnesComm_t* comm);

  // Ends the join at once, if it is not over, and waits for its thread, at most `limit`; false when
  // that was not enough. Any thread.
  bool end(base::Duration limit);

 private:
  explicit Joining(base::EventFd abort)
      : abort_(std::make_shared<base::EventFd>(std::move(abort))) {}
  void run(const JoinPlan& plan, omnesComm_t comm);

  const std::shared_ptr<base::EventFd> abort_;
  std::atomic<bool> isOver_{false};
  base::Thread thread_;
};

}  // namespace omnes::api
