// The plan: a collective algorithm as data, for one rank.
//
// A plan knows blocks and peers, never bytes, element types, sockets, clocks or threads. The
// executor runs it, the verifier proves it, the simulator times it, the selector compares it, the
// viewer draws it.
//
// Vocabulary
//   extent   a piece of the collective's data whose length all ranks agree on. An all-reduce cuts
//   each slice of the
//            message into `blocks` extents; reduce-scatter and all-gather have one extent a rank.
//            Lengths differ and may be zero.
//   block    an index in a space (input, output, scratch); it holds one extent (extentOf below).
//   slice    the executor repeats the whole plan per slice of the message, dealing slices to lanes
//   in turn: lane l of
//            L runs slices l, l + L, l + 2L, ... A plan never mentions slices.
//   link     a one-way FIFO of chunks from one rank to one peer, or (multicast) from one rank to a
//   group of peers,
//            identified by (source, stream, group). Links outlive operations and are shared by all
//            plans.
//   chunk    what one step puts on one link for one slice: its blocks in order. Zero-length chunks
//   travel too. wave     a lane runs waves w = 0, 1, ...; in wave w it executes, in program order,
//   each step for its slice number
//            w - delay (skipped when that is negative or beyond the last). Both ends of a link
//            agree on the order of chunks because the delays of a send and its receive differ by
//            one constant per link.
//
// Atomicity: a step starts when all its sources have arrived and all its sinks have a free slot
// ("credit"), then runs and commits all of them. Not ready means no side effect.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace omnes::plan {

enum class Collective : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBarrier,
  kReduce,
  kBroadcast,
  kAllToAll,
  kGather,
  kScatter,
  // With a length of its own for every block.
  kAllGatherV,
  kReduceScatterV,
  kAllToAllV,
  kGatherV,
  kScatterV,
  // The sends and receives that a rank has called together; no plan, see core.
  kSendReceive,
};

// An index inside LOOPs: in iteration i it is (base + step * i) mod m, where m is the number of
// blocks of the space, or nranks for a peer. Outside a loop i = 0.
struct Index {
  int32_t base = 0;
  int32_t step = 0;
  bool operator==(const Index&) const = default;
};

// start, start + stride, ... `count` of them, each reduced mod m (as Index). stride may be
// negative.
//
// With group > 0 the blocks lie in groups of that many, the last one perhaps cut short: each begins
// `jump` behind the begin of the one before, so element k is start + jump * (k / group) + stride *
// (k % group). Groups lie one behind the other, all on one way round: stride and jump have one
// sign, a group ends before the next begins, and the last ends before the first begins again. For
// slices only. (What an all-to-all sends at once in a logarithmic number of rounds is of this kind:
// blocks whose distance has a certain digit.)
struct Run {
  Index start;
  int32_t stride = 1;
  int32_t count = 1;
  int32_t group = 0;  // 0: all one group
  int32_t jump = 0;
  bool operator==(const Run&) const = default;
};

enum class Space : uint8_t { kInput, kOutput, kScratch };

// What a slice or a chunk holds: an untouched contribution or a final result (in the element type),
// or a sum under way (in the wire type; base::wireType). See kernels/kernels.h for what this does
// to values.
enum class Mark : uint8_t { kInput, kPartial };

// One or more operands of a step.
struct Ref {
  enum class Kind : uint8_t {
    kSlice,  // blocks `run` of `space`: one operand
    kLink,  // as a source: one operand per peer of `run`, in that order, each the next chunk of the
            // link from that peer (the multicast link of which this rank is a reader counts as the
            // link from its source). As a sink: one OUT to the peer, or, when run.count > 1, one
            // multicast OUT to the group.
  };
  Kind kind = Kind::kSlice;
  Space space = Space::kInput;
  Mark mark = Mark::kInput;
  uint8_t stream = 0;
  Run run;
  bool operator==(const Ref&) const = default;
};

enum class Op : uint8_t {
  kNone,    // exactly one source operand; bytes move unchanged, so all marks are equal
  kReduce,  // the collective's reduction over all source operands in the order written; one operand
            // is legal (it scales, widens or finishes as the marks say)
};

struct Step {
  enum class Kind : uint8_t {
    kMove,    // {sources, op, sinks}: at least one source and one sink
    kSignal,  // sinks only, all links: a zero-payload chunk on each
    kWait,    // sources only, all links: takes a zero-payload chunk from each
    kLoop,    // the steps up to the matching kEndLoop, `iterations` times (loops do not nest); 0 =
              // skip
    kEndLoop,
  };
  Kind kind = Kind::kMove;
  Op op = Op::kNone;
  uint16_t delay = 0;      // steps inside one loop all have the loop's delay
  int32_t iterations = 0;  // kLoop only
  std::vector<Ref> sources;
  std::vector<Ref> sinks;
  bool operator==(const Step&) const = default;
};

struct Lane {
  std::vector<Step> steps;
  bool operator==(const Lane&) const = default;
};

