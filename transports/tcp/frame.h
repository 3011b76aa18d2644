// The frames of the `tcp` transport, as docs/wire.md describes them: little-endian, fixed headers.
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace omnes::transports::tcp {

// Part of what an endpoint says of itself; endpoints of different versions refuse each other.
inline constexpr uint32_t kFrameVersion = 1;

// Before each chunk, on data sockets.
struct ChunkHeader {
  uint8_t stream = 0;
  uint64_t bytes = 0;     // of payload
  uint64_t sequence = 0;  // of the chunk on its link, from 0
  uint64_t fingerprint = 0;
};
inline constexpr size_t kChunkHeaderBytes = 32;

// On control sockets: how many chunks of a link the receiver has used up so far.
struct Credit {
  uint8_t stream = 0;
  uint64_t consumed = 0;
};
inline constexpr size_t kCreditBytes = 16;

void encode(const ChunkHeader& header, uint8_t* out);
void encode(const Credit& credit, uint8_t* out);
// False when the bytes are no such frame; the fields' values are not judged.
bool decode(const uint8_t* bytes, ChunkHeader* header);
bool decode(const uint8_t* bytes, Credit* credit);

}  // namespace omnes::transports::tcp
