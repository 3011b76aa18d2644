// The last line of defence between C++ and C callers: nothing is thrown across it.
#pragma once

#include <new>

#include "api/handle.h"

namespace omnes::api {

// Runs a call that returns Status and translates it; running out of memory and anything unforeseen
// become results.
template <typename Body>
omnesResult_t guard(Body&& body) {
  try {
    return finish(body());
  } catch (const std::bad_alloc&) {
    return finish(base::Status(base::Code::kSystemError, "out of memory"));
  } catch (...) {
    return finish(
        base::Status(base::Code::kInternalError, "an exception escaped; please report this"));
  }
}

}  // namespace omnes::api
