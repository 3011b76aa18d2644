// "linear": all-reduce by rank 0, for short messages where messages are dear and ranks share
// processors.
//
// Every rank sends its input to rank 0, which adds all n contributions in the order of the ranks,
// rounded once, and sends everybody the result. One hop more than "oneshot", the same bits, and 2(n
// - 1) messages in all instead of n(n - 1): the work that counts when the ranks of a machine take
// turns on its processors, or when each message is a system call. (The "linear" of the MPI
// libraries: reduce to a root, then broadcast from it.)
//
// Credits: 1. With one slot on each link rank 0 adds slice w when all have sent it and have read
// result w - 1; a rank sends slice w after rank 0 has added slice w - 1, and reads result w - 1 in
// the same wave. Each waits for an earlier wave only.
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

constexpr int32_t kRoot = 0;

Plan makeAllReduce(const PlanRequest& request) {
  const int32_t n = request.nranks;
  Builder builder(Collective::kAllReduce, "linear", request.rank, n);
  if (request.rank == kRoot) {
    builder.move({inputRef(at(0)), linkRef(kStreamScatter, range(1, n - 1), Mark::kInput)},
                 Op::kReduce,
                 {outputRef(at(0)), linkRef(kStreamGather, othersOf(kRoot, n), Mark::kInput)});
  } else {
    builder.move({inputRef(at(0))}, Op::kNone, {linkRef(kStreamScatter, at(kRoot), Mark::kInput)});
    builder.delay(1).move({linkRef(kStreamGather, at(kRoot), Mark::kInput)}, Op::kNone,
                          {outputRef(at(0))});
  }
  return builder.build();
}

Cost costOfAllReduce(const PlanRequest& request) {
  const int64_t n = request.nranks;
  const bool isRoot = request.rank == kRoot;
  const int64_t sent = isRoot ? n - 1 : 1;
  return {
      .rounds = n > 1 ? 2 : 0, .messages = sent, .inputBlocks = sent, .operands = isRoot ? n : 0};
}

constexpr Algorithm kFamily[] = {
    {"linear", Collective::kAllReduce, supportsFlat, makeAllReduce, costOfAllReduce, false, false,
     true},
};

}  // namespace

std::span<const Algorithm> linearFamily() { return kFamily; }

}  // namespace omnes::algorithms
