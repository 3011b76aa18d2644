// What ranks say in a council (council.h), as payloads of frames (docs/wire.md). Value types, pure
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/bootstrap/wire.h"

namespace omnes::core::bootstrap {

// A set of ranks travels as a list; this many fit a frame beside everything else.
inline constexpr size_t kMaxListedRanks = 4096;
inline constexpr size_t kMaxPurposeBytes = 1024;
inline constexpr size_t kMaxCouncilBlobBytes = 16 * 1024;
inline constexpr size_t kCouncilNonceBytes = 32;

// kReport; kKnock, without a blob.
struct CouncilReport {
  std::string purpose;
  std::vector<uint32_t> excluded;  // ascending
  std::string blob;

  std::string encode() const;
  // kRemoteError: lengths that are impossible, or a rank that does not exist.
  static base::Result<CouncilReport> decode(std::string_view payload, uint32_t nranks);
};

// kDecided.
struct CouncilDecision {
  std::array<uint8_t, kCouncilNonceBytes> nonce{};
  std::vector<uint32_t> excluded;  // ascending

  std::string encode() const;
  static base::Result<CouncilDecision> decode(std::string_view payload, uint32_t nranks);
};

}  // namespace omnes::core::bootstrap
