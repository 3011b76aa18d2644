#include "core/bootstrap/store_meeting.h"

#include <poll.h>
#include <sodium.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/event.h"
#include "core/bootstrap/detached_thread.h"
#include "core/bootstrap/meeting_host.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

// The store is asked again and again, so that one whose ranks have given up is left in peace.
constexpr std::chrono::milliseconds kPatience{1000};
constexpr size_t kMaxValueBytes = 1024;
// In front of the id, or of the reason why there is none.
constexpr std::string_view kIdMark = "omnes id ";
constexpr std::string_view kFailedMark = "omnes failed ";

// Shared by the waiting thread and the one that talks to the store.
struct Talk {
  explicit Talk(base::EventFd event) : done(std::move(event)) {}
  const base::EventFd done;
  std::atomic<bool> isGivenUp{false};
  std::mutex mutex;
  Status status;      // guarded by mutex
  std::string value;  // guarded by mutex
};

Status awaitValue(const Store& store, const std::string& key, const Talk& talk,
                  std::string* value) {
  // A callback that was left behind is the last one: the store may be gone when it returns.
  // Relaxed: who releases it from outside orders that himself.
  const auto isGivenUp = [&] { return talk.isGivenUp.load(std::memory_order_relaxed); };
  for (;;) {
    if (isGivenUp()) return Status(Code::kTimeout, "given up");
    const Status there = store.wait(key, kPatience);
    if (there.isOk()) break;
    if (there.code() != Code::kTimeout) return there;
  }
  if (isGivenUp()) return Status(Code::kTimeout, "given up");
  OMNES_ASSIGN_OR_RETURN(*value, store.get(key, kMaxValueBytes));
  return Status::ok();
}

// Runs one conversation, for no longer than the limits.
Result<std::string> converse(const Store& store, const std::string& key, const std::string* toPut,
                             const WaitLimits& limits) {
  OMNES_ASSIGN_OR_RETURN(base::EventFd event, base::EventFd::open());
  auto talk = std::make_shared<Talk>(std::move(event));
  const std::string put = toPut == nullptr ? std::string() : *toPut;
  const bool puts = toPut != nullptr;
  OMNES_RETURN_IF_ERROR(startDetachedThread("omnes-store", [talk, store, key, put, puts] {
    Status status;
    std::string value;
    try {
      status = puts ? store.put(key, put) : awaitValue(store, key, *talk, &value);
    } catch (...) {
      status = Status(Code::kSystemError, "a callback of the store threw an exception");
    }
    {
      const std::lock_guard<std::mutex> lock(talk->mutex);
      talk->status = std::move(status);
      talk->value = std::move(value);
    }
    talk->done.signal();
  }));
  const std::string what = puts ? "putting '" + key + "' into the store"
                                : "waiting for rank 0 to put '" + key + "' into the store";
  const Status waited = waitFor(talk->done.fd(), POLLIN, limits, what);
  if (!waited.isOk()) {
    // Relaxed: as above.
    talk->isGivenUp.store(true, std::memory_order_relaxed);
    return waited;
  }
  const std::lock_guard<std::mutex> lock(talk->mutex);
  if (!talk->status.isOk()) return talk->status.withContext(what);
  return std::move(talk->value);
}

Result<MeetingPoint> hostAndPut(const Store& store, const std::string& key,
                                const IdOptions& options, const WaitLimits& limits) {
  const Result<HostedId> hosted = makeHostedId(options);
  if (!hosted.isOk()) {
    // The others would wait for it in vain.
    const std::string why = std::string(kFailedMark) + std::string(hosted.status().message());
    (void)converse(store, key, &why, limits);
    return hosted.status();
  }
  const auto& id = hosted.value().id;
  std::string value(kIdMark);
  value.append(reinterpret_cast<const char*>(id.data()), id.size());
  const Status put = converse(store, key, &value, limits).status();
  ::sodium_memzero(value.data(), value.size());
  if (!put.isOk()) {
    hosted.value().host->stop();
    return put;
  }
  return MeetingPoint::fromUniqueId(id);
}

}  // namespace

Result<MeetingPoint> meetByStore(const Store& store, uint32_t rank, const IdOptions& options,
                                 const WaitLimits& limits) {
  const std::string key = store.prefix + "/id";
  if (rank == 0) return hostAndPut(store, key, options, limits);
  OMNES_ASSIGN_OR_RETURN(std::string value, converse(store, key, nullptr, limits));
  if (value.starts_with(kFailedMark))
    return Status(Code::kRemoteError,
                  "rank 0 made no meeting: " + value.substr(kFailedMark.size()));
  std::array<uint8_t, kUniqueIdBytes> id;
  if (!value.starts_with(kIdMark) || value.size() != kIdMark.size() + id.size())
    return Status(Code::kInvalidUsage, "the store has something else under '" + key +
                                           "'; give each communicator a prefix of its own");
  std::memcpy(id.data(), value.data() + kIdMark.size(), id.size());
  ::sodium_memzero(value.data(), value.size());
  Result<MeetingPoint> point = MeetingPoint::fromUniqueId(id);
  ::sodium_memzero(id.data(), id.size());
  return point;
}

}  // namespace omnes::core::bootstrap
