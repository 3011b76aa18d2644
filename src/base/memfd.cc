#include "base/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/proc_file.h"
#include "base/text.h"

namespace omnes::base {
namespace {

// Allocation goes piece by piece: a signal makes the kernel undo the piece under way, so that with
// a timer running one large piece might never end.
constexpr size_t kPieceBytes = size_t{1} << 20;
// Ranks that start together all see the same memory as available: each looks again while it
// allocates, so that together they are refused before the machine runs out.
constexpr size_t kLookAgainBytes = size_t{64} << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status outOfMemory(int error, size_t bytes, uint64_t available) {
  std::string what = "cannot allocate shared memory, " + std::to_string(bytes) + " bytes needed";
  if (available != 0)
    what.append(", about ").append(std::to_string(available)).append(" available");
  what.append(
      "; use smaller slots (OMNES_SLOT_BYTES), fewer ranks a host, or raise the memory limit");
  return Status::fromErrno(error, what);
}

// Beyond this limit ftruncate() does not just fail, it ends the process by SIGXFSZ.
Status checkFileSizeLimit(size_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      bytes <= limit.rlim_cur) {
    return Status::ok();
  }
  return Status::fromErrno(EFBIG, "cannot create shared memory, " + std::to_string(bytes) +
                                      " bytes needed and " + std::to_string(limit.rlim_cur) +
                                      " allowed by the limit of file sizes (ulimit -f)");
}

int allocatePiece(int fd, off_t at, off_t bytes) {
  int error;
  do {
    error = posix_fallocate(fd, at, bytes);
  } while (error == EINTR);
  return error;
}

}  // namespace

Result<Mapping> Mapping::anonymous(size_t bytes) {
  if (bytes == 0) return Status(Code::kInvalidArgument, "cannot map 0 bytes");
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Status::fromErrno(errno,
                             "cannot map " + std::to_string(bytes) + " bytes of private memory");
  }
  return Mapping(data, bytes);
}

void Mapping::reset() {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

Result<UniqueFd> createSharedMemory(const char* name, size_t bytes) {
  if (bytes == 0) return Status(Code::kInvalidArgument, "cannot create 0 bytes of shared memory");
  OMNES_RETURN_IF_ERROR(checkFileSizeLimit(bytes));
  // Asked first, since a control group's limit is not an error of the allocation but ends the
  // process.
  uint64_t available = availableMemoryBytes();
  if (available != 0 && bytes > available) return outOfMemory(ENOMEM, bytes, available);

  UniqueFd fd =
      UniqueFd::open([name] { return ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING); });
  if (!fd.isOpen()) return Status::fromErrno(errno, "cannot create shared memory (memfd_create)");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return Status::fromErrno(errno,
                             "cannot size shared memory to " + std::to_string(bytes) + " bytes");
  }
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    if (at != 0 && at % kLookAgainBytes == 0) {
      available = availableMemoryBytes();
      if (available != 0 && bytes - at > available) return outOfMemory(ENOMEM, bytes, available);
    }
    const size_t piece = std::min(kPieceBytes, bytes - at);
    const int error = allocatePiece(fd.get(), static_cast<off_t>(at), static_cast<off_t>(piece));
    if (error != 0) return outOfMemory(error, bytes, available);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return Status::fromErrno(errno, "cannot seal shared memory against shrinking");
  }
  return fd;
}

Result<Mapping> mapShared(int fd, size_t bytes) {
  if (bytes == 0) return Status(Code::kInvalidArgument, "cannot map 0 bytes of shared memory");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Status::fromErrno(errno, "the descriptor is not sealable shared memory");
  if ((seals & F_SEAL_SHRINK) == 0) {
    return Status(
        Code::kRemoteError,
        "the shared memory is not sealed against shrinking, so its maker could cut it off");
  }
  struct stat info;
  if (fstat(fd, &info) != 0)
    return Status::fromErrno(errno, "cannot ask for the size of shared memory");
  if (static_cast<uint64_t>(info.st_size) != bytes) {
    return Status(Code::kRemoteError, "the shared memory has " + std::to_string(info.st_size) +
                                          " bytes where " + std::to_string(bytes) +
                                          " were announced");
  }
  if (static_cast<uint64_t>(info.st_blocks) * 512 < bytes) {
    return Status(Code::kRemoteError, "the shared memory has pages that were never allocated");
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) {
    return Status::fromErrno(errno,
                             "cannot map " + std::to_string(bytes) + " bytes of shared memory");
  }
  return Mapping::adopt(data, bytes);
}

namespace internal {

uint64_t groupAvailableBytes(uint64_t limit, uint64_t usage, std::string_view stat) {
  uint64_t cache = 0;
  // In v1 the lines with "total_" include the groups below, and so does `usage`; v2 has only the
  // others.
  const bool isV1 = stat.find("\ntotal_inactive_file ") != std::string_view::npos;
  for (const char* kind : {"inactive_file ", "active_file "}) {
    const std::string key = std::string(isV1 ? "\ntotal_" : "\n") + kind;
    const size_t at = stat.find(key);
    if (at != std::string_view::npos)
      cache += leadingNumber(stat.substr(at + key.size())).value_or(0);
  }
  const uint64_t taken = usage - std::min(usage, cache);
  return limit - std::min(limit, taken);
}

}  // namespace internal

uint64_t availableMemoryBytes() {
  const std::string info = readProcFile("/proc/meminfo");
  uint64_t available = 0;
  for (const std::string_view key : {"MemAvailable:", "SwapFree:"}) {
    const size_t at = info.find(key);
    if (at == std::string::npos) continue;
    available += leadingNumber(std::string_view(info).substr(at + key.size())).value_or(0) * 1024;
  }
  if (available == 0) return 0;
  struct Files {
    const char* limit;
    const char* usage;
  };
  for (const std::string& directory : cgroupDirectories("memory")) {
    for (const Files files : {Files{"/memory.max", "/memory.current"},
                              Files{"/memory.limit_in_bytes", "/memory.usage_in_bytes"}}) {
      const auto limit = leadingNumber(readProcFile(directory + files.limit));
      if (!limit.has_value()) continue;
      const auto usage = leadingNumber(readProcFile(directory + files.usage));
      const std::string stat = readProcFile(directory + "/memory.stat");
      // One byte at least: 0 stands for unknown.
      const uint64_t group = internal::groupAvailableBytes(*limit, usage.value_or(0), stat);
      available = std::max<uint64_t>(1, std::min(available, group));
    }
  }
  return available;
}

}  // namespace omnes::base
