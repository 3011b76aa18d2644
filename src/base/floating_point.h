// The IEEE default floating-point mode: round to nearest even, subnormals kept, no traps.
//
// Results must have the same bits on every rank, so kernels must not run in a mode that an
// application has set (flush-to-zero by a library built with fast-math, say). Costs one register
// read when the mode already is the default.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace omnes::base {

// Sets the default mode of the calling thread and restores the former one on exit. Must be
// destroyed by the thread that made it, in reverse order of making.
class ScopedFloatingPointMode {
 public:
  ScopedFloatingPointMode() : saved_(read()) {
    if ((saved_ & kModeBits) != kDefault) [[unlikely]] {
      write(kDefault);
      isChanged_ = true;
    }
  }
  ~ScopedFloatingPointMode() {
    if (isChanged_) [[unlikely]]
      write(saved_);
  }
  ScopedFloatingPointMode(const ScopedFloatingPointMode&) = delete;
  ScopedFloatingPointMode& operator=(const ScopedFloatingPointMode&) = delete;

  // For good, for threads of our own.
  static void setDefault() { write(kDefault); }
  static bool isDefault() { return (read() & kModeBits) == kDefault; }

 private:
#if defined(__x86_64__)
  // MXCSR: the six low bits are sticky flags of what has happened, not mode.
  static constexpr uint64_t kModeBits = 0xffc0;
  static constexpr uint64_t kDefault =
      0x1f80;  // all exceptions masked, nearest even, no FTZ, no DAZ
  static uint64_t read() { return _mm_getcsr(); }
  static void write(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
  // FPCR holds mode only; the flags have a register of their own.
  static constexpr uint64_t kModeBits = 0x07ff9f07;
  static constexpr uint64_t kDefault = 0;
  static uint64_t read() {
    uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  static constexpr uint64_t kModeBits = 0;
  static constexpr uint64_t kDefault = 0;
  static uint64_t read() { return 0; }
  static void write(uint64_t) {}
#endif

  uint64_t saved_;
  bool isChanged_ = false;
};

}  // namespace omnes::base
