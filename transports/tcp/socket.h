// System calls on a stream socket, without waiting, signals or interruptions.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace omnes::transports::tcp {

// Bytes that were taken, 0 when there is no room now, or the errno, negative.
ssize_t sendSome(int fd, const uint8_t* data, size_t bytes);

// Bytes that came (kClosed at the end of the stream), 0 when there is nothing now, or the errno,
// negative. `into` must have room.
inline constexpr ssize_t kClosed = -1'000'000;
ssize_t receiveSome(int fd, std::span<iovec> into);

}  // namespace omnes::transports::tcp
