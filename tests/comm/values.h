// Inputs, expected outputs and watched buffers for the tests of collectives. Pure functions and
// value types.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "omnes/omnes.h"
#include "plan/plan.h"

namespace omnes::tests {

using base::DataType;
using base::ReduceOp;
using Bytes = std::vector<uint8_t>;

inline omnesDataType_t apiType(DataType type) { return static_cast<omnesDataType_t>(type); }
inline omnesRedOp_t apiOp(ReduceOp op) { return static_cast<omnesRedOp_t>(op); }
// Every operator that a call can name for the type without creating it.
std::vector<ReduceOp> builtInOps(DataType type);
// The names of the registered algorithms of a collective.
std::vector<std::string> algorithmNames(plan::Collective collective);
// Whether it promises the sum over the ranks in order, rounded once, whatever the layout.
bool addsInRankOrder(plan::Collective collective, const std::string& algorithm);

// Any bits at all: NaNs, infinities and subnormals of float types among them.
Bytes randomBits(size_t bytes, uint64_t seed);
// Values whose sums depend on the order of the additions: magnitudes over some binades, both signs.
Bytes randomNumbers(DataType type, size_t count, uint64_t seed);
// Small integers, so that the sum of up to 64 ranks is exact in every type of 16 bits and more:
// 0..3 by rank and index.
Bytes smallIntegers(DataType type, size_t count, int rank);

// What the contributions of the ranks give when they are added in the order of the ranks and
// rounded once.
Bytes reducedInRankOrder(DataType type, ReduceOp op, const std::vector<Bytes>& inputs);

template <typename T>
Bytes bytesOf(const std::vector<T>& values) {
  Bytes out(values.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// Empty when equal, else where they differ first.
std::string difference(const uint8_t* got, const Bytes& expected);
inline std::string difference(const Bytes& got, const Bytes& expected) {
  return got.size() != expected.size() ? "the sizes differ" : difference(got.data(), expected);
}

// A buffer at a chosen offset from a multiple of 64, poisoned, with bytes on both sides that nobody
// may write.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes, size_t offset = 0);

  uint8_t* data() { return memory_.data() + start_; }
  size_t size() const { return bytes_; }
  void fill(const Bytes& bytes) {
    if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
  }
  // Whether the bytes around the buffer are as they were.
  bool isIntact() const;

 private:
  static constexpr size_t kGuardBytes = 128;
  static constexpr uint8_t kGuard = 0xc3;
  static constexpr uint8_t kPoison = 0x5a;

  size_t bytes_;
  size_t start_ = 0;
  Bytes memory_;
};

}  // namespace omnes::tests
