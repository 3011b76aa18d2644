// Memory that processes share, and owners of mappings.
//
// Shared memory comes from memfd_create(): it lives in no file system that could be full, leak or
// be tampered with, and goes when its last descriptor and mapping go. Its pages are allocated when
// it is made, so that a lack of memory is an error here and never a bus error later. It is sealed
// against shrinking, so that a peer that was handed the descriptor cannot pull pages away from
// under us.
//
// A Mapping may be used from any thread; making and moving it is not synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/status.h"

namespace omnes::base {

// Owns one mapped range of memory. Page aligned.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~Mapping() { reset(); }

  // Zeroed memory of this process alone. Not inherited as a copy-on-write burden: a fork shares it
  // lazily.
  static Result<Mapping> anonymous(size_t bytes);
  // Takes over a range that mmap() returned.
  static Mapping adopt(void* data, size_t bytes) { return Mapping(data, bytes); }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data(), size_}; }
  bool isMapped() const { return data_ != nullptr; }
  void reset();

 private:
  Mapping(void* data, size_t size) : data_(data), size_(size) {}
  void* data_ = nullptr;
  size_t size_ = 0;
};

// `bytes` of zeroed shared memory, allocated and sealed. `name` shows in /proc/PID/maps only. When
// there is not enough memory the error states the bytes needed and those available.
Result<UniqueFd> createSharedMemory(const char* name, size_t bytes);

// Maps all of a descriptor made by createSharedMemory(), here or by a peer; borrows it. One that
// has another size, is not sealed against shrinking or has unallocated pages is refused before it
// is mapped. The mapping keeps the memory alive; the descriptor may be closed. Page tables are
// filled at once.
Result<Mapping> mapShared(int fd, size_t bytes);

// Bytes that a new allocation may expect to get: the least of what the system has available and
// what each level of the control group still allows, page cache counted as free. An estimate, and
// not a reservation: processes that allocate at the same time see the same bytes. 0 when it cannot
// be told.
uint64_t availableMemoryBytes();

namespace internal {

// What a control group allows beyond `usage`; `stat` is its memory.stat (v1 or v2), which tells the
// page cache that would make room.
uint64_t groupAvailableBytes(uint64_t limit, uint64_t usage, std::string_view stat);

}  // namespace internal
}  // namespace omnes::base
