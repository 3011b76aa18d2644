// The chunks that wait to be sent to one member, in order. Each is a user of its buffer. Grows to
// what was ever queued at once and keeps that. Not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "transports/tcp/buffer_pool.h"

namespace omnes::transports::tcp {

class ChunkQueue {
 public:
  ChunkQueue() = default;
  ChunkQueue(const ChunkQueue&) = delete;
  ChunkQueue& operator=(const ChunkQueue&) = delete;
  ~ChunkQueue() { clear(); }

  bool isEmpty() const { return head_ == chunks_.size(); }
  Buffer* front() const { return chunks_[head_]; }
  // Becomes a user of the buffer.
  void push(Buffer* buffer) {
    chunks_.push_back(buffer);
    ++buffer->users;
  }
  // The caller takes over the use of what it returns.
  Buffer* pop() {
    Buffer* buffer = chunks_[head_++];
    if (isEmpty()) {
      chunks_.clear();
      head_ = 0;
    } else if (2 * head_ > chunks_.size()) {
      chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<ptrdiff_t>(head_));
      head_ = 0;
    }
    return buffer;
  }
  void clear() {
    while (!isEmpty()) BufferPool::drop(pop());
  }

 private:
  std::vector<Buffer*> chunks_;
  size_t head_ = 0;
};

}  // namespace omnes::transports::tcp
