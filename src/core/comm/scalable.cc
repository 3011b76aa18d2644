#include "core/comm/scalable.h"

#include <string>

#include "core/bootstrap/rendezvous.h"

namespace omnes::core {

using base::Result;
using base::Status;
using bootstrap::MeetingPoint;

namespace {

// Joins a host's meeting alone, and leaves it.
Status visit(const MeetingPoint& point, const bootstrap::WaitLimits& limits) {
  return bootstrap::Rendezvous::join(point, 0, 1, "", limits.deadline, *limits.clock,
                                     limits.abortFd)
      .status();
}

}  // namespace

Result<std::unique_ptr<Communicator>> joinByIds(const std::vector<MeetingPoint>& points,
                                                int32_t rank, int32_t nranks,
                                                const CommSettings& settings,
                                                const AbortSignal& abort) {
  const base::Clock& clock = base::Clock::monotonic();
  const bootstrap::WaitLimits limits{base::Deadline::afterMs(clock, settings.initTimeoutMs), &clock,
                                     abort.fd};
  MeetingPoint point = points.front();
  CommSettings told = settings;
  std::string ids;
  for (size_t i = 0; i < points.size(); ++i) {
    // The visitors are spread evenly over the ranks.
    const auto visitor = static_cast<int32_t>(i * static_cast<size_t>(nranks) / points.size());
    if (i > 0 && visitor == rank)
      OMNES_RETURN_IF_ERROR(visit(points[i], limits).withContext("ids[" + std::to_string(i) + "]"));
    if (i > 0) point.addKey(points[i].secret);
    ids += std::to_string(points[i].commId) + "\n";
  }
  told.meeting = std::to_string(bootstrap::hashText(ids));  // nothing of an id is shown
  return Communicator::join(point, rank, nranks, told.withTimeLeft(limits.deadline, clock), abort);
}

}  // namespace omnes::core
