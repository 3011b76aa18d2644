#include "plan/traffic.h"

#include <algorithm>
#include <string>

#include "plan/proof_match.h"
#include "plan/proof_program.h"

namespace omnes::plan {
namespace {

using base::Status;
using proof::Matching;
using proof::Operation;
using proof::Program;

TrafficEvent eventOf(const Program& program, const Operation& operation) {
  TrafficEvent event;
  event.rank = operation.rank;
  event.step = operation.index;
  event.iteration = operation.iteration;
  event.what = operation.step;
  if (operation.step->kind == Step::Kind::kMove) {
    const int32_t blocks = program.planOf(operation).blocks;
    for (int32_t k = 0; k < operation.extents.count; ++k)
      event.extents.push_back(operation.extents.at(k, blocks));
  }
  return event;
}

// Adds what one operation receives, and the far ends of it.
void receive(const Program& program, const Matching& matching, uint32_t index,
             const std::vector<uint32_t>& eventOfOperation, LaneTraffic* lane) {
  const Operation& operation = program.operations[index];
  const uint32_t own = eventOfOperation[index];
  for (uint32_t in = operation.firstIn; in < operation.firstIn + operation.inCount; ++in) {
    const uint32_t out = matching.chunkOf[in];
    const uint32_t sender = eventOfOperation[program.outs[out].operation];
    const uint8_t stream = program.links[program.outs[out].link].stream;
    const Mark mark = program.sinkOf(out).mark;
    TrafficEvent& event = lane->events[own];
    TrafficEvent& other = lane->events[sender];
    event.receives.push_back({other.rank, sender, stream, mark});
    other.sends.push_back({event.rank, own, stream, mark});
    event.column = std::max(event.column, other.column + 1);
  }
}

base::Result<LaneTraffic> laneTraffic(const Program& program, size_t* left) {
  Matching matching;
  OMNES_RETURN_IF_ERROR(proof::match(program, &matching));
  const size_t size = program.operations.size() + program.ins.size();
  if (size > *left)
    return Status(base::Code::kInvalidArgument,
                  "the plans have more steps and chunks than can be written out; take fewer ranks");
  *left -= size;
  LaneTraffic lane;
  std::vector<uint32_t> eventOfOperation(program.operations.size());
  std::vector<int32_t> columnOfRank(program.plans.size());
  for (const uint32_t index : matching.order) {
    eventOfOperation[index] = static_cast<uint32_t>(lane.events.size());
    lane.events.push_back(eventOf(program, program.operations[index]));
    int32_t& column = columnOfRank[static_cast<size_t>(lane.events.back().rank)];
    lane.events.back().column = column;
    receive(program, matching, index, eventOfOperation, &lane);
    column = lane.events.back().column;
    lane.columns = std::max(lane.columns, column + 1);
  }
  return lane;
}

}  // namespace

base::Result<std::vector<LaneTraffic>> trafficOf(std::span<const Plan> plans, size_t limit) {
  OMNES_RETURN_IF_ERROR(proof::checkForm(plans, false));
  std::vector<LaneTraffic> lanes;
  proof::LinkTable table;
  for (size_t lane = 0; lane < plans[0].lanes.size(); ++lane) {
    Program program;
    OMNES_RETURN_IF_ERROR(
        proof::compile(plans, false, static_cast<int32_t>(lane), &table, &program));
    OMNES_ASSIGN_OR_RETURN(LaneTraffic traffic, laneTraffic(program, &limit));
    lanes.push_back(std::move(traffic));
  }
  return lanes;
}

}  // namespace omnes::plan
