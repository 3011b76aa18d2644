#include "core/comm/entered.h"

#include <array>

#include "core/bootstrap/frame.h"
#include "core/bootstrap/wire.h"

namespace omnes::core {
namespace {

using bootstrap::getLe;
using bootstrap::putLe;

constexpr size_t kBytes = 56;
static_assert(kBytes <= bootstrap::kMaxEnteredBytes);
constexpr uint32_t kAnswer = 1;

}  // namespace

std::string Entered::encode() const {
  std::array<uint8_t, kBytes> bytes{};
  putLe<uint64_t>(&bytes[0], entry.sequence);
  putLe<uint64_t>(&bytes[8], entry.fingerprint);
  putLe<uint64_t>(&bytes[16], entry.count);
  putLe<uint32_t>(&bytes[24], entry.collective);
  putLe<uint32_t>(&bytes[28], entry.type);
  putLe<uint32_t>(&bytes[32], entry.op);
  putLe<uint32_t>(&bytes[36], static_cast<uint32_t>(entry.root));
  putLe<uint64_t>(&bytes[40], finished);
  putLe<uint32_t>(&bytes[48], isAnswer ? kAnswer : 0);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<Entered> Entered::decode(std::string_view payload) {
  if (payload.size() != kBytes) return std::nullopt;
  const auto* bytes = reinterpret_cast<const uint8_t*>(payload.data());
  Entered out;
  out.entry.sequence = getLe<uint64_t>(bytes);
  out.entry.fingerprint = getLe<uint64_t>(bytes + 8);
  out.entry.count = getLe<uint64_t>(bytes + 16);
  out.entry.collective = getLe<uint32_t>(bytes + 24);
  out.entry.type = getLe<uint32_t>(bytes + 28);
  out.entry.op = getLe<uint32_t>(bytes + 32);
  out.entry.root = static_cast<int32_t>(getLe<uint32_t>(bytes + 36));
  out.finished = getLe<uint64_t>(bytes + 40);
  out.isAnswer = (getLe<uint32_t>(bytes + 48) & kAnswer) != 0;
  return out;
}

}  // namespace omnes::core
