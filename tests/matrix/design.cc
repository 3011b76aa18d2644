#include "matrix/design.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "algorithms/registry.h"

namespace omnes::tests::matrix {
namespace {

using plan::Collective;

constexpr Collective kCollectives[] = {
    Collective::kAllReduce, Collective::kReduce,         Collective::kReduceScatter,
    Collective::kBroadcast, Collective::kAllGather,      Collective::kAllToAll,
    Collective::kGather,    Collective::kScatter,        Collective::kAllGatherV,
    Collective::kAllToAllV, Collective::kReduceScatterV, Collective::kGatherV,
    Collective::kScatterV,  Collective::kSendReceive,    Collective::kBarrier,
};
constexpr int32_t kMostThreads = 17;
constexpr int32_t kMoreThreads[] = {24, 32};
constexpr int32_t kMostProcesses = 8;

std::vector<int32_t> rankCounts(Ranks ranks) {
  std::vector<int32_t> out;
  const bool threads = ranks == Ranks::kThreads;
  for (int32_t n = threads ? 1 : 2; n <= (threads ? kMostThreads : kMostProcesses); ++n)
    out.push_back(n);
  if (threads) out.insert(out.end(), std::begin(kMoreThreads), std::end(kMoreThreads));
  return out;
}

// What can be forced, and the library's own choice.
std::vector<std::string> algorithmsOf(Collective collective) {
  std::vector<std::string> out = {""};
  for (const algorithms::Algorithm& algorithm : algorithms::all())
    if (algorithm.collective == collective) out.emplace_back(algorithm.name);
  return out;
}

// A barrier has no elements.
std::span<const base::DataType> typesOf(Collective collective) {
  const std::span<const base::DataType> all(base::kAllDataTypes);
  return collective == Collective::kBarrier ? all.first(1) : all;
}

std::vector<base::ReduceOp> operatorsOf(Collective collective, base::DataType type) {
  std::vector<base::ReduceOp> out;
  if (!plan::isReduction(collective)) return {base::ReduceOp::kSum};
  for (const base::ReduceOp op : base::kAllReduceOps)
    if (base::isDefined(type, op)) out.push_back(op);
  return out;
}

enum class Factor : uint8_t { kRanks, kAlgorithm, kType, kOp, kSize, kOffset, kInPlace, kRoot };
constexpr uint32_t kFactors = 8;
constexpr uint32_t kMostValues = 64;  // of a factor

// The values of a case by factor, as small numbers; kNone where the collective has no such factor.
constexpr uint32_t kNone = UINT32_MAX;
using Values = std::array<uint32_t, kFactors>;

template <typename Range, typename T>
uint32_t placeIn(const Range& range, const T& value) {
  return static_cast<uint32_t>(std::find(std::begin(range), std::end(range), value) -
                               std::begin(range));
}

Values valuesOf(const Case& c) {
  const Collective collective = c.group.collective;
  const uint32_t ranks =
      static_cast<uint32_t>(c.group.nranks) + (c.group.ranks == Ranks::kThreads ? 0 : 40);
  return {ranks,
          placeIn(algorithmsOf(collective), c.group.algorithm),
          placeIn(base::kAllDataTypes, c.type),
          plan::isReduction(collective) ? placeIn(base::kAllReduceOps, c.op) : kNone,
          static_cast<uint32_t>(c.size),
          static_cast<uint32_t>(c.offset),
          canBeInPlace(collective) ? static_cast<uint32_t>(c.inPlace) : kNone,
          plan::hasRoot(collective) ? static_cast<uint32_t>(c.root) : kNone};
}

// Collective, both factors and both values in one number.
void addPairs(const Case& c, std::set<uint32_t>* out) {
  const Values values = valuesOf(c);
  for (uint32_t a = 0; a < kFactors; ++a)
    for (uint32_t b = a + 1; b < kFactors; ++b) {
      if (values[a] == kNone || values[b] == kNone) continue;
      uint32_t number = placeIn(kCollectives, c.group.collective);
      for (const uint32_t part : {a, b}) number = number * kFactors + part;
      for (const uint32_t part : {values[a], values[b]}) number = number * kMostValues + part;
      out->insert(number);
    }
}

uint32_t tripleOf(const Case& c) {
  const Values values = valuesOf(c);
  uint32_t number = placeIn(kCollectives, c.group.collective);
  for (const Factor factor : {Factor::kAlgorithm, Factor::kType, Factor::kOp}) {
    const uint32_t value = values[static_cast<size_t>(factor)];
    number = number * kMostValues + (value == kNone ? 0 : value);
  }
  return number;
}

bool isPossible(const Case& c) {
  if (c.group.collective == Collective::kBarrier &&
      (c.size != Size::kZero || c.offset != Offset::kNone || c.inPlace))
    return false;
  if (plan::isReduction(c.group.collective) && !base::isDefined(c.type, c.op)) return false;
  if (!plan::hasRoot(c.group.collective) && c.root != Root::kFirst) return false;
  if (c.size == Size::kLarge && !mayBeLarge(c.group.nranks)) return false;
  if (c.inPlace && !canBeInPlace(c.group.collective)) return false;
  // In place there is one buffer.
  return !c.inPlace || c.offset == Offset::kNone || c.offset == Offset::kBoth;
}

// The pairs and triples that there are at all. Which values can meet depends on the number of ranks
// only through whether there are large messages.
struct Possible {
  std::set<uint32_t> pairs, triples;

