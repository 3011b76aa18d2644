// One call of a collective, as the matrix plays it on every rank.
#pragma once

#include <cstdint>
#include <string>

#include "base/types.h"
#include "plan/plan.h"

namespace omnes::tests::matrix {

// What the ranks of a case are.
enum class Ranks : uint8_t { kThreads, kProcesses };

// Cases of a group share a communicator.
struct Group {
  Ranks ranks = Ranks::kThreads;
  int32_t nranks = 1;
  plan::Collective collective = plan::Collective::kAllReduce;
  std::string algorithm;  // empty: the library chooses
  // "threads 5 AllReduce ring"
  std::string text() const;
  bool operator==(const Group&) const = default;
};

// How many elements a case has, per rank where the collective has a block for each.
enum class Size : uint8_t { kZero, kOne, kOdd, kPrime, kLarge };
inline constexpr int kSizes = 5;

// Where the buffers begin, in elements from a multiple of 64 bytes.
enum class Offset : uint8_t { kNone, kSend, kReceive, kBoth };
inline constexpr int kOffsets = 4;

enum class Root : uint8_t { kFirst, kLast, kMiddle };
inline constexpr int kRoots = 3;

struct Case {
  Group group;
  base::DataType type = base::DataType::kFloat32;
  base::ReduceOp op = base::ReduceOp::kSum;  // of reductions
  Size size = Size::kOne;
  Offset offset = Offset::kNone;
  bool inPlace = false;
  Root root = Root::kFirst;

  uint64_t count() const;
  int32_t rootRank() const;  // -1 without one
  std::string text() const;
};

bool canBeInPlace(plan::Collective collective);
// Large messages on few numbers of ranks only: what is moved grows with their square.
bool mayBeLarge(int32_t nranks);

}  // namespace omnes::tests::matrix
