// Plays the thread blocks of all ranks on what they would hold, and writes down the steps in the
// order in which they could run.
#include "plan/msccl.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "plan/builder.h"
#include "plan/msccl_file.h"
#include "plan/verifier.h"

namespace omnes::plan {
namespace {

using base::Status;
using msccl::Action;
using msccl::Spot;
using msccl::ThreadBlock;
using msccl::XmlRank;
using msccl::XmlStep;

// A block's content: whose contributions to which extent.
struct Value {
  int32_t extent = 0;
  int32_t source = -1;         // all-to-all: who sends it
  std::vector<uint64_t> from;  // a bit a rank
  Mark mark = Mark::kInput;
};

// Where a rank has a value.
struct Held {
  Value value;
  Space space = Space::kInput;
  int32_t block = 0;
};

struct RankState {
  std::map<Spot, Held> held;
  std::map<std::pair<Spot, int32_t>, int32_t> scratch;  // (spot, extent) -> block
  std::vector<int32_t> rows;                            // scratch blocks in use, by extent
  std::vector<Step> steps;
  std::vector<size_t> done;  // per thread block: its steps that have run
};

class Translator {
 public:
  explicit Translator(const msccl::Algorithm& algorithm)
      : algorithm_(algorithm), nranks_(static_cast<int32_t>(algorithm.ranks.size())) {}

  base::Result<std::vector<Plan>> translate();

 private:
  using Fifo = std::deque<Value>;
  struct Now {  // the step at hand
    int32_t rank;
    const ThreadBlock& block;
    const XmlStep& step;
    size_t index;
  };

  Status checkChunks();
  void begin();
  bool isReady(int32_t rank, const ThreadBlock& block, const XmlStep& step);
  Status play();
  Status stuck() const;
  Status run(const Now& now, int32_t chunk);
  Status add(const Now& now, const Held& other, Value* sum) const;
  Status local(const Now& now, Spot spot, Held* held) const;
  Status write(const Now& now, Spot spot, const Value& value, Step* step);
  int32_t outputOf(int32_t rank, Spot spot, const Value& value) const;
  int32_t scratchFor(RankState* state, Spot spot, int32_t extent) const;
  Spot normal(int32_t rank, Spot spot) const;
  bool isComplete(const Value& value) const;
  Fifo& fifo(int32_t from, int32_t to, int32_t channel) {
    return fifos_[(static_cast<uint64_t>(from) << 32) | (static_cast<uint64_t>(to) << 8) |
                  static_cast<uint64_t>(channel)];
  }
  Status bad(const Now& now, const std::string& text) const {
    return msccl::bad(now.step.line,
                      msccl::placeOf(static_cast<size_t>(now.rank), now.block, now.index), text);
  }
  Plan finish(int32_t rank) const;

