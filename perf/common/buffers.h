// Buffers that notice when something writes beside them.
//
// Thread safety: a buffer is used by one thread. Invariant: the guard bytes lie directly before and
// after the bytes last armed, whatever the size of the mapping.
#pragma once

#include <cstddef>
#include <cstdint>

namespace omnes::perf {

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  // Maps room for `bytes` at `offset` bytes from a page boundary. False if the system has none;
  // call once.
  bool open(uint64_t bytes, uint64_t offset);

  unsigned char* data() const { return data_; }

  // Writes the guards around the first `bytes`; at most what was opened.
  void arm(uint64_t bytes);
  // How many guard bytes have changed since.
  uint64_t damagedBytes() const;

 private:
  void* mapping_ = nullptr;  // owned
  size_t mappingBytes_ = 0;
  unsigned char* data_ = nullptr;
  uint64_t armed_ = 0;
};

}  // namespace omnes::perf
