// Plans as text for people: one line a step. The same plan always gives the same text; json.h is
// the form for machines. Pure functions, thread-safe.
#pragma once

#include <string>

#include "plan/plan.h"

namespace omnes::plan {

// "input[3]", "output[2+i:4]" (4 blocks from 2 + i on), "scratch[0:3:-1] partial", "peer 3 stream
// 1", "peers 1:7 stream 0".
std::string toText(const Ref& ref);
// "copy input[3] -> peer 1 stream 1", "reduce ... -> ...", "signal ...", "wait ...", "loop 5",
// "end".
std::string toText(const Step& step);
// A head line, then per lane its steps with number and delay.
std::string toText(const Plan& plan);

}  // namespace omnes::plan
