// The registry: the transports this build has, by name.
#pragma once

#include <span>
#include <string_view>

#include "transports/transport.h"

namespace omnes::transports {

// In order of preference. Static storage.
std::span<const TransportTable* const> all();
// Null when there is none of that name.
const TransportTable* find(std::string_view name);

}  // namespace omnes::transports