  const msccl::Algorithm& algorithm_;
  int32_t nranks_;
  int32_t blocks_ = 1;
  std::vector<RankState> states_;
  std::map<uint64_t, Fifo> fifos_;
};

Status Translator::checkChunks() {
  const bool inPlace = algorithm_.inPlace;
  const int32_t n = nranks_;
  blocks_ = algorithm_.collective == Collective::kAllReduce ? algorithm_.ranks[0].inputs : n;
  if (blocks_ < 1) return msccl::bad(1, "gpu 0", "i_chunks=\"0\": nothing to reduce");
  for (size_t rank = 0; rank < algorithm_.ranks.size(); ++rank) {
    const XmlRank& each = algorithm_.ranks[rank];
    bool fits = true;
    switch (algorithm_.collective) {
      case Collective::kAllGather:
        fits = each.outputs == n && (each.inputs == 1 || (inPlace && each.inputs == 0));
        break;
      case Collective::kReduceScatter:
        fits = each.inputs == n && (each.outputs == 1 || (inPlace && each.outputs == 0));
        break;
      case Collective::kAllToAll: fits = each.inputs == n && each.outputs == n; break;
      default: fits = each.inputs == blocks_ && (inPlace || each.outputs == blocks_);
    }
    if (!fits)
      return msccl::bad(1, "gpu " + std::to_string(rank),
                        "i_chunks=\"" + std::to_string(each.inputs) + "\" o_chunks=\"" +
                            std::to_string(each.outputs) +
                            "\": not the chunks of this collective (allreduce: the same on all; "
                            "others: one a rank)");
  }
  return Status::ok();
}

// Buffers that are one memory have one name.
Spot Translator::normal(int32_t rank, Spot spot) const {
  if (!algorithm_.inPlace) return spot;
  const XmlRank& own = algorithm_.ranks[static_cast<size_t>(rank)];
  if (algorithm_.collective == Collective::kAllReduce && spot.buffer == 'o')
    return {'i', spot.offset};
  if (algorithm_.collective == Collective::kAllGather && spot.buffer == 'i')
    return {'o', rank * own.inputs + spot.offset};
  if (algorithm_.collective == Collective::kReduceScatter && spot.buffer == 'o')
    return {'i', rank * own.outputs + spot.offset};
  return spot;
}

void Translator::begin() {
  states_.resize(algorithm_.ranks.size());
  const size_t words = (algorithm_.ranks.size() + 63) / 64;
  for (int32_t rank = 0; rank < nranks_; ++rank) {
    RankState& state = states_[static_cast<size_t>(rank)];
    state.rows.resize(static_cast<size_t>(blocks_));
    state.done.resize(algorithm_.ranks[static_cast<size_t>(rank)].blocks.size());
    const bool isGather = algorithm_.collective == Collective::kAllGather;
    const bool isExchange = algorithm_.collective == Collective::kAllToAll;
    for (int32_t block = 0; block < (isGather ? 1 : blocks_); ++block) {
      Held held;
      held.block = block;
      held.value.extent = isGather ? rank : isExchange ? (block - rank + nranks_) % nranks_ : block;
      held.value.source = rank;
      held.value.from.resize(words);
      held.value.from[static_cast<size_t>(rank) / 64] |= uint64_t{1} << (rank % 64);
      const Spot spot = isGather && algorithm_.inPlace ? Spot{'o', rank} : Spot{'i', block};
      state.held[spot] = std::move(held);
    }
  }
}

bool Translator::isComplete(const Value& value) const {
  int32_t count = 0;
  for (const uint64_t word : value.from) count += std::popcount(word);
  return count == nranks_;
}

// The output block that this is the result of, or -1.
int32_t Translator::outputOf(int32_t rank, Spot spot, const Value& value) const {
  const char result = algorithm_.inPlace ? 'i' : 'o';
  switch (algorithm_.collective) {
    case Collective::kAllReduce:
      return spot.buffer == result && value.extent == spot.offset && isComplete(value) ? spot.offset
                                                                                       : -1;
    case Collective::kReduceScatter:
      return spot == Spot{result, algorithm_.inPlace ? rank : 0} && value.extent == rank &&
                     isComplete(value)
                 ? 0
                 : -1;
    case Collective::kAllGather:
      return spot.buffer == 'o' && value.extent == spot.offset ? spot.offset : -1;
    default:
      return spot.buffer == 'o' && value.source == spot.offset &&
                     (value.source + value.extent) % nranks_ == rank
                 ? spot.offset
                 : -1;
  }
}

// Scratch block s holds extent s mod blocks, so a spot has one for each extent that comes by.
int32_t Translator::scratchFor(RankState* state, Spot spot, int32_t extent) const {
  const auto [found, isNew] = state->scratch.try_emplace({spot, extent}, 0);
  if (isNew) found->second = state->rows[static_cast<size_t>(extent)]++ * blocks_ + extent;
  return found->second;
}

Status Translator::local(const Now& now, Spot spot, Held* held) const {
  const auto& all = states_[static_cast<size_t>(now.rank)].held;
  const auto found = all.find(normal(now.rank, spot));
  if (found == all.end())
    return bad(now, std::string("reads ") + spot.buffer + "[" + std::to_string(spot.offset) +
                        "], into which nothing was written");
  *held = found->second;
  return Status::ok();
}

Status Translator::add(const Now& now, const Held& other, Value* sum) const {
  if (!isReduction(algorithm_.collective))
    return bad(now, "reduces, which this collective does not");
  if (other.value.extent != sum->extent)
    return bad(now, "adds chunk " + std::to_string(other.value.extent) + " to chunk " +
                        std::to_string(sum->extent));
  for (size_t word = 0; word < sum->from.size(); ++word) {
    if (const uint64_t both = sum->from[word] & other.value.from[word])
      return bad(now, "adds the contribution of gpu " +
                          std::to_string(word * 64 + static_cast<size_t>(std::countr_zero(both))) +
                          " twice");
    sum->from[word] |= other.value.from[word];
  }
  sum->mark = isComplete(*sum) ? Mark::kInput : Mark::kPartial;
  return Status::ok();
}

Status Translator::write(const Now& now, Spot spot, const Value& value, Step* step) {
  if (spot.buffer == 'i' && !algorithm_.inPlace)
    return bad(now, "writes its input, and algo has not inplace=\"1\"");
  RankState& state = states_[static_cast<size_t>(now.rank)];
  const Spot place = normal(now.rank, spot);
  Held held{value, Space::kOutput, outputOf(now.rank, place, value)};
  if (held.block < 0) {
    held.space = Space::kScratch;
    held.block = scratchFor(&state, place, value.extent);
  }
  const Ref sink = sliceRef(held.space, at(held.block), value.mark);
  // What is there already stays there.
  if (step->op != Op::kNone || step->sources[0] != sink) step->sinks.push_back(sink);
  state.held[place] = std::move(held);
  return Status::ok();
}

// One chunk of the step at hand.
Status Translator::run(const Now& now, int32_t chunk) {
  const auto& [rank, block, xml, index] = now;
  const uint8_t stream = streamOf(kStreamScatter, block.channel);
  const Spot source{xml.source.buffer, xml.source.offset + chunk};
  const Spot sink{xml.sink.buffer, xml.sink.offset + chunk};
  Step step;
  Value value;
  if (receives(xml.action)) {
    Fifo& incoming = fifo(block.receiveFrom, rank, block.channel);
    value = std::move(incoming.front());
    incoming.pop_front();
    step.sources.push_back(linkRef(stream, at(block.receiveFrom), value.mark));
    // Another's contribution is kept and passed on as a sum of one.
    if (isReduction(algorithm_.collective) && value.mark == Mark::kInput && !isComplete(value)) {
      step.op = Op::kReduce;
      value.mark = Mark::kPartial;
    }
  } else if (xml.action == Action::kReduce) {
    Held held;
    OMNES_RETURN_IF_ERROR(local(now, sink, &held));
    value = held.value;
    step.sources.push_back(sliceRef(held.space, at(held.block), value.mark));
  }
  if (reads(xml.action)) {
    Held held;
    OMNES_RETURN_IF_ERROR(local(now, source, &held));
    step.sources.push_back(sliceRef(held.space, at(held.block), held.value.mark));
    if (reduces(xml.action)) {
      step.op = Op::kReduce;
      OMNES_RETURN_IF_ERROR(add(now, held, &value));
    } else {
      value = held.value;
    }
  }
  if (writes(xml.action)) OMNES_RETURN_IF_ERROR(write(now, sink, value, &step));
  if (sends(xml.action)) {
    step.sinks.push_back(linkRef(stream, at(block.sendTo), value.mark));
    fifo(rank, block.sendTo, block.channel).push_back(std::move(value));
  }
  if (!step.sinks.empty()) states_[static_cast<size_t>(rank)].steps.push_back(std::move(step));
  return Status::ok();
}

bool Translator::isReady(int32_t rank, const ThreadBlock& block, const XmlStep& step) {
  if (step.dependsOnBlock >= 0 &&
      states_[static_cast<size_t>(rank)].done[static_cast<size_t>(step.dependsOnBlock)] <=
          static_cast<size_t>(step.dependsOnStep))
    return false;
  return !receives(step.action) ||
         fifo(block.receiveFrom, rank, block.channel).size() >= static_cast<size_t>(step.count);
}

// Thread blocks take turns, a step each, so that the order needs few slots.
Status Translator::play() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (int32_t rank = 0; rank < nranks_; ++rank) {
      const auto& blocks = algorithm_.ranks[static_cast<size_t>(rank)].blocks;
      for (size_t i = 0; i < blocks.size(); ++i) {
        size_t& done = states_[static_cast<size_t>(rank)].done[i];
        if (done == blocks[i].steps.size()) continue;
        const XmlStep& step = blocks[i].steps[done];
        if (!isReady(rank, blocks[i], step)) continue;
        if (step.action != Action::kNop)
          for (int32_t chunk = 0; chunk < step.count; ++chunk)
            OMNES_RETURN_IF_ERROR(run({rank, blocks[i], step, done}, chunk));
        ++done;
        moved = true;
      }
    }
  }
  return stuck();
}

