#include "core/comm/call.h"

#include "base/hash.h"

namespace omnes::core {
namespace {

using base::mix64;

std::string text(uint64_t sequence, uint32_t collective, uint64_t count, uint32_t type, uint32_t op,
                 int32_t root) {
  const auto kind = static_cast<plan::Collective>(collective);
  std::string out = plan::nameOf(kind);
  out += " #" + std::to_string(sequence);
  if (kind == plan::Collective::kBarrier) return out;
  if (kind == plan::Collective::kSendReceive)
    return "sends and receives after operation #" + std::to_string(sequence);
  out +=
      " of " + std::to_string(count) + " " + std::string(nameOf(static_cast<base::DataType>(type)));
  if (plan::isReduction(kind)) out += ", " + std::string(nameOf(static_cast<base::ReduceOp>(op)));
  if (root >= 0) out += ", root " + std::to_string(root);
  return out;
}

}  // namespace

bool comparesPairs(plan::Collective collective) {
  switch (collective) {
    case plan::Collective::kAllToAllV:
    case plan::Collective::kGatherV:
    case plan::Collective::kScatterV:
    case plan::Collective::kSendReceive: return true;
    default: return false;
  }
}

uint64_t fingerprintOf(const Call& call, uint64_t before) {
  uint64_t h = mix64((call.sequence + 0x9e3779b97f4a7c15u) ^ before);
  h = mix64(h ^ (comparesPairs(call.shape.collective) ? 0 : call.shape.count) ^ call.counts);
  const uint64_t kind = uint64_t{static_cast<uint8_t>(call.shape.collective)} << 48 |
                        uint64_t{static_cast<uint8_t>(call.shape.type)} << 40 |
                        uint64_t{static_cast<uint8_t>(call.shape.op)} << 32 |
                        static_cast<uint32_t>(call.shape.root);
  return mix64(h ^ kind);
}

base::BoardEntry boardEntryOf(const Call& call, uint64_t fingerprint) {
  return {call.sequence,
          fingerprint,
          call.shape.count,
          static_cast<uint32_t>(call.shape.collective),
          static_cast<uint32_t>(call.shape.type),
          static_cast<uint32_t>(call.shape.op),
          call.shape.root};
}

std::string describe(const Call& call) {
  return text(call.sequence, static_cast<uint32_t>(call.shape.collective), call.shape.count,
              static_cast<uint32_t>(call.shape.type), static_cast<uint32_t>(call.shape.op),
              call.shape.root);
}

std::string describe(const base::BoardEntry& entry) {
  return text(entry.sequence, entry.collective, entry.count, entry.type, entry.op, entry.root);
}

}  // namespace omnes::core
