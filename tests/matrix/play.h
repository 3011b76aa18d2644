// Plays a case on one rank and judges it.
#pragma once

#include <string>

#include "matrix/case.h"
#include "omnes/omnes.h"

namespace omnes::tests::matrix {

// Calls the collective of the case on the communicator of the calling rank and compares all that it
// may have written with what must stand there. Empty when all is right. A failure of the call
// breaks the communicator as it does for everybody.
std::string play(const Case& c, omnesComm_t comm, int32_t rank);

}  // namespace omnes::tests::matrix
