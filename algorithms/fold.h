// Folding a number of ranks that has no power of the radix: which ranks stand aside. Private to
// this folder; pure functions.
//
// Let k be the radix, p = c k^j the largest such product with p <= n and 1 <= c < k, and e = n - p
// the number of ranks too many; e < k^j <= p. Ranks 2i and 2i + 1 for i < e form a pair: the odd
// one gives its contribution to the even one and gets the result in the end. That leaves p
// positions: i is rank 2i for i < e, else rank i + e, so positions in a row hold ranks in a row.
//
// p positions take j rounds of groups of k, whose members differ in one digit of base k, and one of
// groups of c if c > 1.
#pragma once

#include <cstdint>

namespace omnes::algorithms {

struct Fold {
  int32_t radix;
  int32_t positions = 1;  // p
  int32_t leading = 1;    // c
  int32_t extra = 0;      // e
  int32_t rounds = 0;     // j, and one if c > 1

  Fold(int32_t nranks, int32_t base) : radix(base) {
    for (; nranks / base >= positions; positions *= base) ++rounds;
    leading = nranks / positions;
    if (leading > 1) ++rounds;
    positions *= leading;
    extra = nranks - positions;
  }
  bool isPaired(int32_t rank) const { return rank < 2 * extra; }
  bool isOut(int32_t rank) const { return isPaired(rank) && rank % 2 == 1; }
  int32_t positionOf(int32_t rank) const { return isPaired(rank) ? rank / 2 : rank - extra; }
  int32_t rankAt(int32_t position) const {
    return position < extra ? 2 * position : position + extra;
  }
  // Members of a group in a round.
  int32_t groupOf(int32_t round) const {
    return leading > 1 && round + 1 == rounds ? leading : radix;
  }
  // Members of all the groups that a position belongs to.
  int32_t members() const {
    int32_t sum = 0;
    for (int32_t round = 0; round < rounds; ++round) sum += groupOf(round);
    return sum;
  }
};

}  // namespace omnes::algorithms
