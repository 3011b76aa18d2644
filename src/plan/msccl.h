// Plans from MSCCL's XML: one <algo> with a <gpu> for each rank, thread blocks <tb>, and a <step>
// each for s, r, cpy, re, rrc, rcs, rrs, rrcs or nop.
//
// What is read is what fits links that are FIFOs: allreduce, allgather, reduce_scatter and
// alltoall, at most 8 channels; all but allreduce with one chunk a rank. The thread blocks of a
// rank become one lane, in an order in which they could have run; a chunk of several blocks becomes
// as many chunks. A block that is no result yet lives in scratch, wherever the XML has it.
// Everything else is an error that names the element and its line. Reading proves little: verify()
// what was read before it runs. Pure function, thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace omnes::plan {

// kInvalidArgument: "MSCCL XML: line 7, gpu 1, tb 0, step 3: ...". Texts of more than 32 MiB are
// refused.
base::Result<std::vector<Plan>> fromMscclXml(std::string_view text);

}  // namespace omnes::plan
