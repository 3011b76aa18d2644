#include "sample_plans.h"

#include <algorithm>
#include <utility>

#include "plan/builder.h"

namespace omnes::plan::testing {
namespace {

bool cutsInside(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kBroadcast;
}

Set emptySet(Collective collective, const char* name, int32_t nranks, int32_t blocks,
             int32_t root = -1) {
  Set plans(static_cast<size_t>(nranks));
  for (int32_t rank = 0; rank < nranks; ++rank) {
    Plan& plan = plans[static_cast<size_t>(rank)];
    plan.collective = collective;
    plan.algorithm = name;
    plan.rank = rank;
    plan.nranks = nranks;
    plan.blocks = blocks;
    plan.root = root;
    plan.cut = cutsInside(collective) ? Cut::kInsideSlice : Cut::kOuter;
    plan.lanes.resize(1);
  }
  return plans;
}

// The collective of one rank: scale and finish the own contribution.
Step alone() { return move({slice(Space::kInput, 0)}, Op::kReduce, {slice(Space::kOutput, 0)}); }

// Links from all peers in rank order with the own slice in its place.
std::vector<Ref> inRankOrder(int32_t rank, int32_t nranks, uint8_t stream, const Ref& own) {
  std::vector<Ref> refs;
  if (rank > 0) refs.push_back(link(0, stream, Mark::kInput, rank));
  refs.push_back(own);
  if (rank + 1 < nranks) refs.push_back(link(rank + 1, stream, Mark::kInput, nranks - 1 - rank));
  return refs;
}

}  // namespace

Ref slice(Space space, int32_t start, int32_t count, Mark mark, int32_t stride) {
  Ref ref;
  ref.kind = Ref::Kind::kSlice;
  ref.space = space;
  ref.mark = mark;
  ref.run = Run{{start, 0}, stride, count};
  return ref;
}

Ref link(int32_t peer, uint8_t stream, Mark mark, int32_t count, int32_t stride) {
  Ref ref;
  ref.kind = Ref::Kind::kLink;
  ref.mark = mark;
  ref.stream = stream;
  ref.run = Run{{peer, 0}, stride, count};
  return ref;
}

Step move(std::vector<Ref> sources, Op op, std::vector<Ref> sinks, uint16_t delay) {
  Step step;
  step.op = op;
  step.delay = delay;
  step.sources = std::move(sources);
  step.sinks = std::move(sinks);
  return step;
}

void declareChunks(Set* plans) {
  int32_t input = 0;
  int32_t partial = 0;
  for (Plan& plan : *plans) {
    plan::declareChunks(plan);
    input = std::max(input, plan.maxInputChunkBlocks);
    partial = std::max(partial, plan.maxPartialChunkBlocks);
  }
  for (Plan& plan : *plans) {
    plan.maxInputChunkBlocks = input;
    plan.maxPartialChunkBlocks = partial;
  }
}

Set oneShot(int32_t nranks) {
  Set plans = emptySet(Collective::kAllReduce, "one_shot", nranks, 1);
  for (Plan& plan : plans) {
    auto& steps = plan.lanes[0].steps;
    if (nranks == 1) {
      steps = {alone()};
      continue;
    }
    const Ref own = slice(Space::kInput, 0);
    const Ref all = link(plan.rank + 1, kStreamExchange, Mark::kInput, nranks - 1);
    steps.push_back(move({own}, Op::kNone, {all}));
    steps.push_back(move(inRankOrder(plan.rank, nranks, kStreamExchange, own), Op::kReduce,
                         {slice(Space::kOutput, 0)}));
  }
  declareChunks(&plans);
  return plans;
}

Set twoShot(int32_t nranks) {
  Set plans = emptySet(Collective::kAllReduce, "two_shot", nranks, nranks);
  for (Plan& plan : plans) {
    auto& steps = plan.lanes[0].steps;
    const int32_t rank = plan.rank;
    if (nranks == 1) {
      steps = {alone()};
      continue;
    }
    plan.minCredits = 2;  // a rank sends slice s + 1 before it takes slice s
    for (int32_t i = 1; i < nranks; ++i) {
      const int32_t peer = (rank + i) % nranks;
      steps.push_back(move({slice(Space::kInput, peer)}, Op::kNone, {link(peer, kStreamScatter)}));
    }
    steps.push_back(move(
        inRankOrder(rank, nranks, kStreamScatter, slice(Space::kInput, rank)), Op::kReduce,
        {slice(Space::kOutput, rank), link(rank + 1, kStreamGather, Mark::kInput, nranks - 1)}, 1));
    for (int32_t i = 1; i < nranks; ++i) {
      const int32_t peer = (rank + nranks - i) % nranks;
      steps.push_back(
          move({link(peer, kStreamGather)}, Op::kNone, {slice(Space::kOutput, peer)}, 2));
    }
  }
  declareChunks(&plans);
  return plans;
}

Set ring(int32_t nranks, int32_t skew) {
  Set plans = emptySet(Collective::kAllReduce, "ring", nranks, nranks);
  for (Plan& plan : plans) {
    auto& steps = plan.lanes[0].steps;
    const int32_t rank = plan.rank;
    const int32_t left = rank + nranks - 1;
    if (nranks == 1) {
      steps = {alone()};
      continue;
    }
    int32_t k = 0;
    const auto delay = [&] { return static_cast<uint16_t>(k++ * skew); };
    // Block b starts at rank b + 1 and is finished by rank b.
    steps.push_back(
        move({slice(Space::kInput, left)}, Op::kNone, {link(rank + 1, kStreamScatter)}, delay()));
    for (int32_t i = 2; i < nranks; ++i) {
      const Mark in = i == 2 ? Mark::kInput : Mark::kPartial;
      steps.push_back(
          move({link(left, kStreamScatter, in), slice(Space::kInput, rank + nranks - i)},
               Op::kReduce, {link(rank + 1, kStreamScatter, Mark::kPartial)}, delay()));
    }
    const Mark in = nranks == 2 ? Mark::kInput : Mark::kPartial;
    steps.push_back(move({link(left, kStreamScatter, in), slice(Space::kInput, rank)}, Op::kReduce,
                         {slice(Space::kOutput, rank), link(rank + 1, kStreamScatter)}, delay()));
    for (int32_t i = 1; i < nranks; ++i) {
      std::vector<Ref> sinks{slice(Space::kOutput, rank + nranks - i)};
      if (i + 1 < nranks) sinks.push_back(link(rank + 1, kStreamScatter));
      steps.push_back(move({link(left, kStreamScatter)}, Op::kNone, std::move(sinks), delay()));
    }
    plan.minCredits = skew > 0 ? 2 * nranks : 2;  // 2: a step receives and sends at once
  }
  declareChunks(&plans);
  return plans;
}

Set ringAllGather(int32_t nranks) {
  Set plans = emptySet(Collective::kAllGather, "ring_loop", nranks, nranks);
  for (Plan& plan : plans) {
    auto& steps = plan.lanes[0].steps;
    const int32_t rank = plan.rank;
    plan.minCredits = nranks > 2 ? 2 : 1;
    std::vector<Ref> sinks{slice(Space::kOutput, rank)};
    if (nranks > 1) sinks.push_back(link(rank + 1, kStreamGather));
    steps.push_back(move({slice(Space::kInput, 0)}, Op::kNone, std::move(sinks)));
    if (nranks == 1) continue;
    Step loop;
    loop.kind = Step::Kind::kLoop;
    loop.iterations = nranks - 2;
    Ref landing = slice(Space::kOutput, rank - 1);
    landing.run.start.step = -1;
    Step end;
    end.kind = Step::Kind::kEndLoop;
    steps.push_back(loop);
    steps.push_back(
        move({link(rank - 1, kStreamGather)}, Op::kNone, {landing, link(rank + 1, kStreamGather)}));
    steps.push_back(end);
    steps.push_back(
        move({link(rank - 1, kStreamGather)}, Op::kNone, {slice(Space::kOutput, rank + 1)}));
  }
  declareChunks(&plans);
  return plans;
}

Set directReduceScatter(int32_t nranks) {
  Set plans = emptySet(Collective::kReduceScatter, "direct", nranks, nranks);
  for (Plan& plan : plans) {
    auto& steps = plan.lanes[0].steps;
    for (int32_t i = 1; i < nranks; ++i) {
      const int32_t peer = (plan.rank + i) % nranks;
      steps.push_back(move({slice(Space::kInput, peer)}, Op::kNone, {link(peer, kStreamScatter)}));
    }
    steps.push_back(
        move(inRankOrder(plan.rank, nranks, kStreamScatter, slice(Space::kInput, plan.rank)),
             Op::kReduce, {slice(Space::kOutput, 0)}));
  }
  declareChunks(&plans);
  return plans;
}

Set barrier(int32_t nranks) {
  Set plans = emptySet(Collective::kBarrier, "dissemination", nranks, 1);
  for (Plan& plan : plans) {
    for (int32_t distance = 1; distance < nranks; distance *= 2) {
      Step signal;
      signal.kind = Step::Kind::kSignal;
      signal.sinks = {link(plan.rank + distance, kStreamSignal)};
      Step wait;
      wait.kind = Step::Kind::kWait;
      wait.sources = {link(plan.rank - distance, kStreamSignal)};
      plan.lanes[0].steps.push_back(signal);
      plan.lanes[0].steps.push_back(wait);
    }
  }
  declareChunks(&plans);
  return plans;
}

Set chainBroadcast(int32_t nranks, int32_t root) {
  Set plans = emptySet(Collective::kBroadcast, "chain", nranks, 1, root);
  for (Plan& plan : plans) {
    const bool isRoot = plan.rank == root;
    const bool isLast = (plan.rank + 1) % nranks == root;
    std::vector<Ref> sinks{slice(Space::kOutput, 0)};
    if (!isLast) sinks.push_back(link(plan.rank + 1, kStreamScatter));
    const Ref source =
        isRoot ? slice(Space::kInput, 0) : link(plan.rank + nranks - 1, kStreamScatter);
    plan.lanes[0].steps.push_back(move({source}, Op::kNone, std::move(sinks)));
  }
  declareChunks(&plans);
  return plans;
}

Set chainReduce(int32_t nranks, int32_t root) {
  Set plans = emptySet(Collective::kReduce, "chain", nranks, 1, root);
  for (Plan& plan : plans) {
    const int32_t place = (plan.rank - root + nranks - 1) % nranks;  // 0 starts, the root is last
    std::vector<Ref> sources;
    if (place > 0) {
      const Mark mark = place == 1 ? Mark::kInput : Mark::kPartial;
      sources.push_back(link(plan.rank + nranks - 1, kStreamScatter, mark));
    }
    sources.push_back(slice(Space::kInput, 0));
    const Mark mark = place == 0 ? Mark::kInput : Mark::kPartial;
    const Ref sink =
        plan.rank == root ? slice(Space::kOutput, 0) : link(plan.rank + 1, kStreamScatter, mark);
    const bool isCopy = place == 0 && nranks > 1;
    plan.lanes[0].steps.push_back(move(sources, isCopy ? Op::kNone : Op::kReduce, {sink}));
  }
  declareChunks(&plans);
  return plans;
}

Set directGather(int32_t nranks, int32_t root) {
  Set plans = emptySet(Collective::kGather, "direct", nranks, nranks, root);
  for (Plan& plan : plans) {
    auto& steps = plan.lanes[0].steps;
    if (plan.rank != root) {
      steps.push_back(move({slice(Space::kInput, 0)}, Op::kNone, {link(root, kStreamScatter)}));
      continue;
    }
    steps.push_back(move({slice(Space::kInput, 0)}, Op::kNone, {slice(Space::kOutput, root)}));
    for (int32_t i = 1; i < nranks; ++i)
      steps.push_back(move({link(root + i, kStreamScatter)}, Op::kNone,
                           {slice(Space::kOutput, (root + i) % nranks)}));
  }
  declareChunks(&plans);
  return plans;
}

Set chainScatter(int32_t nranks, int32_t root) {
  Set plans = emptySet(Collective::kScatter, "chain", nranks, nranks, root);
  for (Plan& plan : plans) {
    auto& steps = plan.lanes[0].steps;
    const int32_t rest = (root - plan.rank + nranks - 1) % nranks;  // ranks that come after it
    const int32_t next = (plan.rank + 1) % nranks;
    Space space = Space::kInput;
    if (plan.rank != root) {
      space = Space::kScratch;
      plan.scratchBlocks = nranks;
      steps.push_back(move({link(plan.rank + nranks - 1, kStreamScatter)}, Op::kNone,
                           {slice(Space::kScratch, plan.rank, rest + 1)}));
    }
    if (rest > 0)
      steps.push_back(move({slice(space, next, rest)}, Op::kNone, {link(next, kStreamScatter)}));
    steps.push_back(move({slice(space, plan.rank)}, Op::kNone, {slice(Space::kOutput, 0)}));
  }
  declareChunks(&plans);
  return plans;
}

Set ringAllToAll(int32_t nranks, int32_t areas) {
  Set plans = emptySet(Collective::kAllToAll, "ring", nranks, nranks);
  for (Plan& plan : plans) {
    auto& steps = plan.lanes[0].steps;
    const int32_t rank = plan.rank;
    steps.push_back(move({slice(Space::kInput, rank)}, Op::kNone, {slice(Space::kOutput, rank)}));
    if (nranks == 1) continue;
    plan.scratchBlocks = areas * nranks;
    steps.push_back(move({slice(Space::kInput, (rank + 1) % nranks, nranks - 1)}, Op::kNone,
                         {link(rank + 1, kStreamScatter)}));
    // What comes after hop k has been sent k ranks away; the block of distance k is for this rank.
    for (int32_t k = 1; k < nranks; ++k) {
      const int32_t left = rank + nranks - 1;
      const int32_t area = k % areas * nranks;
      steps.push_back(move({link(left, kStreamScatter)}, Op::kNone,
                           {slice(Space::kScratch, area + k, nranks - k)}));
      if (k + 1 < nranks)
        steps.push_back(move({slice(Space::kScratch, area + k + 1, nranks - k - 1)}, Op::kNone,
                             {link(rank + 1, kStreamScatter)}));
      steps.push_back(move({slice(Space::kScratch, area + k)}, Op::kNone,
                           {slice(Space::kOutput, (rank - k + nranks) % nranks)}));
    }
  }
  declareChunks(&plans);
  return plans;
}

Set centralAllToAll(int32_t nranks) {
  Set plans = emptySet(Collective::kAllToAll, "central", nranks, nranks);
  // Row d of rank 0's scratch is for rank d, ordered by distance: what s sends to s + e is block
  // (s + e) * n + e, for e = 0, 1, ... a stride of n + 1.
  for (Plan& plan : plans) {
    auto& steps = plan.lanes[0].steps;
    const Ref own = slice(Space::kInput, plan.rank, nranks);
    const Ref result = slice(Space::kOutput, plan.rank, nranks, Mark::kInput, -1);
    if (plan.rank != 0) {
      steps.push_back(move({own}, Op::kNone, {link(0, kStreamScatter)}));
      steps.push_back(move({link(0, kStreamScatter)}, Op::kNone, {result}));
      continue;
    }
    plan.scratchBlocks = nranks * nranks;
    for (int32_t source = 0; source < nranks; ++source)
      steps.push_back(
          move({source == 0 ? own : link(source, kStreamScatter)}, Op::kNone,
               {slice(Space::kScratch, source * nranks, nranks, Mark::kInput, nranks + 1)}));
    for (int32_t to = 0; to < nranks; ++to)
      steps.push_back(move({slice(Space::kScratch, to * nranks, nranks)}, Op::kNone,
                           {to == 0 ? result : link(to, kStreamScatter)}));
  }
  declareChunks(&plans);
  return plans;
}

}  // namespace omnes::plan::testing