// OK when everything has run.
Status Translator::stuck() const {
  for (size_t rank = 0; rank < states_.size(); ++rank) {
    const auto& blocks = algorithm_.ranks[rank].blocks;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const size_t done = states_[rank].done[i];
      if (done == blocks[i].steps.size()) continue;
      const XmlStep& step = blocks[i].steps[done];
      std::string text = "can never run: a cycle, or chunks that nobody sends; it waits for";
      if (receives(step.action))
        text += " " + std::to_string(step.count) + " chunks of gpu " +
                std::to_string(blocks[i].receiveFrom) + " on channel " +
                std::to_string(blocks[i].channel);
      if (step.dependsOnBlock >= 0)
        text += std::string(receives(step.action) ? " and" : "") + " tb " +
                std::to_string(blocks[static_cast<size_t>(step.dependsOnBlock)].id) + " step " +
                std::to_string(step.dependsOnStep);
      return msccl::bad(step.line, msccl::placeOf(rank, blocks[i], done), text);
    }
  }
  for (const auto& [key, left] : fifos_)
    if (!left.empty())
      return msccl::bad(1, "gpu " + std::to_string(key >> 32),
                        "sends " + std::to_string(left.size()) + " chunks more to gpu " +
                            std::to_string((key >> 8) & 0xffffff) + " on channel " +
                            std::to_string(key & 0xff) + " than that receives");
  return Status::ok();
}

