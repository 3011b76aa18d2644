// The ring under threads: order, credits and visibility of payloads, and what a scribbled tail may
// not do.
#include "base/slot_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/board.h"

namespace omnes::base {
namespace {

class Ring {
 public:
  Ring(uint32_t slots, size_t bodyBytes, uint32_t readers)
      : memory_(SlotRingGeometry::ringBytes(slots, bodyBytes) + kLineBytes), tails_(readers) {
    void* start = memory_.data();
    size_t space = memory_.size();
    geometry_ = {static_cast<uint8_t*>(std::align(kLineBytes, 1, start, space)), slots, bodyBytes};
    for (SlotTail& tail : tails_) pointers_.push_back(&tail);
  }
  SlotSender sender() {
    return SlotSender(geometry_, pointers_.data(), static_cast<uint32_t>(pointers_.size()));
  }
  SlotReceiver receiver(size_t reader) { return SlotReceiver(geometry_, pointers_[reader]); }
  SlotTail* tail(size_t reader) { return pointers_[reader]; }

 private:
  std::vector<uint8_t> memory_;
  std::vector<SlotTail> tails_;
  std::vector<SlotTail*> pointers_;
  SlotRingGeometry geometry_;
};

TEST(SlotRing, ThreadsSeeEveryChunkOnceAndWhole) {
  constexpr uint64_t kChunks = 20000;
  for (const size_t bytes : {size_t{8}, size_t{48}, size_t{256}}) {
    Ring ring(4, 256, 3);
    const auto fill = [bytes](uint8_t* data, uint64_t number) {
      for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(number * 31 + i);
    };
    std::vector<uint64_t> wrong(3, 0);
    std::vector<std::thread> readers;
    for (size_t r = 0; r < 3; ++r)
      readers.emplace_back([&, r] {
        SlotReceiver in = ring.receiver(r);
        std::vector<uint8_t> expected(bytes);
        for (uint64_t n = 0; n < kChunks; ++n) {
          while (!in.tryPeek()) std::this_thread::yield();
          fill(expected.data(), n);
          const bool same = std::memcmp(slotPayload(in.slot(), bytes), expected.data(), bytes) == 0;
          wrong[r] += !same || in.slot()->fingerprint != n * 7;
          in.release();
        }
      });
    SlotSender out = ring.sender();
    for (uint64_t n = 0; n < kChunks; ++n) {
      while (!out.tryAcquire()) std::this_thread::yield();
      fill(slotPayload(out.slot(), bytes), n);
      out.publish(n * 7);
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong, std::vector<uint64_t>(3, 0)) << bytes << " bytes";
  }
}

TEST(SlotRing, SlowestReaderIsNamed) {
  Ring ring(2, 0, 3);
  SlotSender out = ring.sender();
  SlotReceiver fast = ring.receiver(0), slow = ring.receiver(1), other = ring.receiver(2);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(out.tryAcquire());
    out.publish(0);
  }
  ASSERT_TRUE(fast.tryPeek() && other.tryPeek());
  fast.release(), other.release();
  EXPECT_FALSE(out.tryAcquire());
  EXPECT_EQ(out.slowestReader(), 1u);
  ASSERT_TRUE(slow.tryPeek());
  slow.release();
  EXPECT_TRUE(out.tryAcquire());
}

TEST(SlotRing, TailBeyondWhatWasSentGrantsNoMoreThanARing) {
  Ring ring(4, 0, 1);
  SlotSender out = ring.sender();
  // What a scribbling peer could do.
  ring.tail(0)->consumed.store(1u << 20, std::memory_order_release);
  int sent = 0;
  for (; sent < 100 && out.tryAcquire(); ++sent) out.publish(0);
  EXPECT_EQ(sent, 100) << "a tail far ahead must not stop the sender either";
  SlotReceiver in = ring.receiver(0);
  EXPECT_FALSE(in.tryPeek()) << "slot 0 holds a later chunk than the reader expects";
}

TEST(SlotRing, StrideIsNoPowerOfTwo) {
  for (const size_t body : {size_t{4096}, size_t{65536}, size_t{1} << 18}) {
    const size_t stride = SlotRingGeometry::strideOf(body);
    EXPECT_NE(stride & (stride - 1), 0u) << body;
    EXPECT_EQ(stride % kLineBytes, 0u);
    EXPECT_GE(stride, sizeof(SlotHeader) + body);
  }
}

TEST(Board, ReadersSeeWholeEntriesOnly) {
  Board board{};
  std::atomic<bool> stop{false};
  uint64_t torn = 0, seen = 0;
  std::thread reader([&] {
    // Relaxed: the flag only ends the loop.
    while (!stop.load(std::memory_order_relaxed) || seen == 0) {
      const auto entry = board.read();
      if (!entry) continue;
      ++seen;
      torn += entry->fingerprint != entry->sequence * 3 || entry->count != entry->sequence * 5 ||
              entry->type != static_cast<uint32_t>(entry->sequence % 7);
    }
  });
  for (uint64_t n = 1; n <= 200000; ++n)
    board.enter({.sequence = n,
                 .fingerprint = n * 3,
                 .count = n * 5,
                 .type = static_cast<uint32_t>(n % 7)});
  stop.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_GT(seen, 0u);
}

}  // namespace
}  // namespace omnes::base
