// The group that a thread has open: the calls that it has noted, and what becomes of them.
//
// Belongs to its thread. `isOpen` is what every call looks at first: a number of the thread, in the
// static block so that no look-up is needed.
#pragma once

#include <memory>
#include <vector>

#include "api/handle.h"
#include "api/joining.h"
#include "core/run/start.h"

namespace omnes::api {

class Group {
 public:
  static bool isOpen() { return depth_ > 0; }
  static Group& ofThisThread();
  // Of a communicator that has ended: its noted operations are dropped, and the group fails.
  static void dropFromThis(omnesComm_t comm);

  void start();
  // The outermost one starts everything.
  base::Status end();

  base::Status noteOperation(omnesComm_t comm, std::shared_ptr<core::Pending> pending,
                             std::shared_ptr<core::Stream> stream);
  // The messages of one communicator and stream become one operation at the end, behind the
  // collectives: so they meet those of the other ranks in whatever order they were called.
  base::Status noteMessage(omnesComm_t comm, const core::Message& message,
                           std::shared_ptr<core::Stream> stream);
  // *comm is set at the end.
  base::Status noteJoin(JoinPlan plan, omnesComm_t* comm);
  // A call of the group was refused.
  void refuse(const base::Status& status);

 private:
  struct Noted {
    omnesComm_t comm;
    uint64_t serial;
    std::shared_ptr<core::Pending> pending;
    std::shared_ptr<core::Stream> stream;
  };
  struct NotedMessages {
    omnesComm_t comm;
    uint64_t serial;
    std::shared_ptr<core::Stream> stream;
    std::vector<core::Message> messages;
  };
  base::Status startNoted(const std::vector<Noted>& noted,
                          const std::vector<NotedMessages>& messages);

  [[gnu::tls_model("initial-exec")]] static thread_local constinit int depth_;

  uint32_t forkGeneration_ = 0;
  std::vector<Noted> noted_;
  std::vector<NotedMessages> messages_;
  std::vector<JoinPlan> joins_;
  std::vector<omnesComm_t*> joined_;
  base::Status refused_;
};

}  // namespace omnes::api
