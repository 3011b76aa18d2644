#include "core/comm/selection.h"

#include <algorithm>
#include <string_view>

namespace omnes::core {
namespace {

using algorithms::Algorithm;
using base::Code;
using base::Status;
using plan::Collective;

// Up to here every rank reads all contributions itself: one synchronisation instead of two, for (n
// - 1) times the reading. The slots of the exchange stream end here, too.
constexpr uint64_t kOneShotBytes = 16 << 10;
constexpr uint64_t kOneShotTotalBytes = 256 << 10;
// From here on (bytes of a whole vector, of all blocks) what joins the hosts is the bottleneck, and
// a plan that sends everything over it once is worth its additional steps.
constexpr uint64_t kHierarchicalBytes = 64 << 10;
// Up to here a block is so short that the messages of an all-to-all count, not their bytes.
constexpr uint64_t kShortBlockBytes = 4 << 10;
// From here on the bytes that a root sends or takes count, not its messages.
constexpr uint64_t kLongRootedBytes = 128 << 10;
// With more ranks than this, direct messages between all of them cost more than their bytes; with
// more than a few, those of one root.
constexpr int32_t kManyRanks = 16;
constexpr int32_t kFewRanks = 4;

bool addsAsWished(const SelectionRules& rules, const Algorithm& algorithm) {
  return !rules.deterministic || !plan::isReduction(algorithm.collective) ||
         algorithm.addsInRankOrder;
}

// The bytes of all blocks together.
uint64_t wholeBytes(const Shape& shape, int32_t nranks) {
  const uint64_t bytes = shape.count * base::sizeOf(shape.type);
  switch (shape.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast: return bytes;
    default: return bytes * static_cast<uint64_t>(nranks);
  }
}

// Up to kOneShotBytes, where it is about a round or two.
void preferForShort(const Shape& shape, const JobShape& job, std::vector<std::string_view>* names) {
  // Each message over the network is work for both ends, and ranks that take turns do all of it one
  // after the other: then the fewest messages win, though they take a hop more. The bits are the
  // same.
  const bool isAllReduce = shape.collective == Collective::kAllReduce;
  if (isAllReduce && job.usesNetwork && job.sharesCores && job.nranks > 2)
    names->push_back("linear");
  if (shape.collective != Collective::kReduceScatter) names->push_back("oneshot");
}

// All-reduce, reduce-scatter and all-gather.
void preferForAll(const Shape& shape, const JobShape& job, std::vector<std::string_view>* names) {
  const uint64_t bytes = shape.count * base::sizeOf(shape.type);
  if (bytes <= kOneShotBytes && bytes * static_cast<uint64_t>(job.nranks) <= kOneShotTotalBytes)
    preferForShort(shape, job, names);
  if (job.hasHosts() && wholeBytes(shape, job.nranks) >= kHierarchicalBytes)
    names->push_back("hierarchical");
  if (job.usesNetwork && job.nranks > kManyRanks) names->push_back("circulant");
  for (const std::string_view name : {"direct", "circulant", "ring"}) names->push_back(name);
  if (shape.collective == Collective::kAllReduce) names->push_back("recursive_doubling");
}

// From one rank to all, or from all to one. Within a host a multicast costs the root one write, and
// taking n contributions is one pass over them.
void preferForRooted(const Shape& shape, const JobShape& job,
                     std::vector<std::string_view>* names) {
  const bool isLong = wholeBytes(shape, job.nranks) >= kLongRootedBytes;
  const bool isWhole =
      shape.collective == Collective::kBroadcast || shape.collective == Collective::kReduce;
  if (isWhole && isLong && job.nranks > 2) {
    if (shape.collective == Collective::kReduce) names->push_back("reduce_scatter_gather");
    if (job.usesNetwork && shape.collective == Collective::kBroadcast)
      names->push_back("scatter_allgather");
  }
  const int32_t few = isWhole ? kFewRanks : kManyRanks;
  if (job.usesNetwork && !isLong && job.nranks > few) names->push_back("knomial4");
  names->push_back("direct");
}

void preferForAllToAll(const Shape& shape, const JobShape& job,
                       std::vector<std::string_view>* names) {
  const uint64_t bytes = shape.count * base::sizeOf(shape.type);
  if (job.hasHosts() && bytes <= kShortBlockBytes) names->push_back("hierarchical");
  for (const std::string_view name : {"direct", "ring"}) names->push_back(name);
}

// All algorithms of the collective, best first.
std::vector<const Algorithm*> ranked(const Shape& shape, const JobShape& job) {
  std::vector<const Algorithm*> out;
  const auto add = [&](const Algorithm* algorithm) {
    if (algorithm != nullptr && std::find(out.begin(), out.end(), algorithm) == out.end() &&
        algorithm->supports(job.request(0, shape.root)))
      out.push_back(algorithm);
  };
  for (const std::string_view name : preferredNames(shape, job))
    add(algorithms::find(shape.collective, name));
  for (const Algorithm& algorithm : algorithms::all())
    if (algorithm.collective == shape.collective) add(&algorithm);
  return out;
}

}  // namespace

std::vector<std::string_view> preferredNames(const Shape& shape, const JobShape& job) {
  std::vector<std::string_view> names;
  switch (shape.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather: preferForAll(shape, job, &names); break;
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kGather:
    case Collective::kScatter: preferForRooted(shape, job, &names); break;
    case Collective::kAllToAll: preferForAllToAll(shape, job, &names); break;
    case Collective::kBarrier:
      if (job.usesNetwork && job.nranks > kManyRanks) names.push_back("dissemination");
      names.push_back("direct");
      break;
    default: break;  // of one way only, or made of messages
  }
  return names;
}

Status checkRules(const SelectionRules& rules) {
  if (!rules.deterministic) return Status::ok();
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
    const AlgorithmChoice::List* list = rules.choice.of(collective);
    if (list == nullptr) continue;
    const auto named = list->algorithmsOf(collective);
    const bool isAny = std::any_of(named.begin(), named.end(), [](const Algorithm* algorithm) {
      return algorithm->addsInRankOrder;
    });
    if (!list->excludes && !named.empty() && !isAny)
      return Status(Code::kInvalidUsage, "OMNES_ALGO \"" + list->text() + "\" for " +
                                             plan::nameOf(collective) +
                                             " adds in an order of its own; unset it or the "
                                             "deterministic setting");
  }
  return Status::ok();
}

