#include "matrix/layout.h"

namespace omnes::tests::matrix {
namespace {

using plan::Collective;

constexpr uint64_t kGap = 3;

uint64_t lengthOfBlock(const Case& c, int32_t block) {
  const uint64_t count = c.count();
  if (count == 0 || block % 3 == 2) return 0;
  return count + static_cast<uint64_t>(block);
}

uint64_t lengthOfPair(const Case& c, int32_t from, int32_t to) {
  const uint64_t count = c.count();
  if (count == 0 || (from + 2 * to) % 4 == 3) return 0;
  return count / (1 + static_cast<uint64_t>(from + to) % 2) +
         static_cast<uint64_t>(3 * from + to) % 5;
}

template <typename Length>
Spread spread(const Case& c, uint64_t gap, const Length& length) {
  Spread out;
  for (int32_t rank = 0; rank < c.group.nranks; ++rank) {
    out.displacements.push_back(out.elements);
    out.counts.push_back(length(rank));
    out.elements += out.counts.back() + gap;
  }
  return out;
}

// nranks blocks of the same length.
Spread even(const Case& c) {
  return spread(c, 0, [&](int32_t) { return c.count(); });
}

Side one(uint64_t elements, Bytes period) { return {elements, {{0, elements, std::move(period)}}}; }

template <typename Period>
Side all(const Spread& blocks, const Period& period) {
  Side side{blocks.elements, {}};
  for (size_t i = 0; i < blocks.counts.size(); ++i)
    side.blocks.push_back(
        {blocks.displacements[i], blocks.counts[i], period(static_cast<int32_t>(i))});
  return side;
}

// Those whose blocks have one length, and those with lengths of their own, told apart by `blocks`.
Layout layoutOfBlocks(const Case& c, int32_t rank, Collective kind, const Spread& blocks) {
  const auto own = static_cast<size_t>(rank);
  const bool isRoot = rank == c.rootRank();
  Layout out;
  switch (kind) {
    case Collective::kAllGather:
      out.send = one(blocks.counts[own], contribution(c, rank, 0));
      out.receive = all(blocks, [&](int32_t from) { return contribution(c, from, 0); });
      out.sendAt = blocks.displacements[own];
      break;
    case Collective::kReduceScatter:
      out.send = all(blocks, [&](int32_t block) { return contribution(c, rank, block); });
      out.receive = one(blocks.counts[own], reduction(c, rank));
      out.receiveAt = blocks.displacements[own];
      break;
    case Collective::kGather:
      out.send = one(blocks.counts[own], contribution(c, rank, 0));
      if (isRoot) out.receive = all(blocks, [&](int32_t from) { return contribution(c, from, 0); });
      if (isRoot) out.sendAt = blocks.displacements[own];
      break;
    default:  // scatter
      if (isRoot) out.send = all(blocks, [&](int32_t to) { return contribution(c, rank, to); });
      out.receive = one(blocks.counts[own], contribution(c, c.rootRank(), rank));
      if (isRoot) out.receiveAt = blocks.displacements[own];
  }
  return out;
}

}  // namespace

Spread spreadOf(const Case& c) {
  const uint64_t gap = c.group.collective == Collective::kReduceScatterV ? 0 : kGap;
  return spread(c, gap, [&](int32_t block) { return lengthOfBlock(c, block); });
}

Spread spreadOfSent(const Case& c, int32_t rank) {
  return spread(c, kGap, [&](int32_t to) { return lengthOfPair(c, rank, to); });
}

Spread spreadOfReceived(const Case& c, int32_t rank) {
  return spread(c, kGap, [&](int32_t from) { return lengthOfPair(c, from, rank); });
}

Layout layoutOf(const Case& c, int32_t rank) {
  const int32_t nranks = c.group.nranks;
  switch (c.group.collective) {
    case Collective::kAllReduce:
      return {one(c.count(), contribution(c, rank, 0)), one(c.count(), reduction(c, 0))};
    case Collective::kReduce:
      return {one(c.count(), contribution(c, rank, 0)),
              rank == c.rootRank() ? one(c.count(), reduction(c, 0)) : Side{}};
    case Collective::kBroadcast:
      return {rank == c.rootRank() ? one(c.count(), contribution(c, rank, 0)) : Side{},
              one(c.count(), contribution(c, c.rootRank(), 0))};
    case Collective::kSendReceive:
      return {one(c.count(), contribution(c, rank, 0)),
              one(c.count(), contribution(c, (rank + nranks - 1) % nranks, 0))};
    case Collective::kAllToAll:
      return {all(even(c), [&](int32_t to) { return contribution(c, rank, to); }),
              all(even(c), [&](int32_t from) { return contribution(c, from, rank); })};
    case Collective::kAllToAllV:
      return {all(spreadOfSent(c, rank), [&](int32_t to) { return contribution(c, rank, to); }),
              all(spreadOfReceived(c, rank),
                  [&](int32_t from) { return contribution(c, from, rank); })};
    case Collective::kAllGatherV:
      return layoutOfBlocks(c, rank, Collective::kAllGather, spreadOf(c));
    case Collective::kReduceScatterV:
      return layoutOfBlocks(c, rank, Collective::kReduceScatter, spreadOf(c));
    case Collective::kGatherV: return layoutOfBlocks(c, rank, Collective::kGather, spreadOf(c));
    case Collective::kScatterV: return layoutOfBlocks(c, rank, Collective::kScatter, spreadOf(c));
    case Collective::kBarrier: return {};
    default: return layoutOfBlocks(c, rank, c.group.collective, even(c));
  }
}

}  // namespace omnes::tests::matrix
