// Small hand-made plans for the tests of src/plan: the textbook shapes, written as plainly as
// possible.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace omnes::plan::testing {

using Set = std::vector<Plan>;  // plans of all ranks

Ref slice(Space space, int32_t start, int32_t count = 1, Mark mark = Mark::kInput,
          int32_t stride = 1);
Ref link(int32_t peer, uint8_t stream, Mark mark = Mark::kInput, int32_t count = 1,
         int32_t stride = 1);
Step move(std::vector<Ref> sources, Op op, std::vector<Ref> sinks, uint16_t delay = 0);

// Makes all plans declare the largest chunk of any of them; the functions below have done so.
void declareChunks(Set* plans);

// All-reduce: every rank multicasts its input, then sums all of them in rank order.
Set oneShot(int32_t nranks);
// All-reduce: block b goes to rank b, which sums it and multicasts the result. Delays 0, 1, 2.
Set twoShot(int32_t nranks);
// All-reduce: ring reduce-scatter, then ring all-gather, unrolled. Step k has delay k * skew.
Set ring(int32_t nranks, int32_t skew = 0);
// All-gather on a ring as a LOOP.
Set ringAllGather(int32_t nranks);
// Reduce-scatter, direct: block b straight to rank b.
Set directReduceScatter(int32_t nranks);
// Dissemination barrier.
Set barrier(int32_t nranks);

// Broadcast along a chain from the root to the rank before it.
Set chainBroadcast(int32_t nranks, int32_t root);
// Reduce along a chain that ends at the root: partial sums travel, the root finishes.
Set chainReduce(int32_t nranks, int32_t root);
// Gather: every block straight to the root.
Set directGather(int32_t nranks, int32_t root);
// Scatter along a chain: each rank takes the first block of the chunk and passes on the rest.
Set chainScatter(int32_t nranks, int32_t root);
// All-to-all in which everything goes round the ring: a rank passes on what is not for it. The hops
// take turns in `areas` areas of scratch; one alone cannot be lent, since each rank would wait for
// the next to have read it.
Set ringAllToAll(int32_t nranks, int32_t areas = 2);
// All-to-all by way of rank 0, which sorts n * n blocks in its scratch; n > 1. Chunks of n blocks,
// strides that wrap, and extents that fall as the output's blocks rise.
Set centralAllToAll(int32_t nranks);

}  // namespace omnes::plan::testing
