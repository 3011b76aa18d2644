// What the kernel tests share: a generator of its own (so that inputs are the same on every
// machine), buffers whose ends are watched, and a walk over the instruction sets that this machine
// can run. Single-threaded.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "kernels/kernels.h"

namespace omnes::kernels::test {

using base::DataType;
using base::ReduceOp;

// splitmix64: 64 well-mixed bits a call from a counter.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) { return next() % bound; }
  void fill(void* data, size_t bytes) {
    auto* to = static_cast<uint8_t*>(data);
    for (; bytes >= 8; bytes -= 8, to += 8) {
      const uint64_t word = next();
      std::memcpy(to, &word, 8);
    }
    const uint64_t word = next();
    std::memcpy(to, &word, bytes);
  }

 private:
  uint64_t state_;
};

// Calls visit(name) once with each instruction set that is compiled in and can run here as the
// chosen one, then restores the normal choice. selectReduce() inside visit gives that set's
// functions.
template <typename Visitor>
void forEachTarget(Visitor visit) {
  std::set<std::string> seen;
  const int64_t all = hwy::SupportedTargets();
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((all & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    if (seen.insert(targetName()).second) visit(targetName());
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Pages whose last byte is the last one that may be touched: what follows is PROT_NONE. Owns the
// mapping.
class EndOfPage {
 public:
  explicit EndOfPage(size_t capacity) {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (capacity + page_ - 1) / page_ * page_;
    base_ = static_cast<uint8_t*>(mmap(nullptr, size_ + 2 * page_, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_, page_, PROT_NONE);
    mprotect(base_ + page_ + size_, page_, PROT_NONE);
  }
  ~EndOfPage() { munmap(base_, size_ + 2 * page_); }
  EndOfPage(const EndOfPage&) = delete;
  EndOfPage& operator=(const EndOfPage&) = delete;
  // `bytes` bytes that end at the forbidden page.
  uint8_t* ending(size_t bytes) const { return base_ + page_ + size_ - bytes; }
  // The first byte after the forbidden page in front.
  uint8_t* begin() const { return base_ + page_; }

 private:
  size_t page_;
  size_t size_;
  uint8_t* base_;
};

// Every pair that is defined, in the order of the two tables.
struct Pair {
  DataType type;
  ReduceOp op;
};
inline std::vector<Pair> allPairs() {
  std::vector<Pair> pairs;
  for (DataType type : base::kAllDataTypes) {
    for (ReduceOp op : base::kAllReduceOps) {
      if (base::isDefined(type, op)) pairs.push_back({type, op});
    }
  }
  return pairs;
}
inline std::string nameOf(const Pair& pair) {
  return std::string(base::nameOf(pair.type)) + "/" + std::string(base::nameOf(pair.op));
}

// "bfloat16_sum": the suffix of a parametrised test.
struct ParamName {
  template <typename ParamInfo>
  std::string operator()(const ParamInfo& param) const {
    return std::string(base::nameOf(param.param.type)) + "_" +
           std::string(base::nameOf(param.param.op));
  }
};

inline size_t wireSize(const Pair& pair) {
  return base::sizeOf(base::wireType(pair.type, pair.op));
}
inline size_t widthOf(const Pair& pair, Mark mark) {
  return mark == Mark::kPartial ? wireSize(pair) : base::sizeOf(pair.type);
}

// One operand, one result, all inputs: what most tests need.
template <typename T>
std::vector<T> reduceInputs(ReduceFunction function, const Reduction& reduction,
                            const std::vector<std::vector<T>>& inputs) {
  std::vector<Source> sources;
  for (const auto& input : inputs) sources.push_back({input.data(), Mark::kInput});
  std::vector<T> result(inputs[0].size());
  const Sink sink{result.data(), Mark::kInput, false};
  function(reduction, sources.data(), sources.size(), &sink, 1, result.size());
  return result;
}

}  // namespace omnes::kernels::test
