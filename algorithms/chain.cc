// "chain": broadcast and reduce along one chain of ranks, for long messages with one root.
//
// Rank r has the position v = (r - root) mod n.
//   broadcast  position v takes the message from v - 1, keeps it and sends it to v + 1 in the same
//              step.
//   reduce     the sum starts at position 1 with that rank's input and walks up to n - 1, each rank
//              adding its own contribution; n - 1 sends it to the root, which adds the last one.
//
// A rank sends and receives the message once, the least there is, and slices follow each other down
// the chain: with S slices the last rank has everything after n - 2 + S hops' time.
//
// Order of additions: ((x[root+1] + x[root+2]) + ...) + x[root], the incoming sum first; that of
// "ring" for a block that the root owns.
//
// Delays: 0. A step both receives and sends, so there is nothing in a rank to overlap; the ranks
// are in different waves by themselves, as far apart as their links have slots.
//
// Credits: 1. In wave w a rank waits for slice w from the rank before it, and for the rank behind
// it to have taken slice w - 1: for a smaller position, or an earlier wave.
#include <vector>

#include "algorithms/families.h"
#include "plan/builder.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::inputRef;
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::outputRef;
using plan::Plan;
using plan::Ref;

int32_t positionOf(const PlanRequest& request) {
  return (request.rank - request.root + request.nranks) % request.nranks;
}

Ref link(int32_t peer, Mark mark = Mark::kInput) { return linkRef(kStreamScatter, at(peer), mark); }

Plan makeBroadcast(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank, v = positionOf(request);
  Builder builder(Collective::kBroadcast, "chain", r, n, request.root);
  std::vector<Ref> sinks = {outputRef(at(0))};
  if (v < n - 1) sinks.push_back(link(r + 1));
  builder.move({v == 0 ? inputRef(at(0)) : link(r - 1)}, Op::kNone, sinks);
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = n > 1 ? 1 : 0;
  return plan;
}

Plan makeReduce(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank, v = positionOf(request);
  Builder builder(Collective::kReduce, "chain", r, n, request.root);
  const Ref mine = inputRef(at(0));
  if (n == 1) {
    builder.move({mine}, Op::kReduce, {outputRef(at(0))});
  } else if (v == 1) {
    builder.move({mine}, Op::kNone, {link(r + 1)});
  } else {
    // Position 1 sends what is untouched: to position 2, or to the root of two ranks.
    const bool untouched = v == 2 || n == 2;
    builder.move({link(r - 1, untouched ? Mark::kInput : Mark::kPartial), mine}, Op::kReduce,
                 {v == 0 ? outputRef(at(0)) : link(r + 1, Mark::kPartial)});
  }
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = n > 1 ? 1 : 0;
  plan.maxPartialChunkBlocks = n > 2 ? 1 : 0;
  return plan;
}

Cost costOfBroadcast(const PlanRequest& request) {
  const int64_t n = request.nranks;
  const int64_t sent = positionOf(request) < n - 1 ? 1 : 0;
  return {.rounds = n - 1, .messages = sent, .inputBlocks = sent};
}

Cost costOfReduce(const PlanRequest& request) {
  const int64_t n = request.nranks, v = positionOf(request);
  return {.rounds = n - 1,
          .messages = v > 0 ? 1 : 0,
          .inputBlocks = v == 1 ? 1 : 0,
          .partialBlocks = v > 1 ? 1 : 0,
          .operands = n == 1   ? 1
                      : v == 1 ? 0
                               : 2};
}

constexpr Algorithm kFamily[] = {
    {"chain", Collective::kBroadcast, supportsRooted, makeBroadcast, costOfBroadcast, false, true},
    {"chain", Collective::kReduce, supportsRooted, makeReduce, costOfReduce, false, true},
};

}  // namespace

std::span<const Algorithm> chainFamily() { return kFamily; }

}  // namespace omnes::algorithms
