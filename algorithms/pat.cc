// "pat": all-gather and reduce-scatter along n binomial trees at once, the far hops first, with
// chunks of bounded size (after NVIDIA's "parallel aggregated trees", S. Jeaugey, arXiv
// 2506.20252).
//
// The tree of block b leads from its owner to rank b + x, for every distance x < n, over the powers
// of two in x, the largest first. So b reaches b + x from b + x - s, where s is the lowest bit of
// x, and all trees are walked together, bit after bit: let s be the largest power of two below n,
// then its half, down to 1.
//   all-gather
//     send the blocks at distances 0, 2s, 4s, ... behind the own one to r + s;
//     receive those at distances s, 3s, 5s, ... from r - s.
//   reduce-scatter, the same backwards: s = 1, 2, 4, ... and along the edges the other way
//     send the sums for the blocks at distances s, 3s, 5s, ... behind the own one to r - s;
//     receive those at distances 0, 2s, 4s, ... from r + s and add them.
// Each distance 1 .. n - 1 has one lowest bit, so every block comes once, n - 1 in all, in
// ceil(log2 n) rounds. A round moves c(s) = floor((n - 1 + s) / 2s) blocks: 1 over the longest
// distance, half of all to the next rank. Bruck's all-gather goes the other way and moves half of
// all the farthest; that is the reason to have this one. The blocks of a chunk lie 2s apart, hence
// are one run, and nothing is rotated.
//
// A chunk holds at most kMostBlocks blocks, whatever n is; a round of more is several chunks. Up to
// 2 kMostBlocks ranks that changes nothing. Beyond, rounds are no longer logarithmic (n /
// kMostBlocks at last), but the pieces that share a slot stay worth sending, and slices long: a
// slot is cut into kMostBlocks of them, not into n / 2. The price is scratch, n pieces, or n /
// kMostBlocks slots, in the reduce-scatter.
//
// Reduce-scatter: sums live in scratch, block b in scratch block b. The sum for the block at
// distance x consists of contributions from ranks r .. r + s - 1 when it is sent, s the lowest bit
// of x, ended by the rank with distance n - 1: the own operand comes first, so additions run
// through the ranks from the owner of the block on, in a tree of depth ceil(log2 n). A chunk has
// one mark: the first round's are untouched, later ones sums; but nobody adds to the block at
// distance n - 1, and if n is odd it is sent in a later round. Alone (n - 1 a power of two) it goes
// as input, else it is widened into scratch first, so that the round's chunk has one mark.
//
// Delays: 0. Credits: 1. A link belongs to one s; its sender and its receiver do a round's chunks
// one by one, each sends before it receives. What is sent is never written again in its slice, so a
// lent block never waits.
#include <algorithm>
#include <cstdint>

#include "algorithms/families.h"
#include "plan/builder.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::Index;
using plan::inputRef;
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::outputRef;
using plan::partialRef;
using plan::Plan;
using plan::Ref;
using plan::Run;

constexpr int32_t kMostBlocks = 64;

// The largest power of two below n; 0 for one rank.
int32_t farthest(int32_t nranks) {
  int32_t hop = nranks > 1 ? 1 : 0;
  while (hop > 0 && hop < nranks - hop) hop *= 2;
  return hop;
}

// c(s): how many of the distances s, 3s, 5s, ... are below n.
int32_t movedBy(int32_t nranks, int32_t hop) {
  return static_cast<int32_t>((int64_t{nranks} - 1 + hop) / (2 * int64_t{hop}));
}

// Calls add(near, far, inLoop) for the chunks of a round: the runs of blocks at distances 0, 2s,
// ... and s, 3s, ... behind the rank. Full chunks are a loop.
template <typename Add>
void forEachChunk(Builder& builder, int32_t rank, int32_t nranks, int32_t hop, const Add& add) {
  const int32_t moved = movedBy(nranks, hop);
  const int32_t full = moved > kMostBlocks ? moved / kMostBlocks : 0;
  const int32_t stride = -2 * hop;
  const auto runs = [&](int32_t first, int32_t step, int32_t count) {
    const int32_t near = rank - 2 * hop * first;
    add(Run{{near, step}, stride, count}, Run{{near - hop, step}, stride, count});
  };
  if (full > 0) {
    builder.loop(full);
    runs(0, stride * kMostBlocks, kMostBlocks);
    builder.endLoop();
  }
  const int32_t done = full * kMostBlocks;
  if (moved > done) runs(done, 0, moved - done);
}

