// The key of a communicator, and randomness. Everything that touches libsodium's state starts here.
//
// A Secret is wiped when it goes and has no text form, so that it cannot end up in a log line.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace omnes::core::bootstrap {

// kSystemError when libsodium finds no randomness. Thread-safe, cheap after the first call.
base::Status initCrypto();
// Fills with bytes from the system's generator. Precondition: initCrypto() has succeeded once.
void fillRandom(std::span<uint8_t> bytes);
uint64_t randomU64();

// Copyable value type, 32 bytes; all copies are wiped at their end.
class Secret {
 public:
  static constexpr size_t kBytes = 32;
  Secret() = default;
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  // One way; `purpose` keeps keys of different origin apart.
  static Secret derive(std::string_view purpose, std::span<const uint8_t> material);
  // The file must be a regular file of ours (or root's), readable by nobody else, of 16 bytes to 4
  // KiB. kInvalidUsage says which of these fails and the command that mends it; the content is
  // never shown.
  static base::Result<Secret> fromFile(const std::string& path);

  std::span<const uint8_t, kBytes> bytes() const { return bytes_; }

 private:
  std::array<uint8_t, kBytes> bytes_{};
};

// What only those can read who have the same key; `purpose` keeps uses of one key apart.
std::string seal(const Secret& key, std::string_view purpose, std::span<const uint8_t> plain);
// kRemoteError: it was not sealed so, or has been changed. The result is the caller's to wipe.
base::Result<std::string> unseal(const Secret& key, std::string_view purpose,
                                 std::string_view sealed);

// 64 bits of SHA-256 over the text: a public name, not a key.
uint64_t hashText(std::string_view text);

}  // namespace omnes::core::bootstrap
