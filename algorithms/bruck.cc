// "bruck", "bruck4", "bruck8": all-to-all in ceil(log_k n) rounds, k = 2, 4, 8, for short blocks
// (Bruck, Ho, Kipnis, Upfal and Weathersby, IEEE TPDS 1997).
//
// A block is known by its distance x, from the rank that has it to the one that gets it. Write x in
// base k. In the round of digit p, with w = k^p, every block whose digit j there is not 0 moves j *
// w ranks onwards; after the last digit it has moved by x.
//   for w = 1, k, k^2, ... < n, for j = 1 .. k-1 as long as j * w < n
//     send the blocks whose digit is j to r + j * w; receive those of the same distances from r - j
//     * w
// k - 1 messages a round to different peers, and a block takes one hop for each digit that is not
// 0: k = 2 has the fewest messages, larger k moves fewer bytes, k >= n is "pairwise" in one round.
//
// Nothing is rotated, as it is in the original: the distance numbers the blocks (plan.h), so what a
// rank holds of a distance has one place whoever it comes from. The blocks of one message are those
// with one digit, runs of w blocks that begin k * w apart: one chunk (plan.h: Run::group).
//
// Where a block of distance x is before the round of w, for W = k * w:
//   x mod w == 0   it has not moved: in the input
//   x < w          it has arrived: in the output
//   otherwise      in scratch, by distance; in one of two copies of it, in turns from round to
//   round
// Two copies, since a rank lends what it sends and receives the same distances from someone who
// waits for its next in the same way, all around: one copy would make each wait for the other. So a
// round
//   1  copies those that move for the first time from the input to the others in scratch, so that a
//      message comes from one place;
//   2  sends, and receives into the other copy (in the last round into the output, where all
//   belong); 3  copies from there to the output what has arrived, w <= x < W; 4  copies the blocks
//   in scratch that stay, digit 0, to the other copy.
// In all each block is copied three times at most for 1 and 3, and a k-th of them each round for 4.
//
// Delays: 0. Credits: 1. A link carries one chunk a slice, since the j * w differ, and a rank sends
// in each round before it receives. A write to scratch waits for the round before at most.
#include <algorithm>
#include <cstdint>

#include "algorithms/families.h"
#include "plan/builder.h"

namespace omnes::algorithms {
namespace {

using plan::at;
using plan::Builder;
using plan::Collective;
using plan::grouped;
using plan::inputRef;
using plan::kStreamScatter;
using plan::linkRef;
using plan::Mark;
using plan::Op;
using plan::outputRef;
using plan::Plan;
using plan::range;
using plan::Ref;
using plan::Run;
using plan::sliceRef;
using plan::Space;

// The round of one digit. Weights may exceed 32 bits for one step: 64 here.
struct Digit {
  int64_t nranks;
  int64_t radix;
  int64_t place;   // p
  int64_t weight;  // w

  int64_t next() const { return weight * radix; }  // W
  bool isLast() const { return next() >= nranks; }
  int64_t messages() const { return std::min(radix - 1, (nranks - 1) / weight); }
  // How many distances have x mod W in [first, first + width).
  int64_t countOf(int64_t first, int64_t width) const {
    return nranks / next() * width + std::clamp<int64_t>(nranks % next() - first, 0, width);
  }
  // Those whose digit is j.
  int64_t countOf(int64_t j) const { return countOf(j * weight, weight); }
};

// Calls visit(Digit) for each digit that a distance can have.
template <typename Visit>
void forEachDigit(int32_t nranks, int32_t radix, const Visit& visit) {
  int64_t place = 0;
  for (int64_t weight = 1; weight < nranks; weight *= radix)
    visit(Digit{nranks, radix, place++, weight});
}

class BruckRank {
 public:
  BruckRank(const PlanRequest& request, const char* name, int32_t radix)
      : n_(request.nranks),
        r_(request.rank),
        radix_(radix),
        builder_(Collective::kAllToAll, name, r_, n_) {}

  Plan run() {
    builder_.move({inputRef(at(r_))}, Op::kNone, {outputRef(at(r_))});
    int32_t copies = 0;
    forEachDigit(n_, radix_, [&](const Digit& digit) {
      if (digit.place > 0) addFirstMovers(digit);
      exchange(digit);
      if (digit.isLast()) return;
      copies = digit.place == 0 ? 1 : 2;
      addArrived(digit);
      if (digit.place > 0) addStaying(digit);
    });
    builder_.scratch(copies * n_);
    return builder_.build();
  }

