#include "plan/proof_values.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "plan/text.h"

namespace omnes::plan::proof {
namespace {

using base::Status;

constexpr int64_t kMaxCells = int64_t{1} << 24;    // of one band
constexpr int64_t kMaxTouches = int64_t{1} << 30;  // blocks times operands of one slice: some 10 s
constexpr int64_t kMaxRankTouches = int64_t{1} << 24;  // the same of one rank

enum class State : uint8_t { kPoison, kContribution, kPartial, kFinished };

constexpr uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
// A contribution: its rank, or source * nranks + destination in an all-to-all.
int64_t contributionOf(const Plan& plan, int32_t source, int32_t destination) {
  return plan.collective == Collective::kAllToAll ? int64_t{source} * plan.nranks + destination
                                                  : source;
}

constexpr uint64_t leafHash(int64_t contribution) {
  return mix(static_cast<uint64_t>(contribution) + 0x9E3779B97F4A7C15u);
}
// A left fold, as the kernels do it: (a + b) + c is one expression whether it takes one step or
// two.
constexpr uint64_t foldHash(uint64_t sum, uint64_t next) {
  return (std::rotl(sum, 23) * 0xD6E8FEB86659FD93u) ^ mix(next + 0x632BE59BD9B4E019u);
}

// The multiset over at most 64 ranks, as far as "each exactly once" needs it.
struct ExactValue {
  uint64_t once = 0;   // ranks contained at least once
  uint64_t twice = 0;  // ranks contained more than once
  uint64_t hash = 0;
  State state = State::kPoison;

  static ExactValue contribution(int64_t rank) {
    return {uint64_t{1} << rank, 0, leafHash(rank), State::kContribution};
  }
  static ExactValue complete(int32_t nranks) {
    return {nranks == 64 ? ~uint64_t{0} : (uint64_t{1} << nranks) - 1, 0, 0, State::kFinished};
  }
  void add(const ExactValue& other) {
    twice |= other.twice | (once & other.once);
    once |= other.once;
    hash = foldHash(hash, other.hash);
  }
  State stateOf() const { return state; }
  void setState(State next) { state = next; }
  bool sameContributions(const ExactValue& other) const {
    return once == other.once && twice == other.twice;
  }
  std::string text(const Plan& plan) const {
    std::string text = "{";
    for (int32_t rank = 0; rank < plan.nranks; ++rank) {
      if (((once >> rank) & 1) == 0) continue;
      if (text.size() > 1) text += ",";
      text += std::to_string(rank);
      if (((twice >> rank) & 1) != 0) text += " (more than once)";
    }
    return text + "}";
  }
};

// The same by random weights. The state lives above the 61 bits of the sum.
struct WeighedValue {
  static constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
  uint64_t bits = 0;
  uint64_t hash = 0;

