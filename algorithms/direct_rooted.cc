// "direct" broadcast, reduce, gather and scatter: the root and everybody else, with nobody in
// between.
//
// The broadcast is one multicast of the root. In the reduce every rank sends its input to the root,
// which adds all n contributions in one step, in the order of the ranks, rounded once. In gather
// and scatter the root takes or gives one block a rank, beginning with its right neighbour. One hop
// each, and n - 1 messages at the root: for short messages, and where the ranks reach the root's
// memory anyway.
//
// Nobody but the root touches what only the root has: the input of a broadcast or scatter, the
// output of a reduce or gather.
//
// Credits: 1. Everything has delay 0 and data flows one way, so the slot that slice w needs is
// freed by a step of wave w - 1, which waits for nothing later.
#include <utility>

#include "algorithms/families.h"
#include "plan/builder.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::inputRef;
using plan::kStreamGather;
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::othersOf;
using plan::outputRef;
using plan::Plan;
using plan::range;

Builder begin(Collective collective, const PlanRequest& request) {
  return Builder(collective, "direct", request.rank, request.nranks, request.root);
}
bool isRoot(const PlanRequest& request) { return request.rank == request.root; }

// Only one side sends, and all plans say how long its chunks are.
Plan finish(Builder builder, const PlanRequest& request) {
  Plan plan = builder.build();
  plan.maxInputChunkBlocks = request.nranks > 1 ? 1 : 0;
  return plan;
}

Plan makeBroadcast(const PlanRequest& request) {
  const int32_t root = request.root;
  Builder builder = begin(Collective::kBroadcast, request);
  if (isRoot(request)) {
    builder.move(
        {inputRef(at(0))}, Op::kNone,
        {outputRef(at(0)), linkRef(kStreamGather, othersOf(root, request.nranks), Mark::kInput)});
  } else {
    builder.move({linkRef(kStreamGather, at(root), Mark::kInput)}, Op::kNone, {outputRef(at(0))});
  }
  return finish(std::move(builder), request);
}

Plan makeReduce(const PlanRequest& request) {
  const int32_t n = request.nranks, root = request.root;
  Builder builder = begin(Collective::kReduce, request);
  if (isRoot(request)) {
    builder.move({linkRef(kStreamScatter, range(0, root), Mark::kInput), inputRef(at(0)),
                  linkRef(kStreamScatter, range(root + 1, n - 1 - root), Mark::kInput)},
                 Op::kReduce, {outputRef(at(0))});
  } else {
    builder.move({inputRef(at(0))}, Op::kNone, {linkRef(kStreamScatter, at(root), Mark::kInput)});
  }
  return finish(std::move(builder), request);
}

Plan makeGather(const PlanRequest& request) {
  const int32_t n = request.nranks, root = request.root;
  Builder builder = begin(Collective::kGather, request);
  if (isRoot(request)) {
    builder.move({inputRef(at(0))}, Op::kNone, {outputRef(at(root))});
    builder.loop(n - 1)
        .move({linkRef(kStreamScatter, at(root + 1, 1), Mark::kInput)}, Op::kNone,
              {outputRef(at(root + 1, 1))})
        .endLoop();
  } else {
    builder.move({inputRef(at(0))}, Op::kNone, {linkRef(kStreamScatter, at(root), Mark::kInput)});
  }
  return finish(std::move(builder), request);
}

Plan makeScatter(const PlanRequest& request) {
  const int32_t n = request.nranks, root = request.root;
  Builder builder = begin(Collective::kScatter, request);
  if (isRoot(request)) {
    builder.loop(n - 1)
        .move({inputRef(at(root + 1, 1))}, Op::kNone,
              {linkRef(kStreamScatter, at(root + 1, 1), Mark::kInput)})
        .endLoop();
    builder.move({inputRef(at(root))}, Op::kNone, {outputRef(at(0))});
  } else {
    builder.move({linkRef(kStreamScatter, at(root), Mark::kInput)}, Op::kNone, {outputRef(at(0))});
  }
  return finish(std::move(builder), request);
}

Cost costFromRoot(const PlanRequest& request) {
  const int64_t n = request.nranks;
  const int64_t sent = isRoot(request) ? n - 1 : 0;
  return {.rounds = n > 1 ? 1 : 0, .messages = sent, .inputBlocks = sent};
}

Cost costOfGather(const PlanRequest& request) {
  const int64_t sent = isRoot(request) ? 0 : 1;
  return {.rounds = request.nranks > 1 ? 1 : 0, .messages = sent, .inputBlocks = sent};
}

Cost costOfReduce(const PlanRequest& request) {
  Cost cost = costOfGather(request);
  cost.operands = isRoot(request) ? request.nranks : 0;
  return cost;
}

// The reduce adds in the order of the ranks, which does not shift with the root.
constexpr Algorithm kFamily[] = {
    {"direct", Collective::kBroadcast, supportsRooted, makeBroadcast, costFromRoot, false, true},
    {"direct", Collective::kReduce, supportsRooted, makeReduce, costOfReduce, false, false, true},
    {"direct", Collective::kGather, supportsRooted, makeGather, costOfGather, false, true},
    {"direct", Collective::kScatter, supportsRooted, makeScatter, costFromRoot, false, true},
};

}  // namespace

std::span<const Algorithm> directRootedFamily() { return kFamily; }

}  // namespace omnes::algorithms
