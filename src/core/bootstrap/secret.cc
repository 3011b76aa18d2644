#include "core/bootstrap/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "core/bootstrap/wire.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr size_t kMinFileBytes = 16;
constexpr size_t kMaxFileBytes = 4096;

Status badFile(const std::string& path, const std::string& reason) {
  return Status(Code::kInvalidUsage, "OMNES_SECRET_FILE '" + path + "' " + reason);
}

Status checkFile(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return badFile(path, "is not a regular file");
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return badFile(path, "belongs to user " + std::to_string(info.st_uid) + ", not to you");
  }
  if ((info.st_mode & 0077) != 0) return badFile(path, "is open to others: run chmod 600 on it");
  if (info.st_size < static_cast<off_t>(kMinFileBytes) ||
      info.st_size > static_cast<off_t>(kMaxFileBytes)) {
    return badFile(path, "has " + std::to_string(info.st_size) +
                             " bytes; 16 to 4096 are needed, for example from "
                             "head -c 32 /dev/urandom");
  }
  return Status::ok();
}

}  // namespace

Status initCrypto() {
  static const int result = ::sodium_init();
  if (result < 0)
    return Status(Code::kSystemError, "libsodium finds no source of randomness on this system");
  return Status::ok();
}

void fillRandom(std::span<uint8_t> bytes) { ::randombytes_buf(bytes.data(), bytes.size()); }

uint64_t randomU64() {
  uint8_t bytes[8];
  fillRandom(bytes);
  return getLe<uint64_t>(bytes);
}

Secret::~Secret() { ::sodium_memzero(bytes_.data(), bytes_.size()); }

Secret Secret::derive(std::string_view purpose, std::span<const uint8_t> material) {
  Secret secret;
  crypto_hash_sha256_state state;
  uint8_t length[8];
  putLe<uint64_t>(length,
                  purpose.size());  // so that purpose and material cannot slide into each other
  ::crypto_hash_sha256_init(&state);
  ::crypto_hash_sha256_update(&state, length, sizeof length);
  ::crypto_hash_sha256_update(&state, reinterpret_cast<const uint8_t*>(purpose.data()),
                              purpose.size());
  ::crypto_hash_sha256_update(&state, material.data(), material.size());
  ::crypto_hash_sha256_final(&state, secret.bytes_.data());
  ::sodium_memzero(&state, sizeof state);
  return secret;
}

Result<Secret> Secret::fromFile(const std::string& path) {
  // Non-blocking, so that a planted fifo cannot hold us; it is refused as "not a regular file".
  const base::UniqueFd fd = base::UniqueFd::open(
      [&path] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (!fd.isOpen()) {
    const int error = errno;
    return badFile(path,
                   "cannot be opened: " + std::string(Status::fromErrno(error, "open").message()));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return Status::fromErrno(errno, "fstat of OMNES_SECRET_FILE");
  OMNES_RETURN_IF_ERROR(checkFile(path, info));
  std::array<uint8_t, kMaxFileBytes> content;
  size_t have = 0;
  while (have < content.size()) {
    const ssize_t n = ::read(fd.get(), content.data() + have, content.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::fromErrno(errno, "reading OMNES_SECRET_FILE");
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  const Secret secret = derive("omnes secret file", std::span(content).first(have));
  ::sodium_memzero(content.data(), content.size());
  if (have < kMinFileBytes) return badFile(path, "became shorter than 16 bytes while it was read");
  return secret;
}

std::string seal(const Secret& key, std::string_view purpose, std::span<const uint8_t> plain) {
  const Secret own = Secret::derive(purpose, key.bytes());
  std::string out(crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + plain.size(), '\0');
  auto* bytes = reinterpret_cast<uint8_t*>(out.data());
  fillRandom({bytes, crypto_secretbox_NONCEBYTES});
  ::crypto_secretbox_easy(bytes + crypto_secretbox_NONCEBYTES, plain.data(), plain.size(), bytes,
                          own.bytes().data());
  return out;
}

Result<std::string> unseal(const Secret& key, std::string_view purpose, std::string_view sealed) {
  constexpr size_t kOverhead = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
  const Secret own = Secret::derive(purpose, key.bytes());
  const auto* bytes = reinterpret_cast<const uint8_t*>(sealed.data());
  std::string plain(sealed.size() < kOverhead ? 0 : sealed.size() - kOverhead, '\0');
  if (sealed.size() < kOverhead ||
      ::crypto_secretbox_open_easy(
          reinterpret_cast<uint8_t*>(plain.data()), bytes + crypto_secretbox_NONCEBYTES,
          sealed.size() - crypto_secretbox_NONCEBYTES, bytes, own.bytes().data()) != 0)
    return Status(Code::kRemoteError, "another rank sent an id that cannot be read");
  return plain;
}

uint64_t hashText(std::string_view text) {
  uint8_t digest[crypto_hash_sha256_BYTES];
  ::crypto_hash_sha256(digest, reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return getLe<uint64_t>(digest);
}

}  // namespace omnes::core::bootstrap