  static constexpr uint64_t weightOf(int64_t contribution) {
    return mix(mix(static_cast<uint64_t>(contribution) * 0x9E3779B97F4A7C15u +
                   0x5851F42D4C957F2Du)) %
           kPrime;
  }
  static WeighedValue contribution(int64_t contribution) {
    WeighedValue value{weightOf(contribution), leafHash(contribution)};
    value.setState(State::kContribution);
    return value;
  }
  static WeighedValue complete(int32_t nranks) {
    WeighedValue value;
    for (int32_t rank = 0; rank < nranks; ++rank) value.addWeight(weightOf(rank));
    return value;
  }
  void addWeight(uint64_t weight) {
    uint64_t sum = (bits & kPrime) + weight;
    sum = sum >= kPrime ? sum - kPrime : sum;
    bits = (bits & ~kPrime) | sum;
  }
  void add(const WeighedValue& other) {
    addWeight(other.bits & kPrime);
    hash = foldHash(hash, other.hash);
  }
  State stateOf() const { return static_cast<State>(bits >> 61); }
  void setState(State next) { bits = (bits & kPrime) | (static_cast<uint64_t>(next) << 61); }
  bool sameContributions(const WeighedValue& other) const {
    return (bits & kPrime) == (other.bits & kPrime);
  }
  std::string text(const Plan& plan) const {
    const bool hasPairs = plan.collective == Collective::kAllToAll;
    for (int32_t source = 0; source < plan.nranks; ++source) {
      for (int32_t to = 0; to < (hasPairs ? plan.nranks : 1); ++to) {
        if (weightOf(contributionOf(plan, source, to)) != (bits & kPrime)) continue;
        return "rank " + std::to_string(source) +
               (hasPairs ? " for rank " + std::to_string(to) : "");
      }
    }
    return "a set of contributions";
  }
};

const char* nameOf(State state) {
  switch (state) {
    case State::kPoison: return "uninitialised";
    case State::kContribution: return "an untouched contribution";
    case State::kPartial: return "a partial sum";
    case State::kFinished: return "a finished result";
  }
  return "?";
}

// Room for the values of chunks that are on their way, by size class.
template <typename Value>
class ChunkPool {
 public:
  uint32_t take(uint32_t count) {
    auto& free = free_[classOf(count)];
    if (!free.empty()) {
      const uint32_t place = free.back();
      free.pop_back();
      return place;
    }
    const auto place = static_cast<uint32_t>(values_.size());
    values_.resize(values_.size() + (size_t{1} << classOf(count)));
    return place;
  }
  void give(uint32_t place, uint32_t count) { free_[classOf(count)].push_back(place); }
  Value* at(uint32_t place) { return values_.data() + place; }

 private:
  static size_t classOf(uint32_t count) {
    return count < 2 ? 0 : static_cast<size_t>(std::bit_width(count - 1));
  }
  std::vector<Value> values_;
  std::vector<uint32_t> free_[33];
};

template <typename Value>
class Replay {
 public:
  Replay(const Program& program, const Matching& matching)
      : program_(program), matching_(matching), complete_(Value::complete(program.nranks())) {}

  Status run(bool* sameOrder);

 private:
  struct Thread {
    size_t base = 0;  // of its cells
    size_t outputs = 0;
  };

  Status checkSize() const;
  void prepareBand(int32_t low, int32_t high);
  Status runOperation(uint32_t number);
  void selectPositions(const Operation& operation);
  Status addSlice(uint32_t number, const Ref& source);
  Status addChunk(uint32_t number, const Ref& source, uint32_t in);
  Status consume(uint32_t number, const Ref& source, size_t position, const Value& value);
  Status put(uint32_t number, const Ref& sink, uint32_t out);
  Status finishBand(bool* sameOrder);
  Value* cell(const Plan& plan, Space space, int32_t block);
  int32_t extentAt(const Operation& operation, int32_t position) const {
    return operation.extents.at(position, program_.plans[0].blocks);
  }

