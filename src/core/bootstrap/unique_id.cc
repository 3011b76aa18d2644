#include "core/bootstrap/unique_id.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "core/bootstrap/secret.h"
#include "core/bootstrap/wire.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr uint8_t kMagic[8] = {'o', 'm', 'n', 'e', 's', 'i', 'd', 0};
constexpr size_t kVersionAt = 8;
constexpr size_t kCheckAt = 12;
constexpr size_t kSecretAt = 16;
constexpr size_t kCommIdAt = 32;
constexpr size_t kAddressAt = 40;
static_assert(kAddressAt + kUniqueIdAddressBytes == kUniqueIdBytes);

uint32_t checkOf(std::span<const uint8_t, kUniqueIdBytes> id) {
  uint8_t digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_state state;
  ::crypto_hash_sha256_init(&state);
  ::crypto_hash_sha256_update(&state, id.data(), kCheckAt);
  ::crypto_hash_sha256_update(&state, id.data() + kSecretAt, kUniqueIdBytes - kSecretAt);
  ::crypto_hash_sha256_final(&state, digest);
  ::sodium_memzero(&state, sizeof state);  // the hash's input block has the secret in it
  return getLe<uint32_t>(digest);
}

}  // namespace

UniqueId::~UniqueId() { ::sodium_memzero(secret.data(), secret.size()); }

UniqueId UniqueId::make(std::string address) {
  UniqueId id;
  fillRandom(id.secret);
  id.commId = randomU64();
  id.address = std::move(address);
  return id;
}

Status UniqueId::encode(std::span<uint8_t, kUniqueIdBytes> out) const {
  if (address.size() >= kUniqueIdAddressBytes) {
    return Status(Code::kInvalidArgument,
                  "the meeting address '" + address + "' is longer than 87 characters");
  }
  std::fill(out.begin(), out.end(), uint8_t{0});
  std::memcpy(out.data(), kMagic, sizeof kMagic);
  putLe<uint32_t>(&out[kVersionAt], kWireVersion);
  std::copy(secret.begin(), secret.end(), &out[kSecretAt]);
  putLe<uint64_t>(&out[kCommIdAt], commId);
  std::memcpy(&out[kAddressAt], address.data(), address.size());
  putLe<uint32_t>(&out[kCheckAt], checkOf(out));
  return Status::ok();
}

Result<UniqueId> UniqueId::decode(std::span<const uint8_t, kUniqueIdBytes> in) {
  if (std::memcmp(in.data(), kMagic, sizeof kMagic) != 0) {
    return Status(Code::kInvalidArgument,
                  "these 128 bytes are not a unique id; use the bytes omnesGetUniqueId filled in");
  }
  const auto version = getLe<uint32_t>(&in[kVersionAt]);
  if (version != kWireVersion) {
    return Status(Code::kInvalidUsage,
                  "the unique id was made with wire version " + std::to_string(version) +
                      ", this library has wire version " + std::to_string(kWireVersion) +
                      "; use the same omnes on all ranks");
  }
  if (getLe<uint32_t>(&in[kCheckAt]) != checkOf(in)) {
    return Status(Code::kInvalidArgument,
                  "the unique id was damaged on its way; send all 128 bytes unchanged");
  }
  UniqueId id;
  std::copy_n(&in[kSecretAt], kUniqueIdSecretBytes, id.secret.begin());
  id.commId = getLe<uint64_t>(&in[kCommIdAt]);
  const char* text = reinterpret_cast<const char*>(&in[kAddressAt]);
  const size_t length = ::strnlen(text, kUniqueIdAddressBytes);
  if (length == 0 || length == kUniqueIdAddressBytes) {
    return Status(Code::kInvalidArgument, "the unique id has no meeting address");
  }
  id.address.assign(text, length);
  return id;
}

}  // namespace omnes::core::bootstrap