Candidates candidates(const SelectionRules& rules, const Shape& shape, const JobShape& job) {
  std::vector<const Algorithm*> usable = ranked(shape, job);
  std::erase_if(usable,
                [&](const Algorithm* algorithm) { return !addsAsWished(rules, *algorithm); });
  Candidates out;
  out.asked = usable.size();
  out.algorithms = usable;
  const AlgorithmChoice::List* list = rules.choice.of(shape.collective);
  if (list == nullptr) return out;

  const auto named = list->algorithmsOf(shape.collective);
  const auto isIn = [](const std::vector<const Algorithm*>& algorithms, const Algorithm* one) {
    return std::find(algorithms.begin(), algorithms.end(), one) != algorithms.end();
  };
  out.algorithms.clear();
  if (list->excludes) {
    for (const Algorithm* algorithm : usable)
      if (!isIn(named, algorithm)) out.algorithms.push_back(algorithm);
  } else {
    for (const Algorithm* algorithm : named)
      if (isIn(usable, algorithm)) out.algorithms.push_back(algorithm);
  }
  out.asked = out.algorithms.size();
  if (out.asked == 0 || (!list->excludes && out.asked < list->names.size()))
    out.refused = "OMNES_ALGO \"" + list->text() + "\" " +
                  (out.asked == 0 ? "leaves nothing" : "is not all there is") + " for " +
                  plan::nameOf(shape.collective) + " by " + std::to_string(job.nranks) +
                  " ranks; it has " + namesOfAlgorithms(shape.collective);
  for (const Algorithm* algorithm : usable)
    if (!isIn(out.algorithms, algorithm)) out.algorithms.push_back(algorithm);
  return out;
}

}  // namespace omnes::core