  Possible() {
    for (const Group& group : allGroups())
      for (const base::DataType type : typesOf(group.collective))
        for (const base::ReduceOp op : operatorsOf(group.collective, type)) {
          add({group, type, op, Size::kZero, Offset::kNone, false, Root::kFirst});
          const bool isFirstOp = op == base::ReduceOp::kSum;
          if (isFirstOp || type == base::DataType::kInt8) addRest(group, type, op);
        }
  }
  static const Possible& get() {
    static const Possible possible;
    return possible;
  }

 private:
  void add(const Case& c) {
    if (!isPossible(c)) return;
    addPairs(c, &pairs);
    triples.insert(tripleOf(c));
  }
  void addRest(const Group& group, base::DataType type, base::ReduceOp op) {
    // The rest of the factors without the number of ranks, once; with it, for one type.
    const bool isRepresentative = group.ranks == Ranks::kThreads && (group.nranks == 2);
    if (!isRepresentative && (type != base::DataType::kInt8 || op != base::ReduceOp::kSum)) return;
    for (int size = 0; size < kSizes; ++size)
      for (int offset = 0; offset < kOffsets; ++offset)
        for (const bool inPlace : {false, true})
          for (int root = 0; root < kRoots; ++root)
            add({group, type, op, static_cast<Size>(size), static_cast<Offset>(offset), inPlace,
                 static_cast<Root>(root)});
  }
};

uint64_t hashOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : text) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
  return hash ^ (hash >> 29);
}

// How many values the factors of a case have, those of its group aside.
constexpr std::array<uint32_t, kFactors> kValues = {
    0, 0,     std::size(base::kAllDataTypes), std::size(base::kAllReduceOps), kSizes, kOffsets,
    2, kRoots};

struct Fixed {
  size_t factor;
  uint32_t value;
};

void set(Case* c, const Fixed& fixed) {
  switch (static_cast<Factor>(fixed.factor)) {
    case Factor::kType: c->type = base::kAllDataTypes[fixed.value]; break;
    case Factor::kOp: c->op = base::kAllReduceOps[fixed.value]; break;
    case Factor::kSize: c->size = static_cast<Size>(fixed.value); break;
    case Factor::kOffset: c->offset = static_cast<Offset>(fixed.value); break;
    case Factor::kInPlace: c->inPlace = fixed.value == 1; break;
    case Factor::kRoot: c->root = static_cast<Root>(fixed.value); break;
    default: break;
  }
}

bool addsPairs(const Case& c, const std::set<uint32_t>& seen) {
  std::set<uint32_t> pairs;
  addPairs(c, &pairs);
  return !std::includes(seen.begin(), seen.end(), pairs.begin(), pairs.end());
}

