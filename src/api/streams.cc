// Streams and groups.
#include "api/boundary.h"
#include "api/group.h"
#include "api/handle_store.h"

namespace {

using omnes::api::findStream;
using omnes::api::Group;
using omnes::api::guard;
using omnes::base::Code;
using omnes::base::Status;
using omnes::core::Stream;
using Store = omnes::api::HandleStore<omnesStream>;

Status bad(const char* text) { return Status(Code::kInvalidArgument, text); }

Status ownStream() {
  return Status(Code::kInvalidUsage, "a callback of the stream cannot wait for its own stream");
}

Status createStream(omnesStream_t* stream) {
  if (stream == nullptr) return bad("stream is NULL");
  OMNES_ASSIGN_OR_RETURN(std::shared_ptr<Stream> made, Stream::create());
  omnesStream_t handle = Store::instance().make();
  {
    const std::lock_guard<std::mutex> lock(handle->mutex);
    handle->stream = std::move(made);
    handle->forkGeneration = omnes::base::forkGeneration();
  }
  // H1: pairs with H2 in findStream.
  handle->magic.store(omnesStream::kLive, std::memory_order_release);
  *stream = handle;
  return Status::ok();
}

Status destroyStream(omnesStream_t handle) {
  const Status dead = bad("stream is not a live stream; was it destroyed before?");
  if (!Store::instance().isLive(handle)) return dead;
  OMNES_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, findStream(handle));
  if (Stream::current() == stream.get()) return ownStream();
  if (!Store::instance().forget(handle)) return dead;
  handle->magic.store(0, std::memory_order_release);  // H1: pairs with H2
  // The failures of its operations are told by their communicators.
  static_cast<void>(stream->synchronize().isOk());
  {
    const std::lock_guard<std::mutex> lock(handle->mutex);
    handle->stream.reset();
  }
  stream->end();
  Store::instance().retire(handle);
  return Status::ok();
}

Status addCallback(omnesStream_t handle, omnesStreamCallback_t callback, void* userData,
                   unsigned int flags) {
  if (handle == nullptr) return bad("stream is NULL");
  if (callback == nullptr) return bad("callback is NULL");
  if (flags != 0)
    return Status(Code::kInvalidArgument, "flags is " + std::to_string(flags) + "; it must be 0");
  OMNES_ASSIGN_OR_RETURN(const std::shared_ptr<Stream> stream, findStream(handle));
  return stream->addCallback(
      [=](Code code) { callback(handle, static_cast<omnesResult_t>(code), userData); });
}

}  // namespace

omnesResult_t omnesStreamCreate(omnesStream_t* stream) {
  return guard([&] { return createStream(stream); });
}

omnesResult_t omnesStreamDestroy(omnesStream_t stream) {
  return guard([&] { return stream == nullptr ? Status::ok() : destroyStream(stream); });
}

omnesResult_t omnesStreamSynchronize(omnesStream_t handle) {
  return guard([&]() -> Status {
    if (handle == nullptr) return bad("stream is NULL");
    OMNES_ASSIGN_OR_RETURN(const std::shared_ptr<Stream> stream, findStream(handle));
    if (Stream::current() == stream.get()) return ownStream();
    return stream->synchronize();
  });
}

omnesResult_t omnesStreamQuery(omnesStream_t handle) {
  return guard([&]() -> Status {
    if (handle == nullptr) return bad("stream is NULL");
    OMNES_ASSIGN_OR_RETURN(const std::shared_ptr<Stream> stream, findStream(handle));
    Status failure;
    if (stream->query(&failure) == Stream::State::kUnderWay)
      return Status(Code::kInProgress, "the stream is not done yet");
    return failure;
  });
}

omnesResult_t omnesStreamAddCallback(omnesStream_t stream, omnesStreamCallback_t callback,
                                     void* userData, unsigned int flags) {
  return guard([&] { return addCallback(stream, callback, userData, flags); });
}

omnesResult_t omnesGroupStart(void) {
  return guard([&] {
    Group::ofThisThread().start();
    return Status::ok();
  });
}

omnesResult_t omnesGroupEnd(void) {
  return guard([&] { return Group::ofThisThread().end(); });
}
