// The last line of defence between C++ and C callers: nothing is thrown across it.
#pragma once

#include <new>

#include "api/group.h"
#include "api/handle.h"

namespace omnes::api {

// finish() for a failure that left no memory to speak of: the code comes through in any case.
inline omnesResult_t finishWithoutMemory(base::Code code, const char* text) {
  try {
    return finish(base::Status(code, text));
  } catch (...) {
    return static_cast<omnesResult_t>(code);
  }
}

// Runs a call that returns Status and translates it; running out of memory and anything unforeseen
// become results.
template <typename Body>
omnesResult_t guard(Body&& body) {
  try {
    return finish(body());
  } catch (const std::bad_alloc&) {
    return finishWithoutMemory(base::Code::kSystemError, "out of memory");
  } catch (...) {
    return finishWithoutMemory(base::Code::kInternalError,
                               "an exception escaped; please report this");
  }
}

// The same for making a communicator. A refusal makes the group fail that it belongs to.
template <typename Body>
omnesResult_t guardInit(Body&& body) {
  return guard([&]() -> base::Status {
    const base::Status status = body();
    const bool isRefused = !status.isOk() && status.code() != base::Code::kInProgress;
    if (isRefused && Group::isOpen()) Group::ofThisThread().refuse(status);
    return status;
  });
}

// The same for a collective. A refusal makes the group fail that it belongs to; what cannot be
// foreseen may have left the other ranks waiting, so it breaks the communicator on all of them.
template <typename Body>
omnesResult_t guardCollective(omnesComm_t comm, Body&& body) {
  try {
    const base::Status status = body();
    if (!status.isOk() && Group::isOpen()) [[unlikely]]
      Group::ofThisThread().refuse(status);
    return finish(status);
  } catch (...) {
    constexpr const char* kText = "out of memory in the middle of an operation";
    try {
      const Entry entry(comm);
      if (entry.isIn()) comm->communicator->fail(base::Status(base::Code::kSystemError, kText));
    } catch (...) {
      // The board has said it to the others before any memory was asked for.
    }
    return finishWithoutMemory(base::Code::kSystemError, kText);
  }
}

}  // namespace omnes::api
