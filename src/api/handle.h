// What an omnesComm_t and an omnesStream_t point at, and the checks that every call makes first.
//
// Their memory stays (handle_store.h), so the checks read it without a lock; `magic` says what it
// is just now. A call that runs operations says so in `inside`, and looks at `magic` once more:
// whoever ends the handle clears `magic`, fences, and then waits for `inside`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/fork.h"
#include "base/status.h"
#include "core/comm/communicator.h"
#include "core/run/stream.h"
#include "omnes/omnes.h"

namespace omnes::api {
class Joining;
}  // namespace omnes::api

struct omnesComm {
  static constexpr uint64_t kLive = 0x6f6d6e65732d6f6b;     // "omnes-ok"
  static constexpr uint64_t kJoining = 0x6f6d6e65732d2e2e;  // being made in the background
  static constexpr uint64_t kLost = 0x6f6d6e65732d6e6f;     // could not be made

  std::atomic<uint64_t> magic{0};
  // A thread is in a call that runs or enqueues operations; written by that thread.
  std::atomic<bool> inside{false};
  uint32_t forkGeneration = 0;
  uint64_t serial = 0;  // of this life of the handle
  int32_t rank = 0;
  int32_t nranks = 0;
  bool isFinalized = false;
  // Set while magic is kLive. Calls of the using thread need no lock; queries of other threads
  // take the mutex, and so does whoever ends the handle.
  std::unique_ptr<omnes::core::Communicator> communicator;
  std::shared_ptr<omnes::api::Joining> joining;  // guarded by mutex
  omnes::base::Status lost;                      // guarded by mutex; set when magic is kLost
  bool isRevoked = false;                        // guarded by mutex
  std::mutex mutex;
};

struct omnesStream {
  static constexpr uint64_t kLive = 0x6f6d6e65732d7374;  // "omnes-st"

  std::atomic<uint64_t> magic{0};
  uint32_t forkGeneration = 0;
  std::mutex mutex;  // guards stream
  std::shared_ptr<omnes::core::Stream> stream;
};

namespace omnes::api {

// A handle that magic does not yet call live.
omnesComm_t newHandle(int32_t rank, int32_t nranks);
// The handle of a communicator that has been made.
omnesComm_t makeHandle(std::unique_ptr<core::Communicator> communicator);
// What a call whose Entry did not get in comes to: NULL, a thing that is no communicator, one that
// is not made yet, could not be made, or was made before a fork.
base::Status whyNotIn(omnesComm_t comm);
// The same, under its mutex, of one that is known to be no live one.
base::Status whyNotMade(omnesComm_t comm);

// A call that runs or enqueues operations of a communicator. Makes no Status unless it must: this
// stands before the first chunk.
class Entry {
 public:
  explicit Entry(omnesComm_t comm) {
    // H2: pairs with H1 in whoever made the communicator.
    if (comm == nullptr || comm->magic.load(std::memory_order_acquire) != omnesComm::kLive ||
        comm->forkGeneration != base::forkGeneration()) [[unlikely]]
      return;
    // Relaxed, both: fenceAllThreads() in whoever ends the handle orders them.
    comm->inside.store(true, std::memory_order_relaxed);
    comm_ = comm;
    if (comm->magic.load(std::memory_order_relaxed) != omnesComm::kLive) [[unlikely]]
      leave();
  }
  ~Entry() {
    if (comm_ != nullptr) leave();
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  bool isIn() const { return comm_ != nullptr; }

 private:
  void leave() {
    // I1: pairs with I2 in comm_end.cc: the call is done with everything.
    comm_->inside.store(false, std::memory_order_release);
    comm_ = nullptr;
  }
  omnesComm_t comm_ = nullptr;
};

// The stream behind a handle, kept alive by the result.
base::Result<std::shared_ptr<core::Stream>> findStream(omnesStream_t stream);

// The boundary: remembers the text for omnesGetLastError(NULL) and translates the code.
omnesResult_t finish(const base::Status& status);
// The text of the last failed call of this thread.
const char* lastErrorOfThread();

}  // namespace omnes::api