 private:
  // The blocks of a run of distances, after the round of digit p.
  Ref keptAfter(int64_t place, Run distances) const {
    distances.start.base += static_cast<int32_t>(place % 2) * n_;
    return sliceRef(Space::kScratch, distances, Mark::kInput);
  }
  Ref untouched(Run distances) const {
    distances.start.base += r_;
    return inputRef(distances);
  }
  static Run run(int64_t first, int64_t count, int64_t group, int64_t jump, int64_t stride = 1) {
    // A jump beyond the last distance is never taken.
    const auto step = static_cast<int32_t>(count > group ? jump : 0);
    return grouped(static_cast<int32_t>(first), static_cast<int32_t>(count),
                   static_cast<int32_t>(group), step, static_cast<int32_t>(stride));
  }

  void addFirstMovers(const Digit& digit) {
    const int64_t count = (n_ - 1) / digit.weight - (n_ - 1) / digit.next();
    const Run distances = run(digit.weight, count, digit.radix - 1, digit.next(), digit.weight);
    builder_.move({untouched(distances)}, Op::kNone, {keptAfter(digit.place - 1, distances)});
  }

  void exchange(const Digit& digit) {
    for (int64_t j = 1; j <= digit.messages(); ++j) {
      const Run distances = movingWith(digit, j);
      const Ref source =
          digit.place == 0 ? untouched(distances) : keptAfter(digit.place - 1, distances);
      builder_.move({source}, Op::kNone, {link(r_ + j * digit.weight)});
    }
    for (int64_t j = 1; j <= digit.messages(); ++j) {
      const Run distances = movingWith(digit, j);
      const Ref sink = digit.isLast()
                           ? outputRef(range(r_ - distances.start.base, distances.count, -1))
                           : keptAfter(digit.place, distances);
      builder_.move({link(r_ - j * digit.weight)}, Op::kNone, {sink});
    }
  }

  void addArrived(const Digit& digit) {
    const auto first = static_cast<int32_t>(digit.weight);
    const auto count = static_cast<int32_t>(digit.next() - digit.weight);
    builder_.move({keptAfter(digit.place, range(first, count))}, Op::kNone,
                  {outputRef(range(r_ - first, count, -1))});
  }

  void addStaying(const Digit& digit) {
    const int64_t width = digit.weight - 1;
    const Run distances =
        run(digit.next() + 1, digit.countOf(1, width) - width, width, digit.next());
    builder_.move({keptAfter(digit.place - 1, distances)}, Op::kNone,
                  {keptAfter(digit.place, distances)});
  }

  static Run movingWith(const Digit& digit, int64_t j) {
    return run(j * digit.weight, digit.countOf(j), digit.weight, digit.next());
  }
  static Ref link(int64_t peer) {
    return linkRef(kStreamScatter, at(static_cast<int32_t>(peer)), Mark::kInput);
  }

  const int32_t n_;
  const int32_t r_;
  const int32_t radix_;
  Builder builder_;
};

template <int32_t kRadix>
Plan makeAllToAll(const PlanRequest& request) {
  const char* name = kRadix == 2 ? "bruck" : kRadix == 4 ? "bruck4" : "bruck8";
  return BruckRank(request, name, kRadix).run();
}

// A digit's round moves all distances but those that have a 0 there.
template <int32_t kRadix>
Cost costOfAllToAll(const PlanRequest& request) {
  Cost cost;
  forEachDigit(request.nranks, kRadix, [&](const Digit& digit) {
    cost.rounds += 1;
    cost.messages += digit.messages();
    cost.inputBlocks += request.nranks - digit.countOf(0);
  });
  return cost;
}

constexpr Algorithm kFamily[] = {
    {"bruck", Collective::kAllToAll, supportsFlat, makeAllToAll<2>, costOfAllToAll<2>, true, true},
    {"bruck4", Collective::kAllToAll, supportsFlat, makeAllToAll<4>, costOfAllToAll<4>, true, true},
    {"bruck8", Collective::kAllToAll, supportsFlat, makeAllToAll<8>, costOfAllToAll<8>, true, true},
};

}  // namespace

std::span<const Algorithm> bruckFamily() { return kFamily; }

}  // namespace omnes::algorithms
