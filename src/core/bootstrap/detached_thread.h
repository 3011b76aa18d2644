// A thread of the library that nobody joins: it ends by itself, or with the process.
//
// base::Thread is joined by its owner. A meeting host must outlive whoever started it, for as long
// as other ranks need it, and must not hold up the end of the process; so it has no owner.
#pragma once

#include <functional>

#include "base/status.h"

namespace omnes::core::bootstrap {

// All signals are blocked in it. `body` must own, or share, everything that it uses. `name` has at
// most 15 characters.
base::Status startDetachedThread(const char* name, std::function<void()> body);

}  // namespace omnes::core::bootstrap
