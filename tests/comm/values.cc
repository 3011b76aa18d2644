#include "comm/values.h"

#include <algorithm>

#include "algorithms/registry.h"
#include "kernels/kernels.h"

namespace omnes::tests {
namespace {

// splitmix64, so that inputs are the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace

std::vector<ReduceOp> builtInOps(DataType type) {
  std::vector<ReduceOp> out;
  for (const ReduceOp op : base::kAllReduceOps)
    if (op != ReduceOp::kPreMulSum && base::isDefined(type, op)) out.push_back(op);
  return out;
}

std::vector<std::string> algorithmNames(plan::Collective collective) {
  std::vector<std::string> out;
  for (const algorithms::Algorithm& algorithm : algorithms::all())
    if (algorithm.collective == collective) out.emplace_back(algorithm.name);
  return out;
}

bool addsInRankOrder(plan::Collective collective, const std::string& algorithm) {
  const algorithms::Algorithm* found = algorithms::find(collective, algorithm);
  return found != nullptr && found->addsInRankOrder;
}

Bytes randomBits(size_t bytes, uint64_t seed) {
  Random random(seed);
  Bytes out(bytes);
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t word = random.next();
    std::memcpy(out.data() + at, &word, std::min<size_t>(8, bytes - at));
  }
  return out;
}

Bytes randomNumbers(DataType type, size_t count, uint64_t seed) {
  if (!base::isFloat(type)) return randomBits(count * base::sizeOf(type), seed);
  Random random(seed);
  Bytes out(count * base::sizeOf(type));
  std::vector<float> floats(count);
  std::vector<double> doubles(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = random.next();
    const double fraction = 1.0 + static_cast<double>(bits >> 12) * 0x1p-52;
    const double scale = static_cast<double>(1 << (bits & 3)) / 4;
    doubles[i] = (bits & 4 ? -1 : 1) * fraction * scale;
    floats[i] = static_cast<float>(doubles[i]);
  }
  if (type == DataType::kFloat64) return bytesOf(doubles);
  kernels::fromFloat32(type, floats.data(), out.data(), count);
  return out;
}

Bytes smallIntegers(DataType type, size_t count, int rank) {
  const size_t width = base::sizeOf(type);
  Bytes out(count * width);
  std::vector<float> floats(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t value = (i * 5 + static_cast<size_t>(rank) * 3) % 7 % 4;
    floats[i] = static_cast<float>(value);
    if (!base::isFloat(type)) std::memcpy(out.data() + i * width, &value, width);
  }
  if (type == DataType::kFloat64) return bytesOf(std::vector<double>(floats.begin(), floats.end()));
  if (base::isFloat(type)) kernels::fromFloat32(type, floats.data(), out.data(), count);
  return out;
}

Bytes reducedInRankOrder(DataType type, ReduceOp op, const std::vector<Bytes>& inputs) {
  std::vector<kernels::Source> sources;
  for (const Bytes& input : inputs) sources.push_back({input.data(), kernels::Mark::kInput});
  Bytes out(inputs[0].size());
  const kernels::Sink sink{out.data(), kernels::Mark::kInput, false};
  const kernels::Reduction reduction{type, op, static_cast<uint32_t>(inputs.size()), 0};
  kernels::scalarReduce(type, op)(reduction, sources.data(), sources.size(), &sink, 1,
                                  out.size() / base::sizeOf(type));
  return out;
}

std::string difference(const uint8_t* got, const Bytes& expected) {
  if (expected.empty() || std::memcmp(got, expected.data(), expected.size()) == 0) return "";
  size_t at = 0, wrong = 0;
  for (size_t i = expected.size(); i-- > 0;)
    if (got[i] != expected[i]) at = i, ++wrong;
  return "byte " + std::to_string(at) + " of " + std::to_string(expected.size()) + " is " +
         std::to_string(got[at]) + " instead of " + std::to_string(expected[at]) + "; " +
         std::to_string(wrong) + " bytes differ";
}

GuardedBuffer::GuardedBuffer(size_t bytes, size_t offset)
    : bytes_(bytes), memory_(2 * kGuardBytes + 64 + offset + bytes, kGuard) {
  const auto base = reinterpret_cast<uintptr_t>(memory_.data()) + kGuardBytes;
  start_ = kGuardBytes + (64 - base % 64) % 64 + offset;
  if (bytes > 0) std::memset(data(), kPoison, bytes);
}

bool GuardedBuffer::isIntact() const {
  const auto isGuard = [](uint8_t byte) { return byte == kGuard; };
  return std::all_of(memory_.begin(), memory_.begin() + static_cast<ptrdiff_t>(start_), isGuard) &&
         std::all_of(memory_.begin() + static_cast<ptrdiff_t>(start_ + bytes_), memory_.end(),
                     isGuard);
}

}  // namespace omnes::tests
