// Every SIMD body against the scalar reference, bit for bit, for every instruction set that runs
// here: lengths 0-130 and byte offsets 0-63, all marks, 1-17 sources, 1-4 sinks, streaming or not;
// nothing outside the operands is touched.
#include <gtest/gtest.h>

#include <cstdio>

#include "kernel_test_util.h"

namespace omnes::kernels::test {
namespace {

// One call with random operands, run by the scalar reference and by the function under test on
// equal copies.
class Trial {
 public:
  Trial(const Pair& pair, Random* random) : pair_(pair), random_(random) {
    reduction_.type = pair.type;
    reduction_.op = pair.op;
    reduction_.nranks =
        1 + static_cast<uint32_t>(random->below(random->below(8) == 0 ? 0xffffffffu : 20));
    reduction_.scalarBits = random->next();
  }

  // Operand i lies at `offsets(i)` bytes after a line boundary and has count elements.
  void run(ReduceFunction simd, ReduceFunction scalar, size_t sourceCount, size_t sinkCount,
           size_t count, size_t firstOffset, bool onlyInputs, bool inPlace) {
    makeOperands(sourceCount, sinkCount, count, firstOffset, onlyInputs, inPlace);
    call(scalar, &expected_);
    call(simd, &actual_);
    ASSERT_EQ(expected_.size(), actual_.size());
    if (std::memcmp(expected_.data(), actual_.data(), actual_.size()) != 0) reportDifference(count);
  }

 private:
  struct Operand {
    Mark mark;
    bool nonTemporal;
    size_t at;  // in the arena, from its first line boundary
  };
  static constexpr size_t kGuard = 64;

  size_t place(size_t bytes, size_t offset) {
    const size_t at = (end_ + kGuard + 63) / 64 * 64 + offset;
    end_ = at + bytes;
    return at;
  }
  Mark randomMark(bool onlyInputs) {
    return !onlyInputs && random_->below(2) == 0 ? Mark::kPartial : Mark::kInput;
  }

  void makeOperands(size_t sourceCount, size_t sinkCount, size_t count, size_t firstOffset,
                    bool onlyInputs, bool inPlace) {
    sources_.clear();
    sinks_.clear();
    end_ = 0;
    for (size_t s = 0; s < sourceCount; ++s) {
      const Mark mark = randomMark(onlyInputs);
      const size_t offset = s == 0 ? firstOffset : random_->below(64);
      sources_.push_back({mark, false, place(count * widthOf(pair_, mark), offset)});
    }
    for (size_t s = 0; s < sinkCount; ++s) {
      const Mark mark = randomMark(onlyInputs);
      const bool nonTemporal = random_->below(2) == 0;
      const size_t offset = random_->below(4) == 0 ? 0 : (firstOffset + s) % 64;
      sinks_.push_back({mark, nonTemporal, place(count * widthOf(pair_, mark), offset)});
    }
    if (inPlace) {
      const Operand& source = sources_[random_->below(sourceCount)];
      sinks_[0].mark = source.mark;
      sinks_[0].at = source.at;
    }
    image_.resize(end_ + kGuard + 64);
    random_->fill(image_.data(), image_.size());
    sprinkleSpecials(count);
  }

  // Random bits hardly ever give zeros, infinities, NaNs and subnormals in the wide types.
  void sprinkleSpecials(size_t count) {
    for (const Operand& source : sources_) {
      const DataType type =
          source.mark == Mark::kPartial ? base::wireType(pair_.type, pair_.op) : pair_.type;
      if (!base::isFloat(type)) continue;
      static constexpr float kSpecials[] = {0.0f,  -0.0f,  1e-40f,   -1e-45f, 1.0f,
                                            3e38f, -3e38f, 65519.0f, 0.5f};
      const size_t width = base::sizeOf(type);
      for (size_t i = 0; i < count; ++i) {
        uint8_t value[8];
        const uint64_t kind = random_->below(16);
        if (kind < 9) {
          fromFloat32(type, &kSpecials[kind], value, 1);
        } else if (kind < 11) {
          const float special = kind == 9 ? __builtin_inff() : -__builtin_inff();
          fromFloat32(type, &special, value, 1);
        } else if (kind == 11 && width > 2) {
          std::memset(value, 0xff, sizeof(value));
        } else {
          continue;
        }
        std::memcpy(&image_[source.at + i * width], value, width);
      }
    }
  }

