#include "matrix/case.h"

#include <algorithm>

namespace omnes::tests::matrix {
namespace {

using plan::Collective;

constexpr uint64_t kLargeBytes = (4 << 20) + 1;
constexpr uint64_t kOdd = 37;
constexpr uint64_t kPrime = 1009;

const char* nameOf(Size size) {
  switch (size) {
    case Size::kZero: return "0";
    case Size::kOne: return "1";
    case Size::kOdd: return "odd";
    case Size::kPrime: return "prime";
    case Size::kLarge: return "large";
  }
  return "?";
}

bool hasBlockForEachRank(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kBarrier:
    case Collective::kSendReceive: return false;
    default: return true;
  }
}

}  // namespace

std::string Group::text() const {
  return std::string(ranks == Ranks::kThreads ? "threads " : "processes ") +
         std::to_string(nranks) + " " + plan::nameOf(collective) + " " +
         (algorithm.empty() ? "chosen" : algorithm);
}

uint64_t Case::count() const {
  switch (size) {
    case Size::kZero: return 0;
    case Size::kOne: return 1;
    case Size::kOdd: return kOdd;
    case Size::kPrime: return kPrime;
    case Size::kLarge: break;
  }
  const uint64_t width = base::sizeOf(type);
  const uint64_t all = (kLargeBytes + width - 1) / width;
  return hasBlockForEachRank(group.collective)
             ? std::max<uint64_t>(1, all / static_cast<uint64_t>(group.nranks)) | 1
             : all;
}

int32_t Case::rootRank() const {
  if (!plan::hasRoot(group.collective)) return -1;
  switch (root) {
    case Root::kFirst: return 0;
    case Root::kLast: return group.nranks - 1;
    case Root::kMiddle: return group.nranks / 2;
  }
  return 0;
}

std::string Case::text() const {
  std::string out = group.text() + " " + std::string(base::nameOf(type));
  if (plan::isReduction(group.collective)) out += " " + std::string(base::nameOf(op));
  out += std::string(" count ") + nameOf(size) + " (" + std::to_string(count()) + ") offset " +
         std::to_string(static_cast<int>(offset));
  if (inPlace) out += " in place";
  if (rootRank() >= 0) out += " root " + std::to_string(rootRank());
  return out;
}

bool canBeInPlace(Collective collective) {
  switch (collective) {
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
    case Collective::kSendReceive:
    case Collective::kBarrier: return false;
    default: return true;
  }
}

bool mayBeLarge(int32_t nranks) { return nranks == 2 || nranks == 3 || nranks == 5 || nranks == 8; }

}  // namespace omnes::tests::matrix
