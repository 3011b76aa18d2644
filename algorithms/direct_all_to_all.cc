// "direct" all-to-all: every block goes straight from its source to its destination.
//
// Rank r sends the block for r + 1 first, then that for r + 2, and so on, so that no rank is
// everyone's first target; and it receives from r - 1, r - 2, ..., who send to it in that order.
// One round, n - 1 messages, no byte travels twice.
//
// Delays: 0 send, 1 receive, so that slice w leaves before slice w - 1 is waited for.
//
// Credits: 2. In wave w a rank sends slice w and needs, with K slots, its receiver to have taken
// slice w - K, which happens in the receiver's wave w - K + 1: an earlier one for K = 2. With K = 1
// it is wave w, after the receiver's own sends, which wait for others in the same way.
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

Plan makeAllToAll(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kAllToAll, "direct", r, n);
  builder.minCredits(n == 1 ? 1 : 2);
  builder.loop(n - 1)
      .move({inputRef(at(r + 1, 1))}, Op::kNone,
            {linkRef(kStreamScatter, at(r + 1, 1), Mark::kInput)})
      .endLoop();
  builder.move({inputRef(at(r))}, Op::kNone, {outputRef(at(r))});
  builder.delay(1)
      .loop(n - 1)
      .move({linkRef(kStreamScatter, at(r - 1, -1), Mark::kInput)}, Op::kNone,
            {outputRef(at(r - 1, -1))})
      .endLoop();
  return builder.build();
}

Cost costOfAllToAll(const PlanRequest& request) {
  const int64_t n = request.nranks;
  return {.rounds = n > 1 ? 1 : 0, .messages = n - 1, .inputBlocks = n - 1};
}

constexpr Algorithm kFamily[] = {
    {"direct", Collective::kAllToAll, supportsFlat, makeAllToAll, costOfAllToAll, false, true},
};

}  // namespace

std::span<const Algorithm> directAllToAllFamily() { return kFamily; }

}  // namespace omnes::algorithms
