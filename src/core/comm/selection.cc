#include "core/comm/selection.h"

#include <algorithm>

namespace omnes::core {
namespace {

using algorithms::Algorithm;
using base::Code;
using base::Status;

// Up to here every rank reads all contributions itself: one synchronisation instead of two, for (n
// - 1) times the reading. The slots of the exchange stream end here, too.
constexpr uint64_t kOneShotBytes = 16 << 10;
constexpr uint64_t kOneShotTotalBytes = 64 << 10;

// Algorithms whose sums run over the ranks in order, rounded once: the same bits whichever of them
// is chosen.
bool addsInRankOrder(std::string_view name) {
  return name == "oneshot" || name == "direct" || name == "linear";
}

std::string validNames() {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms::all())
    if (std::find(names.begin(), names.end(), algorithm.name) == names.end())
      names.push_back(algorithm.name);
  std::string out;
  for (const std::string_view name : names) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

}  // namespace

Status checkRules(const SelectionRules& rules) {
  if (rules.forced.empty()) return Status::ok();
  const auto all = algorithms::all();
  const bool known = std::any_of(all.begin(), all.end(),
                                 [&](const Algorithm& a) { return a.name == rules.forced; });
  if (!known)
    return Status(Code::kInvalidArgument,
                  "OMNES_ALGO \"" + rules.forced + "\" is no algorithm; valid: " + validNames());
  if (rules.deterministic && !addsInRankOrder(rules.forced) && rules.forced != "dissemination")
    return Status(Code::kInvalidUsage,
                  "OMNES_ALGO \"" + rules.forced +
                      "\" adds in an order of its own; unset it or the deterministic setting");
  return Status::ok();
}

std::vector<const Algorithm*> candidates(const SelectionRules& rules, const Shape& shape,
                                         const JobShape& job) {
  std::vector<std::string_view> names;
  if (!rules.forced.empty()) names.push_back(rules.forced);
  const uint64_t bytes = shape.count * base::sizeOf(shape.type);
  if (bytes <= kOneShotBytes &&
      bytes * static_cast<uint64_t>(job.nranks) <= kOneShotTotalBytes * 4) {
    // Each message over the network is work for both ends, and ranks that take turns do all of it
    // one after the other: then the fewest messages win, though they take a hop more. The bits are
    // the same.
    if (job.usesNetwork && job.sharesCores && job.nranks > 2) names.push_back("linear");
    names.push_back("oneshot");
  }
  for (const std::string_view name :
       {"direct", "circulant", "ring", "recursive_doubling", "dissemination"})
    if (!rules.deterministic || addsInRankOrder(name) ||
        shape.collective == plan::Collective::kBarrier)
      names.push_back(name);
  std::vector<const Algorithm*> out;
  for (const std::string_view name : names) {
    const Algorithm* algorithm = algorithms::find(shape.collective, name);
    if (algorithm != nullptr && std::find(out.begin(), out.end(), algorithm) == out.end() &&
        algorithm->supports({.rank = 0, .nranks = job.nranks, .root = shape.root}))
      out.push_back(algorithm);
  }
  return out;
}

}  // namespace omnes::core