  const Program& program_;
  const Matching& matching_;
  const Value complete_;
  int32_t low_ = 0;  // the band of extents at hand
  int32_t high_ = 0;
  std::vector<Thread> threads_;
  std::vector<Value> cells_;
  ChunkPool<Value> pool_;
  std::vector<uint32_t> placeOf_;      // per out
  std::vector<uint32_t> readersLeft_;  // per out
  std::vector<int32_t> positions_;     // of the operation's run that lie in the band
  std::vector<Value> result_;          // one for each position
  bool isFirst_ = true;                // no operand consumed yet
};

template <typename Value>
Status Replay<Value>::checkSize() const {
  int64_t total = 0;
  int64_t ofRank = 0;
  int32_t rank = 0;
  for (const Operation& operation : program_.operations) {
    if (operation.rank != rank) ofRank = 0;
    rank = operation.rank;
    const size_t refs =
        operation.step->sources.size() + operation.inCount + operation.step->sinks.size();
    const int64_t touches = int64_t{operation.extents.count} * static_cast<int64_t>(refs);
    total += touches;
    ofRank += touches;
    if (total > kMaxTouches || ofRank > kMaxRankTouches)
      return fail(program_, Property::kMemory, "too many blocks to touch in one slice");
  }
  return Status::ok();
}

template <typename Value>
Status Replay<Value>::run(bool* sameOrder) {
  Status status = checkSize();
  if (!status.isOk()) return status;
  const int32_t blocks = program_.plans[0].blocks;
  int64_t cellsAnExtent = 0;
  for (const Plan& plan : program_.plans) cellsAnExtent += 2 + plan.scratchBlocks / blocks;
  const auto width =
      static_cast<int32_t>(std::clamp<int64_t>(kMaxCells / cellsAnExtent, 1, blocks));
  for (int32_t low = 0; low < blocks; low += width) {
    prepareBand(low, std::min(blocks, low + width));
    for (uint32_t number : matching_.order) {
      status = runOperation(number);
      if (!status.isOk()) return status;
    }
    status = finishBand(sameOrder);
    if (!status.isOk()) return status;
  }
  return Status::ok();
}

template <typename Value>
void Replay<Value>::prepareBand(int32_t low, int32_t high) {
  low_ = low;
  high_ = high;
  const auto width = static_cast<size_t>(high - low);
  threads_.clear();
  size_t total = 0;
  for (const Plan& plan : program_.plans) {
    const size_t outputs = blockCount(plan, Space::kOutput) > 1
                               ? width
                               : static_cast<size_t>(blockCount(plan, Space::kOutput));
    threads_.push_back({total, outputs});
    total +=
        outputs + width * static_cast<size_t>((plan.scratchBlocks + plan.blocks - 1) / plan.blocks);
  }
  cells_.assign(total, Value());
  placeOf_.assign(program_.outs.size(), kNone);
  readersLeft_.assign(program_.outs.size(), 0);
  if (!program_.inPlace) return;
  for (const Plan& plan : program_.plans) {
    for (int32_t block = 0; block < blockCount(plan, Space::kOutput); ++block) {
      const int32_t extent = extentOf(plan, Space::kOutput, block);
      if (inPlaceAlias(plan, block) >= 0 && extent >= low && extent < high)
        *cell(plan, Space::kOutput, block) = Value::contribution(plan.rank);
    }
  }
}

// The cell of an output or scratch block whose extent lies in the band.
template <typename Value>
Value* Replay<Value>::cell(const Plan& plan, Space space, int32_t block) {
  const Thread& thread = threads_[static_cast<size_t>(plan.rank)];
  if (space == Space::kOutput) {
    const bool isAlone = blockCount(plan, Space::kOutput) == 1;
    return &cells_[thread.base +
                   (isAlone ? 0 : static_cast<size_t>(extentOf(plan, space, block) - low_))];
  }
  const auto width = static_cast<size_t>(high_ - low_);
  return &cells_[thread.base + thread.outputs + width * static_cast<size_t>(block / plan.blocks) +
                 static_cast<size_t>(block % plan.blocks - low_)];
}

template <typename Value>
void Replay<Value>::selectPositions(const Operation& operation) {
  positions_.clear();
  const Extents& extents = operation.extents;
  const Blocks walk{extents.first, extents.stride, program_.plans[0].blocks, extents.group,
                    extents.hop};
  int32_t extent = walk.first;
  for (int32_t position = 0; position < extents.count; ++position) {
    if (extent >= low_ && extent < high_) positions_.push_back(position);
    extent = walk.next(extent, position);
  }
}

template <typename Value>
Status Replay<Value>::runOperation(uint32_t number) {
  const Operation& operation = program_.operations[number];
  if (operation.step->kind != Step::Kind::kMove) return Status::ok();
  selectPositions(operation);
  if (positions_.empty()) return Status::ok();
  result_.assign(positions_.size(), Value());
  isFirst_ = true;
  uint32_t in = operation.firstIn;
  for (const Ref& source : operation.step->sources) {
    if (source.kind == Ref::Kind::kSlice) {
      Status status = addSlice(number, source);
      if (!status.isOk()) return status;
      isFirst_ = false;
      continue;
    }
    for (int32_t k = 0; k < source.run.count; ++k, ++in) {
      Status status = addChunk(number, source, in);
      if (!status.isOk()) return status;
      isFirst_ = false;
    }
  }
  uint32_t out = operation.firstOut;
  for (const Ref& sink : operation.step->sinks) {
    Status status = put(number, sink, sink.kind == Ref::Kind::kLink ? out++ : kNone);
    if (!status.isOk()) return status;
  }
  return Status::ok();
}

// Every operand of every block goes through here.
template <typename Value>
Status Replay<Value>::consume(uint32_t number, const Ref& source, size_t position,
                              const Value& value) {
  const Operation& operation = program_.operations[number];
  const State state = value.stateOf();
  const bool isPartial = source.mark == Mark::kPartial;
  const bool isRight = isPartial
                           ? state == State::kPartial
                           : state == State::kContribution ||
                                 (state == State::kFinished && operation.step->op == Op::kNone);
  if (!isRight) {
    const std::string where = nameOf(program_, number) + ": " + toText(source) + " extent " +
                              std::to_string(extentAt(operation, positions_[position]));
    if (state == State::kPoison)
      return fail(program_, Property::kMemory, where + " is uninitialised");
    return fail(program_, Property::kValues,
                where + ": expected " +
                    (isPartial ? nameOf(State::kPartial) : nameOf(State::kContribution)) +
                    ", found " + nameOf(state) + " of " + value.text(program_.plans[0]));
  }
  // PreMulSum scales and widens a contribution when it leaves its owner's input. From then on only
  // a reduction may take it, since whoever passes it on cannot tell it from a result.
  if (state == State::kContribution && operation.step->op == Op::kNone &&
      (source.kind == Ref::Kind::kLink || source.space != Space::kInput) &&
      isReduction(program_.plans[0].collective))
    return fail(program_, Property::kValues,
                nameOf(program_, number) + ": " + toText(source) +
                    " passes on another's contribution untouched; add it instead, also alone");
  if (isFirst_) {
    result_[position] = value;
  } else {
    result_[position].add(value);
  }
  return Status::ok();
}

template <typename Value>
Status Replay<Value>::addSlice(uint32_t number, const Ref& source) {
  const Operation& operation = program_.operations[number];
  const Plan& plan = program_.planOf(operation);
  const Blocks blocks = blocksOf(plan, source, operation.iteration);
  const bool hasPairs = plan.collective == Collective::kAllToAll;
  Value leaf = Value::contribution(contributionOf(plan, plan.rank, 0));
  int32_t block = blocks.first;
  int32_t at = 0;
  for (size_t i = 0; i < positions_.size(); ++i) {
    for (; at < positions_[i]; ++at) block = blocks.next(block, at);
    const Value* value = &leaf;
    if (source.space != Space::kInput) {
      value = cell(plan, source.space, block);
    } else if (const int32_t alias = cellOf(plan, program_.inPlace, Space::kInput, block);
               alias >= 0) {
      value = cell(plan, Space::kOutput, alias);
    } else if (hasPairs) {
      leaf = Value::contribution(contributionOf(plan, plan.rank, block));
    }
    Status status = consume(number, source, i, *value);
    if (!status.isOk()) return status;
  }
  return Status::ok();
}

template <typename Value>
Status Replay<Value>::addChunk(uint32_t number, const Ref& source, uint32_t in) {
  const uint32_t out = matching_.chunkOf[in];
  for (size_t i = 0; i < positions_.size(); ++i) {
    Status status = consume(number, source, i, pool_.at(placeOf_[out])[i]);
    if (!status.isOk()) return status;
  }
  if (--readersLeft_[out] == 0) pool_.give(placeOf_[out], static_cast<uint32_t>(positions_.size()));
  return Status::ok();
}

template <typename Value>
Status Replay<Value>::put(uint32_t number, const Ref& sink, uint32_t out) {
  const Operation& operation = program_.operations[number];
  const Plan& plan = program_.planOf(operation);
  if (operation.step->op == Op::kReduce) {
    const bool finishes = sink.mark == Mark::kInput;
    for (size_t i = 0; i < result_.size(); ++i) {
      if (finishes && !result_[i].sameContributions(complete_))
        return fail(program_, Property::kValues,
                    nameOf(program_, number) + ": " + toText(sink) + " extent " +
                        std::to_string(extentAt(operation, positions_[i])) + ": finishes " +
                        result_[i].text(program_.plans[0]) +
                        ", expected each contribution exactly once");
      result_[i].setState(finishes ? State::kFinished : State::kPartial);
    }
  }
  if (sink.kind == Ref::Kind::kLink) {
    placeOf_[out] = pool_.take(static_cast<uint32_t>(result_.size()));
    readersLeft_[out] = program_.links[program_.outs[out].link].readerCount;
    std::copy(result_.begin(), result_.end(), pool_.at(placeOf_[out]));
    return Status::ok();
  }
  const Blocks blocks = blocksOf(plan, sink, operation.iteration);
  int32_t block = blocks.first;
  int32_t at = 0;
  for (size_t i = 0; i < positions_.size(); ++i) {
    for (; at < positions_[i]; ++at) block = blocks.next(block, at);
    *cell(plan, sink.space, block) = result_[i];
  }
  return Status::ok();
}

// Whose contribution an output block is to hold, where nothing is reduced.
int32_t sourceOf(const Plan& plan, int32_t block) {
  return plan.root >= 0 && plan.collective != Collective::kGather ? plan.root : block;
}

template <typename Value>
Status Replay<Value>::finishBand(bool* sameOrder) {
  std::vector<uint64_t> orderOf(static_cast<size_t>(high_ - low_), 0);
  std::vector<uint8_t> isKnown(orderOf.size(), 0);
  const bool isReduced = isReduction(program_.plans[0].collective);
  const State expected = isReduced ? State::kFinished : State::kContribution;
  for (const Plan& plan : program_.plans) {
    for (int32_t block = 0; block < blockCount(plan, Space::kOutput); ++block) {
      const int32_t extent = extentOf(plan, Space::kOutput, block);
      if (extent < low_ || extent >= high_) continue;
      const Value& value = *cell(plan, Space::kOutput, block);
      const Value contributions =
          isReduced ? complete_
                    : Value::contribution(contributionOf(plan, sourceOf(plan, block), plan.rank));
      if (value.stateOf() != expected || !value.sameContributions(contributions))
        return fail(program_, Property::kValues,
                    "rank " + std::to_string(plan.rank) + " lane " + std::to_string(program_.lane) +
                        " ends with output block " + std::to_string(block) + " " +
                        nameOf(value.stateOf()) + " of " + value.text(program_.plans[0]) +
                        ", expected " + nameOf(expected) + " of " + contributions.text(plan));
      if (!isReduced) continue;
      const auto at = static_cast<size_t>(extent - low_);
      if (isKnown[at] != 0 && orderOf[at] != value.hash) *sameOrder = false;
      orderOf[at] = value.hash;
      isKnown[at] = 1;
    }
  }
  return Status::ok();
}

}  // namespace

Status checkValues(const Program& program, const Matching& matching, bool* sameOrder) {
  const bool hasPairs = program.plans[0].collective == Collective::kAllToAll;
  if (program.nranks() <= 64 && !hasPairs)
    return Replay<ExactValue>(program, matching).run(sameOrder);
  return Replay<WeighedValue>(program, matching).run(sameOrder);
}

}  // namespace omnes::plan::proof
