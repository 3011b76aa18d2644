#include "transports/tcp/frame.h"

namespace omnes::transports::tcp {
namespace {

constexpr uint32_t kMagic = 0x434e4d4f;  // OMNC
constexpr uint8_t kChunk = 1;
constexpr uint8_t kCredit = 2;

// Compilers make one load or store of these loops.
template <typename T>
void put(T value, uint8_t* out) {
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<uint8_t>(value >> (8 * i));
}

template <typename T>
T get(const uint8_t* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(bytes[i]) << (8 * i);
  return value;
}

void putStart(uint8_t type, uint8_t stream, uint8_t* out) {
  put(kMagic, out);
  out[4] = type;
  out[5] = stream;
  out[6] = out[7] = 0;
}

bool isStart(const uint8_t* bytes, uint8_t type) {
  return get<uint32_t>(bytes) == kMagic && bytes[4] == type && bytes[6] == 0 && bytes[7] == 0;
}

}  // namespace

void encode(const ChunkHeader& header, uint8_t* out) {
  putStart(kChunk, header.stream, out);
  put(header.bytes, out + 8);
  put(header.sequence, out + 16);
  put(header.fingerprint, out + 24);
}

void encode(const Credit& credit, uint8_t* out) {
  putStart(kCredit, credit.stream, out);
  put(credit.consumed, out + 8);
}

bool decode(const uint8_t* bytes, ChunkHeader* header) {
  if (!isStart(bytes, kChunk)) return false;
  *header = {bytes[5], get<uint64_t>(bytes + 8), get<uint64_t>(bytes + 16),
             get<uint64_t>(bytes + 24)};
  return true;
}

bool decode(const uint8_t* bytes, Credit* credit) {
  if (!isStart(bytes, kCredit)) return false;
  *credit = {bytes[5], get<uint64_t>(bytes + 8)};
  return true;
}

}  // namespace omnes::transports::tcp
