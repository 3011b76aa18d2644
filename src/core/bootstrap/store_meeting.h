// A meeting point from a key-value store that all ranks reach: rank 0 puts a fresh unique id there,
// the others wait for it.
//
// The store is the user's, and may fail, be slow or never return. Its functions are called on a
// thread of the library that nobody waits for longer than the limits allow; one that does not
// return goes on alone, so what it uses must live until it does.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "core/bootstrap/meeting_point.h"
#include "core/bootstrap/socket_io.h"

namespace omnes::core::bootstrap {

struct Store {
  std::function<base::Status(const std::string& key, std::string_view value)> put;
  // At most `room` bytes.
  std::function<base::Result<std::string>(const std::string& key, size_t room)> get;
  // Until the key is there: kTimeout when it is not within the time.
  std::function<base::Status(const std::string& key, std::chrono::milliseconds limit)> wait;
  std::string prefix;  // of keys; for this communicator alone
};

// kTimeout, kInvalidUsage (aborted), what the store says, or makeHostedId().
base::Result<MeetingPoint> meetByStore(const Store& store, uint32_t rank, const IdOptions& options,
                                       const WaitLimits& limits);

}  // namespace omnes::core::bootstrap
