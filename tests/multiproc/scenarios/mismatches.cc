// C23: one call in which the last rank differs in one thing; outputs must stay untouched.
#include <algorithm>
#include <string>

#include "multiproc/scenarios/scenario.h"

namespace omnes::tests::scenarios {
namespace {

enum class What { kCount, kSmall, kSlices, kManySlices, kType, kOp, kOrder, kCollective };

constexpr size_t kCount = 409600;
constexpr size_t kManyCount = 32768000;

struct Call {
  size_t count = kCount;
  omnesDataType_t type = omnesFloat32;
  omnesRedOp_t op = omnesSum;
};

Call callOf(What what, bool isOdd) {
  Call call;
  if (what == What::kSmall) call.count = isOdd ? 98 : 100;
  if (!isOdd) return call;
  if (what == What::kCount) call.count = 409598;
  if (what == What::kSlices) call.count = 2 * kCount;
  if (what == What::kManySlices) call.count = kManyCount;
  if (what == What::kType) call.type = omnesFloat16;
  if (what == What::kOp) call.op = omnesMax;
  return call;
}

template <What what>
int mismatch(const Rank& rank) {
  const Call call = callOf(what, rank.isLast());
  const Buffer in(std::max(kCount, call.count)), out(std::max(kCount, call.count), kPoison);
  // One good call first, so that sequence numbers are not all 1.
  const Buffer warm(4);
  omnesResult_t result = allReduce(rank, in.data(), warm.data(), 4);
  say("running");
  const auto odd = [&] {
    if (rank.isLast() && what == What::kOrder) return omnesBarrier(rank.comm, nullptr);
    if (rank.isLast() && what == What::kCollective)
      return omnesReduceScatter(in.data(), out.data(), 16, omnesFloat32, omnesSum, rank.comm,
                                nullptr);
    return allReduce(rank, in.data(), out.data(), call.count, call.type, call.op);
  };
  if (result == omnesSuccess) result = odd();
  float* const end = out.data() + call.count;
  if (std::any_of(out.data(), end, [](float x) { return x != kPoison; }))
    return report(result, "the output was touched");
  // What failed stays failed, with the first cause.
  const std::string first = omnesGetLastError(rank.comm);
  const omnesResult_t again = allReduce(rank, in.data(), out.data(), call.count);
  if (again != result || first != omnesGetLastError(rank.comm))
    return report(again, "the first cause was not kept");
  omnesResult_t async = omnesSuccess;
  omnesCommGetAsyncError(rank.comm, &async);
  if (async != result) return report(async, "the asynchronous error differs");
  return report(result, first.c_str());
}

}  // namespace

std::span<const Scenario> mismatchScenarios() {
  static constexpr Scenario kTable[] = {
      {"mismatch-count", mismatch<What::kCount>},
      {"mismatch-small", mismatch<What::kSmall>},
      {"mismatch-slices", mismatch<What::kSlices>},
      {"mismatch-many-slices", mismatch<What::kManySlices>},
      {"mismatch-type", mismatch<What::kType>},
      {"mismatch-op", mismatch<What::kOp>},
      {"mismatch-order", mismatch<What::kOrder>},
      {"mismatch-collective", mismatch<What::kCollective>},
  };
  return kTable;
}

}  // namespace omnes::tests::scenarios