  void call(ReduceFunction function, std::vector<uint8_t>* arena) {
    arena->assign(image_.begin(), image_.end());
    // The vector's own alignment is unknown: shift so that `at` 0 is a line boundary.
    arena->resize(image_.size() + 64);
    const size_t shift = (64 - reinterpret_cast<uintptr_t>(arena->data()) % 64) % 64;
    std::memmove(arena->data() + shift, arena->data(), image_.size());
    uint8_t* base = arena->data() + shift;
    std::vector<Source> sources;
    for (const Operand& source : sources_) sources.push_back({base + source.at, source.mark});
    std::vector<Sink> sinks;
    for (const Operand& sink : sinks_)
      sinks.push_back({base + sink.at, sink.mark, sink.nonTemporal});
    function(reduction_, sources.data(), sources.size(), sinks.data(), sinks.size(), elements_);
    arena->erase(arena->begin(), arena->begin() + static_cast<ptrdiff_t>(shift));
    arena->resize(image_.size());
  }

  void reportDifference(size_t count) {
    for (size_t i = 0; i < actual_.size(); ++i) {
      if (expected_[i] == actual_[i]) continue;
      for (size_t s = 0; s < sinks_.size(); ++s) {
        const size_t width = widthOf(pair_, sinks_[s].mark);
        if (i < sinks_[s].at || i >= sinks_[s].at + count * width) continue;
        ADD_FAILURE() << nameOf(pair_) << " " << targetName() << ": sink " << s << " of "
                      << sinks_.size() << (sinks_[s].mark == Mark::kPartial ? " partial" : " input")
                      << " element " << (i - sinks_[s].at) / width << " of " << count << " sources "
                      << sources_.size();
        return;
      }
      ADD_FAILURE() << nameOf(pair_) << " " << targetName() << ": byte " << i
                    << " is outside every sink";
      return;
    }
  }

 public:
  size_t elements_ = 0;

 private:
  Pair pair_;
  Random* random_;
  Reduction reduction_;
  std::vector<Operand> sources_;
  std::vector<Operand> sinks_;
  size_t end_ = 0;
  std::vector<uint8_t> image_;
  std::vector<uint8_t> expected_;
  std::vector<uint8_t> actual_;
};

#ifdef OMNES_LIGHT_TEST
constexpr size_t kOffsetStep = 7;  // all offsets still come up, with some of the counts
#else
constexpr size_t kOffsetStep = 1;
#endif

class SimdTest : public ::testing::TestWithParam<Pair> {};

TEST_P(SimdTest, EveryTargetEqualsTheScalarReference) {
  const Pair pair = GetParam();
  constexpr uint64_t kSeed = 20240601;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  const ReduceFunction scalar = scalarReduce(pair.type, pair.op);
  forEachTarget([&](const char* name) {
    SCOPED_TRACE(name);
    const ReduceFunction simd = selectReduce(pair.type, pair.op);
    ASSERT_NE(simd, nullptr);
    Random random(kSeed);
    for (size_t count = 0; count <= 130; ++count) {
      for (size_t offset = count % kOffsetStep; offset < 64; offset += kOffsetStep) {
        Trial trial(pair, &random);
        trial.elements_ = count;
        const size_t sources = 1 + (count + offset) % 4;
        trial.run(simd, scalar, sources, 1 + offset % 2, count, offset, offset % 3 != 0,
                  offset % 5 == 0);
        if (HasFailure()) return;
      }
    }
    for (size_t sources = 1; sources <= 17; ++sources) {
      for (size_t sinks = 1; sinks <= 4; ++sinks) {
        for (int repeat = 0; repeat < 4; ++repeat) {
          Trial trial(pair, &random);
          trial.elements_ = 200 + random.below(repeat == 3 ? 5500 : 1500);
          trial.run(simd, scalar, sources, sinks, trial.elements_, random.below(64), repeat < 2,
                    repeat % 2 == 1);
          if (HasFailure()) return;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Pairs, SimdTest, ::testing::ValuesIn(allPairs()), ParamName());

}  // namespace
}  // namespace omnes::kernels::test
