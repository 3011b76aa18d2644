// What must hold of plans that a parser has accepted, however strange the text was.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace omnes::fuzz {

// Writing and reading gives the same plans; the verifier and the text end with an answer. Aborts
// otherwise.
void checkAccepted(const std::vector<plan::Plan>& plans);

}  // namespace omnes::fuzz
