#include "common/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace omnes::perf {
namespace {

constexpr uint64_t kPage = 4096;
// A vector store of any width that runs over the end is seen, and so is a whole wrong cache line.
constexpr uint64_t kGuardBytes = 512;
constexpr int kGuardByte = 0xa7;

}  // namespace

GuardedBuffer::~GuardedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mappingBytes_);
}

bool GuardedBuffer::open(uint64_t bytes, uint64_t offset) {
  const uint64_t needed = kPage + offset + bytes + kGuardBytes;
  if (needed < bytes) return false;
  const uint64_t rounded = (needed + kPage - 1) / kPage * kPage;
  void* mapping =
      mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return false;
  mapping_ = mapping;
  mappingBytes_ = rounded;
  data_ = static_cast<unsigned char*>(mapping) + kPage + offset;
  return true;
}

void GuardedBuffer::arm(uint64_t bytes) {
  armed_ = bytes;
  std::memset(data_ - kGuardBytes, kGuardByte, kGuardBytes);
  std::memset(data_ + bytes, kGuardByte, kGuardBytes);
}

uint64_t GuardedBuffer::damagedBytes() const {
  const auto damaged = [](const unsigned char* from) {
    return kGuardBytes - static_cast<uint64_t>(std::count(from, from + kGuardBytes,
                                                          static_cast<unsigned char>(kGuardByte)));
  };
  return damaged(data_ - kGuardBytes) + damaged(data_ + armed_);
}

}  // namespace omnes::perf
