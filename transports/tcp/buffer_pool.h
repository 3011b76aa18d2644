// Buffers for chunks, all of one size, that are used over and over: the one given back last is the
// next to be taken, since it is the one that is still in the cache.
//
// A buffer has room for a chunk's header right before its payload, so that a chunk to send is one
// run of bytes; the payload starts on a cache line. It has users (a link, sockets that have still
// to write it) and goes back when the last of them drops it. The pool owns the buffers and must
// outlive their users. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transports/tcp/frame.h"

namespace omnes::transports::tcp {

class BufferPool;

struct Buffer {
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  static_assert(sizeof(Line) >= kChunkHeaderBytes);

  uint8_t* payload() { return lines[1].bytes; }
  uint8_t* frame() { return payload() - kChunkHeaderBytes; }

  std::vector<Line> lines;  // the end of the first one holds the header
  BufferPool* home = nullptr;
  size_t frameBytes = 0;  // header and payload, of a chunk to send
  int32_t users = 0;
};

class BufferPool {
 public:
  explicit BufferPool(size_t payloadBytes) : payloadBytes_(payloadBytes) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // With one user.
  Buffer* take() {
    if (free_.empty()) grow();
    Buffer* buffer = free_.back();
    free_.pop_back();
    buffer->users = 1;
    return buffer;
  }
  static void drop(Buffer* buffer) {
    if (--buffer->users == 0) buffer->home->free_.push_back(buffer);  // there is room, see grow()
  }
  size_t buffers() const { return all_.size(); }

 private:
  void grow() {
    auto made = std::make_unique<Buffer>();
    made->home = this;
    // At least one line of payload, so that the chunks without any have an address too.
    made->lines.resize(2 + (payloadBytes_ == 0 ? 0 : (payloadBytes_ - 1) / sizeof(Buffer::Line)));
    free_.reserve(all_.size() + 1);
    all_.reserve(all_.size() + 1);
    free_.push_back(made.get());
    all_.push_back(std::move(made));
  }

  size_t payloadBytes_;
  std::vector<std::unique_ptr<Buffer>> all_;
  std::vector<Buffer*> free_;
};

}  // namespace omnes::transports::tcp