Plan makeAllGather(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kAllGather, "pat", r, n);
  if (n == 1) builder.move({inputRef(at(0))}, Op::kNone, {outputRef(at(0))});
  for (int32_t hop = farthest(n); hop > 0; hop /= 2) {
    const Ref out = linkRef(kStreamScatter, at(r + hop), Mark::kInput);
    const Ref in = linkRef(kStreamScatter, at(r - hop), Mark::kInput);
    forEachChunk(builder, r, n, hop, [&](const Run& near, const Run& far) {
      if (hop == farthest(n)) {
        builder.move({inputRef(at(0))}, Op::kNone, {outputRef(at(r)), out});
      } else {
        builder.move({outputRef(near)}, Op::kNone, {out});
      }
      builder.move({in}, Op::kNone, {outputRef(far)});
    });
  }
  return builder.build();
}

// The distance that nobody adds to, n - 1, is sent with sums in the round of its lowest bit.
constexpr bool hasStraggler(int32_t nranks) {
  const int32_t distance = nranks - 1;
  return distance > 1 && distance % 2 == 0 && (distance & (distance - 1)) != 0;
}

Plan makeReduceScatter(const PlanRequest& request) {
  const int32_t n = request.nranks, r = request.rank;
  Builder builder(Collective::kReduceScatter, "pat", r, n);
  builder.scratch(n > 2 ? n : 0);
  if (n == 1) builder.move({inputRef(at(0))}, Op::kReduce, {outputRef(at(0))});
  if (hasStraggler(n)) {
    const Run straggler = at(r - (n - 1));
    builder.move({inputRef(straggler)}, Op::kReduce, {partialRef(straggler)});
  }
  for (int32_t hop = 1; hop < n; hop *= 2) {
    const bool untouched = hop == 1 || hop == n - 1;
    const Mark mark = untouched ? Mark::kInput : Mark::kPartial;
    forEachChunk(builder, r, n, hop, [&](const Run& near, const Run& far) {
      builder.move({untouched ? inputRef(far) : partialRef(far)}, Op::kNone,
                   {linkRef(kStreamScatter, at(r - hop), mark)});
      builder.move({hop == 1 ? inputRef(near) : partialRef(near),
                    linkRef(kStreamScatter, at(r + hop), mark)},
                   Op::kReduce, {hop == farthest(n) ? outputRef(at(0)) : partialRef(near)});
    });
  }
  return builder.build();
}

// Chunks of all rounds: ceil(c(s) / kMostBlocks) each. A rank sends one before it receives one, so
// that is the number of rounds, too.
int64_t chunksOf(int32_t nranks) {
  int64_t chunks = 0;
  for (int32_t hop = farthest(nranks); hop > 0; hop /= 2)
    chunks += (movedBy(nranks, hop) + kMostBlocks - 1) / kMostBlocks;
  return chunks;
}

Cost costOfAllGather(const PlanRequest& request) {
  const int64_t chunks = chunksOf(request.nranks);
  return {.rounds = chunks, .messages = chunks, .inputBlocks = request.nranks - 1};
}

Cost costOfReduceScatter(const PlanRequest& request) {
  const int64_t n = request.nranks;
  if (n == 1) return {.operands = 1};
  const int64_t chunks = chunksOf(request.nranks);
  // The odd distances, and the last one when it is sent alone.
  const int64_t alone = n % 2 == 1 && !hasStraggler(request.nranks) ? 1 : 0;
  const int64_t untouched = n / 2 + alone;
  return {.rounds = chunks,
          .messages = chunks,
          .inputBlocks = untouched,
          .partialBlocks = n - 1 - untouched,
          .operands = 2 * (n - 1) + (hasStraggler(request.nranks) ? 1 : 0)};
}

constexpr Algorithm kFamily[] = {
    {"pat", Collective::kReduceScatter, supportsFlat, makeReduceScatter, costOfReduceScatter, true,
     true},
    {"pat", Collective::kAllGather, supportsFlat, makeAllGather, costOfAllGather, true, true},
};

}  // namespace

std::span<const Algorithm> patFamily() { return kFamily; }

}  // namespace omnes::algorithms
