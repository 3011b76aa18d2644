// Plans of all ranks as JSON, for tools and for plans that users bring along.
//
//   {"format": "omnes-plans", "version": 1, "plans": [{"collective": "AllReduce", "algorithm":
//   "ring", "rank": 0,
//    "nranks": 2, "root": -1, "blocks": 2, "cut": "inside-slice", "scratchBlocks": 0,
//    "scratchCopies": 1, "minCredits": 2, "lanes": [[<step>, ...], ...]}, ...]}
//   step  {"kind": "move", "op": "none" | "reduce", "delay": 0, "sources": [<ref>, ...], "sinks":
//   [<ref>, ...]}
//         {"kind": "signal", "delay": 0, "sinks": [...]}, {"kind": "wait", "delay": 0, "sources":
//         [...]},
//         {"kind": "loop", "delay": 0, "iterations": 3}, {"kind": "end", "delay": 0}
//   ref   {"space": "input" | "output" | "scratch", <run>, "mark": "input" | "partial"}     a slice
//         {"stream": 1, <run>, "mark": ...}                                                  a link
//   run   "start": 0, "step": 0, "stride": 1, "count": 1, "group": 0, "jump": 0
// Of a step "delay", of a ref all of the run except "start", and "mark" may be left out; their
// defaults are the ones above and "input". Anything unknown, twice or out of range is an error that
// names the place. Pure functions, thread-safe. Reading proves nothing: verify() what was read
// before it runs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace omnes::plan {

// fromJson() of the result gives equal plans, provided that the names of the algorithms are UTF-8.
std::string toJson(std::span<const Plan> plans);

// kInvalidArgument with the path ("plans[1].lanes[0][3].sinks[0].count: ...") for everything that
// is not such a text. Texts of more than 32 MiB are refused.
base::Result<std::vector<Plan>> fromJson(std::string_view text);

}  // namespace omnes::plan
