#include "api/handle.h"

#include "api/handle_store.h"

namespace omnes::api {
namespace {

using base::Code;
using base::Result;
using base::Status;

thread_local std::string lastError;

}  // namespace

omnesComm_t newHandle(int32_t rank, int32_t nranks) {
  static std::atomic<uint64_t> lastSerial{0};
  omnesComm_t handle = HandleStore<omnesComm>::instance().make();
  const std::lock_guard<std::mutex> lock(handle->mutex);
  handle->forkGeneration = base::forkGeneration();
  // Relaxed: only has to be unique.
  handle->serial = lastSerial.fetch_add(1, std::memory_order_relaxed) + 1;
  handle->rank = rank;
  handle->nranks = nranks;
  handle->isFinalized = false;
  handle->lost = Status::ok();
  handle->isRevoked = false;
  return handle;
}

omnesComm_t makeHandle(std::unique_ptr<core::Communicator> communicator) {
  omnesComm_t handle = newHandle(communicator->rank(), communicator->nranks());
  handle->communicator = std::move(communicator);
  // H1: pairs with H2.
  handle->magic.store(omnesComm::kLive, std::memory_order_release);
  return handle;
}

Status whyNotMade(omnesComm_t comm) {
  if (!comm->lost.isOk()) return comm->lost;
  return Status(Code::kInvalidUsage,
                "comm is still being made: wait until omnesCommGetAsyncError says that it is no "
                "longer in progress");
}

Status whyNotIn(omnesComm_t comm) {
  if (comm == nullptr) return Status(Code::kInvalidArgument, "comm is NULL");
  // H2: pairs with H1.
  const uint64_t magic = comm->magic.load(std::memory_order_acquire);
  if (magic == omnesComm::kJoining || magic == omnesComm::kLost) {
    const std::lock_guard<std::mutex> lock(comm->mutex);
    return whyNotMade(comm);
  }
  if (magic == omnesComm::kLive && comm->forkGeneration != base::forkGeneration())
    return Status(Code::kInvalidUsage, "comm was made before a fork: only the parent may use it");
  return Status(Code::kInvalidArgument, "comm is not a live communicator");
}

Result<std::shared_ptr<core::Stream>> findStream(omnesStream_t stream) {
  // H2: pairs with H1 in streams.cc.
  if (stream->magic.load(std::memory_order_acquire) != omnesStream::kLive)
    return Status(Code::kInvalidArgument, "stream is not a live stream");
  if (stream->forkGeneration != base::forkGeneration())
    return Status(Code::kInvalidUsage, "stream was made before a fork: only the parent may use it");
  const std::lock_guard<std::mutex> lock(stream->mutex);
  if (stream->stream == nullptr)
    return Status(Code::kInvalidArgument, "stream is not a live stream");
  return stream->stream;
}

omnesResult_t finish(const Status& status) {
  if (!status.isOk()) [[unlikely]]
    lastError = status.message();
  return static_cast<omnesResult_t>(status.code());
}

const char* lastErrorOfThread() { return lastError.c_str(); }

}  // namespace omnes::api
