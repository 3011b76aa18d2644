// "ring": all-to-all between neighbours only, each block stored and forwarded the shorter way
// round.
//
// Blocks whose way is at most h = floor(n / 2) hops upwards travel upwards, the other g = n - 1 - h
// downwards. For the upward ones, with distance d = +1 and m = h (downwards: d = -1, m = g):
//   round 1          send the blocks for r + d, r + 2d, ..., r + md to r + d
//   round k = 1 .. m receive from r - d what is now k hops away from its source: the blocks of
//                    distances kd, (k+1)d, ..., md. The first of them is for this rank; send on the
//                    rest to r + d, in round k + 1
// n - 1 messages and floor(n^2 / 4) blocks a rank: half of what shifting everything one way moves.
// That is n / 4 times the bytes of the algorithms that send directly, and worth it only where
// neighbours are joined by links and other ranks are not, since there every way to r + x uses x of
// them.
//
// What is on its way is kept in scratch, by distance. A round writes the half of it that the round
// before sent from, so lent blocks are taken by then: the neighbour took them in that round.
//
// The runs shrink from round to round, so rounds cannot be a loop, whose runs have one length: a
// plan has 3(n - 1) steps or so. (Runs of one length would carry twice the blocks.) The number of
// ranks is limited, where a rank would move more than a hundred times the bytes.
//
// Delays: 0. Credits: 1. A rank sends a round's chunk before it receives one, and the slot for the
// next is free when its neighbour has finished the round before.
#include <array>

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
using plan::range;
using plan::Ref;
using plan::sliceRef;
using plan::Space;

constexpr int32_t kMostRanks = 512;

// One of the two ways round.
struct Way {
  int32_t d;  // +1 or -1
  int32_t hops;
};

std::array<Way, 2> waysOf(int32_t nranks) {
  return {Way{1, nranks / 2}, Way{-1, nranks - 1 - nranks / 2}};
}

Plan makeAllToAll(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kAllToAll, "ring", r, n);
  // The blocks of distances kd .. md after they arrived in round k.
  const auto kept = [n](const Way& way, int32_t round, int32_t first) {
    const int32_t distance = way.d > 0 ? first : n - first;
    return sliceRef(Space::kScratch, range(round % 2 * n + distance, way.hops - first + 1, way.d),
                    Mark::kInput);
  };
  builder.scratch(n > 3 ? 2 * n : 0);
  builder.move({inputRef(at(r))}, Op::kNone, {outputRef(at(r))});
  for (int32_t k = 1; k <= n / 2; ++k) {
    for (const Way& way : waysOf(n)) {
      if (k > way.hops) continue;
      const Ref source = k == 1 ? inputRef(range(r + way.d, way.hops, way.d)) : kept(way, k - 1, k);
      builder.move({source}, Op::kNone, {linkRef(kStreamScatter, at(r + way.d), Mark::kInput)});
    }
    for (const Way& way : waysOf(n)) {
      if (k > way.hops) continue;
      const Ref in = linkRef(kStreamScatter, at(r - way.d), Mark::kInput);
      const Ref mine = outputRef(at(r - k * way.d));
      if (k == way.hops) {
        builder.move({in}, Op::kNone, {mine});
        continue;
      }
      Ref first = kept(way, k, k);
      builder.move({in}, Op::kNone, {first});
      first.run.count = 1;
      builder.move({first}, Op::kNone, {mine});
    }
  }
  return builder.build();
}

Cost costOfAllToAll(const PlanRequest& request) {
  const int64_t n = request.nranks;
  return {.rounds = n / 2, .messages = n - 1, .inputBlocks = n * n / 4};
}

bool supportsFew(const PlanRequest& request) {
  return supportsFlat(request) && request.nranks <= kMostRanks;
}

constexpr Algorithm kFamily[] = {
    {"ring", Collective::kAllToAll, supportsFew, makeAllToAll, costOfAllToAll, false, true},
};

}  // namespace

std::span<const Algorithm> ringAllToAllFamily() { return kFamily; }

}  // namespace omnes::algorithms
