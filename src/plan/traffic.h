// What all ranks send one another in one slice: the plans unrolled, each receive joined to its
// send.
//
// For those who look at plans (drawings, traces for simulators), not for proofs: it checks only
// what it needs, which is the form of the plans and that sends and receives meet. Value types, pure
// functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace omnes::plan {

// One chunk on its way to one reader; a multicast is as many of them.
struct Transfer {
  int32_t peer = 0;    // the other rank
  uint32_t event = 0;  // the other end, in Traffic::events of the lane
  uint8_t stream = 0;
  Mark mark = Mark::kInput;
};

// One step in one iteration of one rank.
struct TrafficEvent {
  int32_t rank = 0;
  int32_t step = 0;  // its index in the lane
  int32_t iteration = 0;
  int32_t column = 0;            // link hops before it can run: the round that it belongs to
  const Step* what = nullptr;    // borrows from the plans
  std::vector<int32_t> extents;  // that its chunks hold, in order; none for signals and waits
  std::vector<Transfer> receives;
  std::vector<Transfer> sends;
};

// One lane of all ranks, in an order in which they can run.
struct LaneTraffic {
  std::vector<TrafficEvent> events;
  int32_t columns = 0;
};

// At most `limit` events and transfers in all; above that an error that says so.
base::Result<std::vector<LaneTraffic>> trafficOf(std::span<const Plan> plans, size_t limit);

}  // namespace omnes::plan
