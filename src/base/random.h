// Bytes that cannot be guessed, for secrets and nonces. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace omnes::base {

// From the kernel (getrandom). On failure the bytes must not be used.
Status randomBytes(std::span<std::byte> bytes);

}  // namespace omnes::base
