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

// The same for a call on a communicator: what cannot be foreseen may have left the other ranks
// waiting, so it breaks the communicator on all of them.
template <typename Body>
omnesResult_t guardCollective(omnesComm_t comm, Body&& body) {
  const auto broken = [comm](const char* text) {
    const base::Status cause(base::Code::kSystemError, text);
    if (comm != nullptr && comm->magic == omnesComm::kLive) comm->communicator->fail(cause);
    return finish(cause);
  };
  try {
    return finish(body());
  } catch (const std::bad_alloc&) {
    return broken("out of memory in the middle of an operation");
  } catch (...) {
    return broken("an exception escaped in the middle of an operation; please report this");
  }
}

}  // namespace omnes::api
