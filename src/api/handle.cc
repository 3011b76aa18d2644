#include "api/handle.h"

#include <mutex>
#include <unordered_set>

namespace omnes::api {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_set<omnesComm_t> live;
};

Registry& registry() {
  // Never destroyed: communicators may outlive the static destructors of a process that does not
  // destroy them.
  static Registry* const instance = std::make_unique<Registry>().release();
  return *instance;
}

thread_local std::string lastError;

}  // namespace

omnesComm_t makeHandle(std::unique_ptr<core::Communicator> communicator) {
  auto handle = std::make_unique<omnesComm>();
  handle->communicator = std::move(communicator);
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().live.insert(handle.get());
  return handle.release();
}

bool forgetHandle(omnesComm_t comm) {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  return registry().live.erase(comm) == 1;
}

bool isLiveHandle(omnesComm_t comm) {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  return registry().live.count(comm) == 1;
}

omnesResult_t finish(const base::Status& status) {
  if (!status.isOk()) [[unlikely]]
    lastError = status.message();
  return static_cast<omnesResult_t>(status.code());
}

const char* lastErrorOfThread() { return lastError.c_str(); }

}  // namespace omnes::api
