// The two ends of a link: which chunks may be under way, and where those are that have come.
//
// Both ends cut a stream alike: windowOf() is a function of the stream and the slot size alone.
// Sequence numbers and counts start at 0 and never wrap (64 bits). Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transports/streams.h"
#include "transports/tcp/buffer_pool.h"
#include "transports/tcp/frame.h"
#include "transports/transport.h"

namespace omnes::transports::tcp {

// How many chunks of a stream may be under way on one link. At least twice what plans count on,
// because credits are reported by the half (see Incoming::owesCredit()).
uint32_t windowOf(uint8_t stream, size_t slotBytes);

// The sending end. Its readers are one member, or all others of a multicast.
class Outgoing : public Link {
 public:
  Outgoing(Endpoint* owner, uint8_t stream, size_t slotBytes, std::vector<int32_t> readers);

  uint8_t stream() const { return stream_; }
  // Members.
  const std::vector<int32_t>& readers() const { return readers_; }
  uint64_t sent() const { return sent_; }

  bool hasCredit();
  // Index of the reader that the credit waits for.
  size_t slowest() const;
  // What the reader says; false when that cannot be true.
  bool credit(size_t reader, uint64_t consumed);
  // Of the chunk between acquire() and commit(); one user.
  Buffer* held = nullptr;
  // The sequence number of the chunk that goes now.
  uint64_t next() { return sent_++; }

 private:
  uint8_t stream_;
  std::vector<int32_t> readers_;
  std::vector<uint64_t> consumed_;  // by reader
  uint64_t sent_ = 0;
  uint64_t limit_;  // sent_ may go up to here, as far as we have looked
};

// The receiving end.
class Incoming : public Link {
 public:
  struct Slot {
    Buffer* buffer = nullptr;  // set while a chunk comes or is there
    uint64_t bytes = 0;
    uint64_t fingerprint = 0;
    bool isComplete = false;
  };

  Incoming(Endpoint* owner, uint8_t stream, size_t slotBytes, int32_t peer, BufferPool* pool);
  ~Incoming();
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  uint8_t stream() const { return stream_; }
  // A place for the chunk, or null when the sender may not send it: it lies outside the window, is
  // there already or is too long. Then *why says so.
  Slot* admit(const ChunkHeader& header, std::string* why);
  // The next chunk, null when it is not there yet.
  Slot* front() {
    Slot& slot = slots_[consumed_ % credits];
    return slot.isComplete ? &slot : nullptr;
  }
  // Only when front() is not null.
  void pop();

  // Half the window is unreported: the sender may run dry.
  bool owesHalf() const { return 2 * (consumed_ - reported_) >= credits; }
  // The sender must hear of what was consumed then, and when it has used up its credit as far as it
  // knows, since nothing else would ever wake it. Otherwise it may have half the window under way
  // beside what it does not know of, which is all that plans count on.
  bool owesCredit() const {
    return consumed_ != reported_ && (owesHalf() || arrived_ >= reported_ + credits);
  }
  // consumed, which counts as reported from now on.
  uint64_t report() { return reported_ = consumed_; }

  bool isListed = false;  // among those of its member that owe credit

 private:
  uint8_t stream_;
  BufferPool* pool_;
  std::vector<Slot> slots_;  // by sequence number modulo credits
  uint64_t consumed_ = 0;
  uint64_t reported_ = 0;
  uint64_t arrived_ = 0;  // one more than the highest sequence number seen
};

}  // namespace omnes::transports::tcp
