// The 128 bytes that a user carries from one rank to the others: where to meet, and the secret that
// proves who belongs.
//
// Layout (docs/wire.md): 0 magic "omnesid", 8 wire version u32, 12 check u32, 16 secret[16], 32
// communicator u64, 40 address text[88], zero-filled. The check catches a damaged copy, nothing
// more; the secret catches everything else. Never logged. Value type, the secret of which is wiped
// at its end.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace omnes::core::bootstrap {

inline constexpr size_t kUniqueIdBytes = 128;
inline constexpr size_t kUniqueIdSecretBytes = 16;
inline constexpr size_t kUniqueIdAddressBytes = 88;

struct UniqueId {
  std::array<uint8_t, kUniqueIdSecretBytes> secret{};
  uint64_t commId = 0;
  std::string address;

  UniqueId() = default;
  UniqueId(const UniqueId&) = default;
  UniqueId& operator=(const UniqueId&) = default;
  ~UniqueId();

  // Fresh secret and communicator number. Precondition: initCrypto() has succeeded.
  static UniqueId make(std::string address);
  // kInvalidArgument when the address is too long.
  base::Status encode(std::span<uint8_t, kUniqueIdBytes> out) const;
  // kInvalidArgument: not an id, or damaged. kInvalidUsage: made by another wire version (both are
  // printed).
  static base::Result<UniqueId> decode(std::span<const uint8_t, kUniqueIdBytes> in);
};

}  // namespace omnes::core::bootstrap
