// A one-way ring of slots in memory that several processes map: one sender, one or more readers
// (multicast).
//
// A slot is one header line (sequence, fingerprint, up to 48 bytes of payload) followed by a body
// for longer payloads. The sequence is the flag: chunk number + 1, stored last with release, never
// reset, so no head index exists and no ABA is possible. Each reader owns one tail line with the
// number of chunks it has consumed; the sender may reuse a slot when the slowest reader has
// consumed what it held ("credit").
//
// SlotSender and SlotReceiver are private views (cursor, cached limit) of one side; the memory they
// borrow must outlive them and start zeroed. Each view is used by one thread at a time. Indices
// come from local geometry only: a scribbling peer can corrupt payloads and stall us, but not move
// our reads and writes out of the ring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace omnes::base {

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kInlinePayloadBytes = 48;

struct alignas(kLineBytes) SlotHeader {
  std::atomic<uint64_t> sequence;
  uint64_t fingerprint;
  uint8_t payload[kInlinePayloadBytes];
};
static_assert(sizeof(SlotHeader) == kLineBytes && offsetof(SlotHeader, payload) == 16);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Two lines apart, so that the adjacent-line prefetcher does not couple two readers.
struct alignas(2 * kLineBytes) SlotTail {
  std::atomic<uint64_t> consumed;
};
static_assert(sizeof(SlotTail) == 2 * kLineBytes);

// Where a ring lies and how it is cut. slots: a power of two.
struct SlotRingGeometry {
  uint8_t* memory = nullptr;  // kLineBytes-aligned, ringBytes() long
  uint32_t slots = 2;
  size_t bodyBytes = 0;

  // The extra line keeps the stride away from powers of two, which would put all slots on the same
  // cache sets.
  static constexpr size_t strideOf(size_t bodyBytes) {
    const size_t body = (bodyBytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    return sizeof(SlotHeader) + body + (body == 0 ? 0 : kLineBytes);
  }
  static constexpr size_t ringBytes(uint32_t slots, size_t bodyBytes) {
    return slots * strideOf(bodyBytes);
  }
};

// Where a chunk of `bytes` lies in its slot; both ends decide from the length they expect.
inline uint8_t* slotPayload(SlotHeader* header, size_t bytes) {
  return bytes <= kInlinePayloadBytes ? header->payload
                                      : reinterpret_cast<uint8_t*>(header) + sizeof(SlotHeader);
}

class SlotSender {
 public:
  SlotSender() = default;
  // tails: `readers` pointers, borrowed, must outlive the sender.
  SlotSender(const SlotRingGeometry& ring, SlotTail* const* tails, uint32_t readers)
      : ring_(ring),
        stride_(SlotRingGeometry::strideOf(ring.bodyBytes)),
        tails_(tails),
        readers_(readers),
        limit_(ring.slots),
        slot_(header(0)) {}

  // Whether the next slot is free. Cheap when it is known to be; else looks at the readers' tails.
  bool tryAcquire() { return next_ < limit_ || refreshLimit(); }
  // Whether tryAcquire() would not have to look at the readers.
  bool hasCredit() const { return next_ < limit_; }
  // The slot to fill. Precondition: tryAcquire() was true.
  SlotHeader* slot() const { return slot_; }
  // Publishes the filled slot; everything written before is visible to a reader that sees it.
  void publish(uint64_t fingerprint) {
    slot_->fingerprint = fingerprint;
    ++next_;
    // P1: pairs with R1 in SlotReceiver::tryPeek.
    slot_->sequence.store(next_, std::memory_order_release);
    slot_ = header(next_);
  }
  // Index of the reader whose credit is missing; valid after tryAcquire() was false.
  uint32_t slowestReader() const { return slowest_; }
  uint64_t sent() const { return next_; }

 private:
  SlotHeader* header(uint64_t number) const {
    return reinterpret_cast<SlotHeader*>(ring_.memory + (number & (ring_.slots - 1)) * stride_);
  }
  bool refreshLimit() {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < readers_; ++i) {
      // A1: pairs with T1 in SlotReceiver::release: the reader is done with the slot's bytes.
      const uint64_t consumed = tails_[i]->consumed.load(std::memory_order_acquire);
      if (consumed < least) {
        least = consumed;
        slowest_ = i;
      }
    }
    // A tail ahead of what was sent can only be a scribble; it must not grant more than a full
    // ring.
    limit_ = (least < next_ ? least : next_) + ring_.slots;
    return next_ < limit_;
  }

  SlotRingGeometry ring_;
  size_t stride_ = 0;
  SlotTail* const* tails_ = nullptr;
  uint32_t readers_ = 0;
  uint32_t slowest_ = 0;
  uint64_t next_ = 0;   // chunks published
  uint64_t limit_ = 0;  // chunks that may be published
  SlotHeader* slot_ = nullptr;
};

class SlotReceiver {
 public:
  SlotReceiver() = default;
  SlotReceiver(const SlotRingGeometry& ring, SlotTail* tail)
      : ring_(ring),
        stride_(SlotRingGeometry::strideOf(ring.bodyBytes)),
        tail_(tail),
        slot_(header(0)) {}

  // Whether the next chunk has arrived.
  bool tryPeek() const {
    // R1: pairs with P1 in SlotSender::publish.
    return slot_->sequence.load(std::memory_order_acquire) == next_ + 1;
  }
  // The chunk. Precondition: tryPeek() was true. Valid until release().
  SlotHeader* slot() const { return slot_; }
  // Gives the slot back to the sender.
  void release() {
    ++next_;
    // T1: pairs with A1 in SlotSender::refreshLimit.
    tail_->consumed.store(next_, std::memory_order_release);
    slot_ = header(next_);
  }
  uint64_t received() const { return next_; }

 private:
  SlotHeader* header(uint64_t number) const {
    return reinterpret_cast<SlotHeader*>(ring_.memory + (number & (ring_.slots - 1)) * stride_);
  }

  SlotRingGeometry ring_;
  size_t stride_ = 0;
  SlotTail* tail_ = nullptr;
  uint64_t next_ = 0;
  SlotHeader* slot_ = nullptr;
};

}  // namespace omnes::base
