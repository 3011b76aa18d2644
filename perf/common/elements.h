// The element types and operators that the binaries can run, with the names of nccl-tests, and
// exact conversion between numbers and the bits of each type.
//
// The conversions are written apart from the library's kernels on purpose: they judge them. Thread
// safety: constant tables and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "omnes/omnes.h"

namespace omnes::perf {

enum class Kind : uint8_t { kSigned, kUnsigned, kFloat };

struct TypeInfo {
  omnesDataType_t type;
  const char* name;   // as nccl-tests prints it
  const char* alias;  // also accepted
  unsigned bytes;
  Kind kind;
  // Floats only: significant bits (hidden one included), exponents of the smallest normal and the
  // largest number.
  int precision;
  int lowestExponent;
  int highestExponent;
  double largest;

  bool isFloat() const { return kind == Kind::kFloat; }
  uint64_t mask() const { return bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1; }
};

enum class Op : uint8_t { kSum, kProd, kMin, kMax, kAvg, kMulSum, kBand, kBor, kBxor, kNone };

// All 14 types, in the order in which "-d all" runs them.
std::span<const TypeInfo> allTypes();
// All operators, in the order in which "-o all" runs them.
std::span<const Op> allOps();

const char* opName(Op op);
// Bitwise operators exist for integers only.
bool isDefined(Op op, const TypeInfo& type);
// The library's value; mulsum has none (it is created per communicator).
omnesRedOp_t builtinOp(Op op);

// "all" or one name; nothing if unknown, with *problem listing the legal ones.
std::optional<std::vector<TypeInfo>> parseTypes(std::string_view text, std::string* problem);
std::optional<std::vector<Op>> parseOps(std::string_view text, std::string* problem);

// The number that the bits of a float type mean; not called for NaN and infinities.
long double decodeFloat(const TypeInfo& type, uint64_t bits);
// Whether the bits are a finite number of a float type.
bool isFinite(const TypeInfo& type, uint64_t bits);
// The bits of exactly this number; nothing if the type does not have it. -0 keeps its sign.
std::optional<uint64_t> encodeExact(const TypeInfo& type, long double value);
// How many representable numbers two finite floats are apart.
uint64_t ulpDistance(const TypeInfo& type, uint64_t a, uint64_t b);

}  // namespace omnes::perf
