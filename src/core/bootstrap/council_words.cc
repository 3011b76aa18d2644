#include "core/bootstrap/council_words.h"

#include <algorithm>

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Result;
using base::Status;

void appendU32(std::string* out, uint32_t value) {
  uint8_t bytes[4];
  putLe<uint32_t>(bytes, value);
  out->append(reinterpret_cast<const char*>(bytes), sizeof bytes);
}

void appendList(std::string* out, const std::vector<uint32_t>& ranks) {
  appendU32(out, static_cast<uint32_t>(ranks.size()));
  for (const uint32_t rank : ranks) appendU32(out, rank);
}

Status badForm() {
  return Status(Code::kRemoteError, "another rank sent a message that makes no sense");
}

// Takes values off the front of a payload; `isGood` stays false once one was missing.
struct Taker {
  std::string_view rest;
  bool isGood = true;

  std::string_view bytes(size_t count) {
    isGood = isGood && rest.size() >= count;
    if (!isGood) return {};
    const std::string_view taken = rest.substr(0, count);
    rest.remove_prefix(count);
    return taken;
  }
  uint32_t u32() {
    const std::string_view taken = bytes(4);
    return isGood ? getLe<uint32_t>(reinterpret_cast<const uint8_t*>(taken.data())) : 0;
  }
  std::vector<uint32_t> list(uint32_t nranks) {
    const uint32_t count = u32();
    isGood = isGood && count <= kMaxListedRanks && rest.size() >= size_t{4} * count;
    std::vector<uint32_t> ranks;
    for (uint32_t i = 0; isGood && i < count; ++i) {
      ranks.push_back(u32());
      const bool isAscending = i == 0 || ranks[i - 1] < ranks[i];
      isGood = isAscending && ranks[i] < nranks;
    }
    return ranks;
  }
};

}  // namespace

std::string CouncilReport::encode() const {
  std::string out;
  appendU32(&out, static_cast<uint32_t>(purpose.size()));
  out += purpose;
  appendList(&out, excluded);
  return out + blob;
}

Result<CouncilReport> CouncilReport::decode(std::string_view payload, uint32_t nranks) {
  Taker taker{payload};
  CouncilReport report;
  const uint32_t purposeBytes = taker.u32();
  if (purposeBytes > kMaxPurposeBytes) return badForm();
  report.purpose = taker.bytes(purposeBytes);
  report.excluded = taker.list(nranks);
  if (!taker.isGood || taker.rest.size() > kMaxCouncilBlobBytes) return badForm();
  report.blob = taker.rest;
  return report;
}

std::string CouncilDecision::encode() const {
  std::string out(reinterpret_cast<const char*>(nonce.data()), nonce.size());
  appendList(&out, excluded);
  return out;
}

Result<CouncilDecision> CouncilDecision::decode(std::string_view payload, uint32_t nranks) {
  Taker taker{payload};
  CouncilDecision decision;
  const std::string_view nonce = taker.bytes(kCouncilNonceBytes);
  decision.excluded = taker.list(nranks);
  if (!taker.isGood || !taker.rest.empty()) return badForm();
  std::copy(nonce.begin(), nonce.end(), decision.nonce.begin());
  return decision;
}

}  // namespace omnes::core::bootstrap
