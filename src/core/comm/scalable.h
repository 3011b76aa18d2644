// A communicator by several unique ids.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/communicator.h"

namespace omnes::core {

// All ranks meet at the first point. Of the others, each is visited by one rank, which shows that
// its host lives and that the id is not spent, and ends that host. The key of connections between
// ranks is made of the keys of all of them. Blocks as Communicator::join().
base::Result<std::unique_ptr<Communicator>> joinByIds(
    const std::vector<bootstrap::MeetingPoint>& points, int32_t rank, int32_t nranks,
    const CommSettings& settings, const AbortSignal& abort);

}  // namespace omnes::core