// How extents become byte ranges (the executor's business; the verifier only needs to know that
// slices are disjoint).
enum class Cut : uint8_t {
  kInsideSlice,  // a slice is a contiguous piece of the message, cut into `blocks` extents
                 // (all-reduce)
  kOuter,        // every block of the buffer is cut into slices; a slice takes its piece of each
                 // (all-gather, ...)
};

struct Plan {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;  // registered name, e.g. "ring"
  int32_t rank = 0;
  int32_t nranks = 1;
  int32_t root = -1;   // -1: the collective has none
  int32_t blocks = 1;  // number of extents
  Cut cut = Cut::kInsideSlice;
  int32_t scratchBlocks =
      0;  // multiple of `blocks` is usual: scratch block s holds extent s mod blocks
  int32_t scratchCopies = 1;  // a lane's slice number j (0, 1, ...) uses copy j mod scratchCopies
  int32_t minCredits = 1;     // slots every link must have for this plan to make progress
  // The largest number of blocks in one chunk of any rank, by mark (0: none is sent). All ranks'
  // plans say the same: slice sizes follow from it and must be agreed.
  int32_t maxInputChunkBlocks = 0;
  int32_t maxPartialChunkBlocks = 0;
  std::vector<Lane> lanes;  // independent programs on links and scratch of their own
  bool operator==(const Plan&) const = default;
};

// Number of blocks of a space on plan.rank, and the extent that each holds:
//   all-reduce, broadcast, reduce: input and output have `blocks` blocks, block b holds extent b
//   (the input of a broadcast and the output of a reduce: on the root only, none elsewhere)
//   reduce-scatter: input as above (blocks == nranks); output is 1 block holding extent `rank`
//   all-gather: input is 1 block holding extent `rank`; output has nranks blocks, block b holds
//   extent b
//   gather: input as all-gather's; output likewise on the root, none elsewhere
//   scatter: input has nranks blocks on the root, block b holds extent b, none elsewhere; output is
//   1 block holding extent `rank`
//   all-to-all: input and output have nranks blocks; what rank s sends to rank d is input block d
//   of s and output block s of d, and its extent is the distance from s to d: (d - s) mod nranks.
//   So both ends, and whoever relays it, give it the same number, and a rank has one block of each
//   extent in its input and in its output. All extents are equally long.
//   barrier: no blocks. scratch: block s holds extent s mod blocks, for every collective.
// The V forms are as the collectives without it; kSendReceive has no plan.
int32_t blockCount(const Plan& plan, Space space);
int32_t extentOf(const Plan& plan, Space space, int32_t block);
// The input block that an output block aliases when the call is in place, or -1:
//   all-reduce, and broadcast and reduce on the root: b -> b; reduce-scatter, and scatter on the
//   root: output 0 -> input `rank`; all-gather, and gather on the root: output `rank` -> input 0,
//   others -1. An all-to-all is never in place.
int32_t inPlaceAlias(const Plan& plan, int32_t outputBlock);

// Value of an index in loop iteration i, in [0, modulus).
constexpr int32_t valueOf(const Index& index, int32_t iteration, int32_t modulus) {
  const int64_t raw = (int64_t{index.base} + int64_t{index.step} * iteration) % modulus;
  return static_cast<int32_t>(raw < 0 ? raw + modulus : raw);
}
// Element k of a run in loop iteration i.
constexpr int32_t valueOf(const Run& run, int32_t k, int32_t iteration, int32_t modulus) {
  const int64_t groups = run.group > 0 ? k / run.group : 0;
  const int64_t inside = run.group > 0 ? k % run.group : k;
  const int64_t raw = (int64_t{run.start.base} + int64_t{run.start.step} * iteration +
                       run.jump * groups + run.stride * inside) %
                      modulus;
  return static_cast<int32_t>(raw < 0 ? raw + modulus : raw);
}

// Stream ids that the shared algorithms use. A link's class of slots follows from its stream modulo
// kStreamsPerLane, and so does its kind: exchange and gather are multicast (to all others; for two
// ranks that is a group of one), scatter and signal are unicast. A reader therefore knows the link
// from the source and the stream alone.
inline constexpr uint8_t kStreamExchange = 0;  // small one-shot chunks, multicast, never lent
inline constexpr uint8_t kStreamScatter = 1;   // unicast
inline constexpr uint8_t kStreamGather = 2;    // multicast
inline constexpr uint8_t kStreamSignal = 3;    // zero payload, unicast
inline constexpr uint8_t kStreamsPerLane = 4;
inline constexpr int kMaxLanes = 8;
constexpr uint8_t streamOf(uint8_t base, int lane) {
  return static_cast<uint8_t>(base + kStreamsPerLane * lane);
}
// Whether a chunk on the stream may be lent instead of staged. Exchange chunks may not: in a
// one-shot in place each rank would wait, before it writes its result over its input, for the
// others to have read that input, which they do in the very step that waits for the same.
constexpr bool mayLend(uint8_t stream) { return stream % kStreamsPerLane != kStreamExchange; }

const char* nameOf(Collective collective);
// Whether it has one: reduce, broadcast, gather, scatter and their V forms.
bool hasRoot(Collective collective);
// Whether it combines values: all-reduce, reduce, reduce-scatter.
bool isReduction(Collective collective);

}  // namespace omnes::plan
