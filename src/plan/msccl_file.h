// MSCCL's XML as it is written, before anything is made of it. Private to src/plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace omnes::plan::msccl {

enum class Action : uint8_t { kNop, kSend, kReceive, kCopy, kReduce, kRrc, kRcs, kRrs, kRrcs };

constexpr bool receives(Action action) {
  return action == Action::kReceive || action >= Action::kRrc;
}
constexpr bool sends(Action action) {
  return action == Action::kSend || action == Action::kRcs || action == Action::kRrs ||
         action == Action::kRrcs;
}
// Whether it adds what is in its source buffer.
constexpr bool reduces(Action action) {
  return action == Action::kReduce || action == Action::kRrc || action == Action::kRrs ||
         action == Action::kRrcs;
}
constexpr bool reads(Action action) {
  return reduces(action) || action == Action::kSend || action == Action::kCopy;
}
constexpr bool writes(Action action) {
  return action != Action::kNop && action != Action::kSend && action != Action::kRrs;
}

// A place in a rank's buffers: 'i', 'o' or 's', and which chunk of it.
struct Spot {
  char buffer = 'i';
  int32_t offset = 0;
  auto operator<=>(const Spot&) const = default;
};

struct XmlStep {
  Action action = Action::kNop;
  Spot source;
  Spot sink;
  int32_t count = 1;
  int32_t dependsOnBlock = -1;  // index in XmlRank::blocks of the thread block, -1: on none
  int32_t dependsOnStep = -1;
  int line = 0;
};

struct ThreadBlock {
  int32_t id = 0;
  int32_t sendTo = -1;
  int32_t receiveFrom = -1;
  int32_t channel = 0;
  std::vector<XmlStep> steps;
};

struct XmlRank {
  int32_t inputs = 0;
  int32_t outputs = 0;
  int32_t scratch = 0;
  std::vector<ThreadBlock> blocks;
};

struct Algorithm {
  std::string name;
  Collective collective = Collective::kAllReduce;
  bool inPlace = false;
  std::vector<XmlRank> ranks;
};

// "MSCCL XML: line 7, gpu 1, tb 0, step 3: text".
base::Status bad(int line, const std::string& place, const std::string& text);
std::string placeOf(size_t rank, const ThreadBlock& block, size_t step);

// Every number in range, every reference to something that is there.
base::Result<Algorithm> parse(std::string_view text);

}  // namespace omnes::plan::msccl