// Lets the factors of a group's cases go around, from a start of its own, in strides that have no
// common factor, so that their combinations come up evenly.
class Turns {
 public:
  explicit Turns(const Group& group) : group_(group), turn_(hashOf(group.text())) {}

  Case next(base::DataType type, base::ReduceOp op) {
    Case c;
    do {
      ++turn_;
      c = {group_,
           type,
           op,
           static_cast<Size>(turn_ % kSizes),
           static_cast<Offset>(turn_ / kSizes % kOffsets),
           turn_ / (kSizes * kOffsets) % 2 == 1,
           static_cast<Root>(plan::hasRoot(group_.collective) ? turn_ % kRoots : 0)};
    } while (!isPossible(c));
    return c;
  }
  // A case with these two values; empty when they cannot meet.
  std::optional<Case> with(const Fixed& a, const Fixed& b) {
    // Every type has a sum, and every operator is defined for integers.
    Case c = next(base::DataType::kInt32, base::ReduceOp::kSum);
    for (const bool isPlain : {false, true}) {
      if (isPlain) c.inPlace = false, c.offset = Offset::kNone, c.size = Size::kOne;
      set(&c, a);
      set(&c, b);
      if (isPossible(c)) return c;
    }
    return std::nullopt;
  }

 private:
  const Group& group_;
  uint64_t turn_;
};

}  // namespace

std::vector<Group> allGroups() {
  std::vector<Group> out;
  for (const Ranks ranks : {Ranks::kThreads, Ranks::kProcesses})
    for (const int32_t nranks : rankCounts(ranks))
      for (const Collective collective : kCollectives)
        for (const std::string& algorithm : algorithmsOf(collective))
          out.push_back({ranks, nranks, collective, algorithm});
  return out;
}

std::vector<Case> casesOf(const Group& group, int repeats) {
  if (group.collective == Collective::kBarrier)
    return {{group, base::kAllDataTypes[0], base::ReduceOp::kSum, Size::kZero, Offset::kNone, false,
             Root::kFirst}};
  Turns turns(group);
  std::vector<Case> out;
  std::set<uint32_t> seen;
  const auto play = [&](const Case& c) {
    addPairs(c, &seen);
    out.push_back(c);
  };
  for (int repeat = 0; repeat < repeats; ++repeat)
    for (const base::DataType type : typesOf(group.collective))
      for (const base::ReduceOp op : operatorsOf(group.collective, type))
        play(turns.next(type, op));
  // What has not met yet.
  for (size_t a = static_cast<size_t>(Factor::kType); a < kFactors; ++a)
    for (size_t b = a + 1; b < kFactors; ++b)
      for (uint32_t va = 0; va < kValues[a]; ++va)
        for (uint32_t vb = 0; vb < kValues[b]; ++vb) {
          const std::optional<Case> c = turns.with({a, va}, {b, vb});
          if (c && addsPairs(*c, seen)) play(*c);
        }
  return out;
}

void Coverage::add(const Case& c) {
  addPairs(c, &pairs_);
  triples_.insert(tripleOf(c));
}

Coverage::Count Coverage::pairs() const { return {pairs_.size(), Possible::get().pairs.size()}; }
Coverage::Count Coverage::triples() const {
  return {triples_.size(), Possible::get().triples.size()};
}

std::string Coverage::firstMissing() const {
  for (const uint32_t number : Possible::get().pairs) {
    if (pairs_.contains(number)) continue;
    uint32_t rest = number;
    uint32_t parts[4];
    for (int i = 3; i >= 0; --i) {
      const uint32_t base = i >= 2 ? kMostValues : kFactors;
      parts[i] = rest % base;
      rest /= base;
    }
    return std::string(plan::nameOf(kCollectives[rest])) + ", factor " + std::to_string(parts[0]) +
           " value " + std::to_string(parts[2]) + " with factor " + std::to_string(parts[1]) +
           " value " + std::to_string(parts[3]);
  }
  for (const uint32_t number : Possible::get().triples)
    if (!triples_.contains(number)) return "triple " + std::to_string(number);
  return "";
}

}  // namespace omnes::tests::matrix