Plan Translator::finish(int32_t rank) const {
  const RankState& state = states_[static_cast<size_t>(rank)];
  Builder builder(algorithm_.collective, algorithm_.name, rank, nranks_);
  builder.blocks(blocks_);
  builder.scratch(blocks_ * *std::max_element(state.rows.begin(), state.rows.end()));
  for (const Step& step : state.steps) builder.move(step.sources, step.op, step.sinks);
  return builder.build();
}

base::Result<std::vector<Plan>> Translator::translate() {
  OMNES_RETURN_IF_ERROR(checkChunks());
  begin();
  OMNES_RETURN_IF_ERROR(play());
  std::vector<Plan> plans;
  for (int32_t rank = 0; rank < nranks_; ++rank) plans.push_back(finish(rank));
  int32_t input = 0, partial = 0;
  for (const Plan& each : plans) {
    input = std::max(input, each.maxInputChunkBlocks);
    partial = std::max(partial, each.maxPartialChunkBlocks);
  }
  for (Plan& each : plans) {
    each.maxInputChunkBlocks = input;
    each.maxPartialChunkBlocks = partial;
  }
  return plans;
}

// MSCCL does not say how many slots its links need; the fewest of 2, 4, 8 ... that will do.
void findCredits(std::vector<Plan>* plans) {
  constexpr int32_t kMostCredits = 256;
  const bool hasInPlace = (*plans)[0].collective != Collective::kAllToAll;
  for (int32_t credits = 2; credits <= kMostCredits; credits *= 2) {
    for (Plan& each : *plans) each.minCredits = credits;
    auto proof = verify(*plans, {.inPlace = false});
    if (proof.isOk() && hasInPlace) proof = verify(*plans, {.inPlace = true});
    // More slots cure a lack of progress only.
    if (proof.isOk() || proof.status().message().find("property 2") == std::string_view::npos)
      return;
  }
}

}  // namespace

base::Result<std::vector<Plan>> fromMscclXml(std::string_view text) {
  OMNES_ASSIGN_OR_RETURN(const msccl::Algorithm algorithm, msccl::parse(text));
  OMNES_ASSIGN_OR_RETURN(std::vector<Plan> plans, Translator(algorithm).translate());
  findCredits(&plans);
  return plans;
}

}  // namespace omnes::plan
