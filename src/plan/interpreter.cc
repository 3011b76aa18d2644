#include "plan/interpreter.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

namespace omnes::plan {
namespace {

using base::Code;
using base::Status;

Status wrong(std::string text) {
  return Status(Code::kInternalError, "interpreter: " + std::move(text));
}

// What a block holds. Empty = poison. Otherwise the first byte says what it is, then one saturating
// count a rank; in an all-to-all, source and destination in two bytes each. A string, because short
// ones live inside the object: copying a whole machine stays cheap.
using Value = std::string;
constexpr char kContribution = 'c';  // one rank's untouched elements
constexpr char kSum = 'p';           // a sum under way, in the wire type
constexpr char kFinished = 'f';      // a finished result

Mark markOf(const Value& value) { return value[0] == kSum ? Mark::kPartial : Mark::kInput; }

// What `source` gives: the same in each of its blocks, except to an all-to-all.
Value contributionOf(const Plan& plan, int32_t source, int32_t destination) {
  if (plan.collective == Collective::kAllToAll)
    return {kContribution, static_cast<char>(source), static_cast<char>(source >> 8),
            static_cast<char>(destination), static_cast<char>(destination >> 8)};
  Value value(static_cast<size_t>(plan.nranks) + 1, '\0');
  value[0] = kContribution;
  value[static_cast<size_t>(source) + 1] = 1;
  return value;
}

struct Instance {
  int32_t step = 0;
  int32_t iteration = 0;
  int32_t slice = 0;  // of this lane: 0, 1, ...
};

struct Thread {
  int32_t rank = 0;
  int32_t lane = 0;
  std::vector<Instance> program;
};

struct Chunk {
  bool signal = false;
  bool lent = false;
  Mark mark = Mark::kInput;
  std::vector<int32_t> extents;
  std::vector<Value> values;  // staged chunks
  std::vector<size_t> cells;  // lent chunks: the sender's cells
};

struct Link {
  int32_t source = 0;
  std::vector<int32_t> readers;
};

// Everything that changes while the plans run.
struct State {
  std::vector<size_t> at;                  // per thread: next instance
  std::vector<Value> cells;                // all ranks' memory
  std::vector<std::vector<Chunk>> sent;    // per link, all chunks ever sent
  std::vector<std::vector<size_t>> taken;  // per link, per reader: how many it has taken
};

enum class Outcome : uint8_t { kRan, kBlocked, kFailed };

class Machine {
 public:
  Machine(std::span<const Plan> plans, const InterpretOptions& options)
      : plans_(plans), options_(options) {}

  Status prepare();
  Status runRandomly(uint64_t seed);
  Status runAllOrders();

 private:
  Status checkShape() const;
  Status buildThreads();
  Status findLinks();
  Status addLink(int32_t source, uint8_t stream, std::vector<int32_t> readers);
  void layOutMemory();

  Outcome tryInstance(State& state, size_t thread, Status* error) const;
  bool isReady(const State& state, const Thread& thread, const Instance& instance,
               Status* error) const;
  bool hasRoom(const State& state, const Thread& thread, const Instance& instance,
               const Ref& sink) const;
  bool isLent(const State& state, size_t cell) const;
  Status runSignals(State& state, const Thread& thread, const Instance& instance) const;
  Status runMove(State& state, const Thread& thread, const Instance& instance) const;
  Status takeOperand(State& state, const Thread& thread, const Instance& instance,
                     const Ref& source, std::vector<std::vector<Value>>* operands,
                     std::vector<int32_t>* extents) const;
  Status putResult(State& state, const Thread& thread, const Instance& instance, const Ref& sink,
                   const std::vector<Value>& values, const std::vector<int32_t>& extents,
                   const std::vector<size_t>& sourceCells) const;
  Value combine(const std::vector<std::vector<Value>>& operands, size_t position) const;
  Status finish(const State& state) const;
  bool isRight(const Plan& plan, int32_t block, const Value& value) const;

  const Step& stepOf(const Thread& thread, const Instance& instance) const {
    return plans_[static_cast<size_t>(thread.rank)]
        .lanes[static_cast<size_t>(thread.lane)]
        .steps[static_cast<size_t>(instance.step)];
  }
  std::string where(const Thread& thread, const Instance& instance) const {
    return "rank " + std::to_string(thread.rank) + " lane " + std::to_string(thread.lane) +
           " step " + std::to_string(instance.step) + " iteration " +
           std::to_string(instance.iteration) + " slice " + std::to_string(instance.slice);
  }
  int32_t nranks() const { return static_cast<int32_t>(plans_.size()); }
  size_t cellOf(int32_t rank, int32_t lane, int32_t slice, Space space, int32_t block) const;
  std::vector<int32_t> blocksOf(const Thread& thread, const Instance& instance,
                                const Ref& ref) const;
  std::vector<int32_t> peersOf(const Instance& instance, const Ref& ref) const;
  size_t outLink(const Thread& thread, const Instance& instance, const Ref& ref) const;
  std::pair<size_t, size_t> inLink(const Thread& thread, int32_t peer, uint8_t stream) const;
  bool lends(const Step& step, const Ref& sink) const {
    return options_.credits == 0 && mayLend(sink.stream) && step.kind == Step::Kind::kMove &&
           step.op == Op::kNone && step.sources.size() == 1 &&
           step.sources[0].kind == Ref::Kind::kSlice;
  }

  std::span<const Plan> plans_;
  InterpretOptions options_;
  int32_t slices_ = 0;
  int32_t lanes_ = 0;
  size_t slots_ = 0;
  std::vector<Thread> threads_;
  std::vector<Link> links_;
  std::map<std::tuple<int32_t, uint8_t, std::vector<int32_t>>, size_t> linkByGroup_;
  std::map<std::tuple<int32_t, uint8_t, int32_t>, std::pair<size_t, size_t>> linkByReader_;
  std::vector<size_t> rankBase_;  // first cell of each rank
  State start_;
};

Status Machine::prepare() {
  if (Status status = checkShape(); !status.isOk()) return status;
  if (Status status = buildThreads(); !status.isOk()) return status;
  if (Status status = findLinks(); !status.isOk()) return status;
  layOutMemory();
  start_.at.assign(threads_.size(), 0);
  start_.sent.resize(links_.size());
  start_.taken.resize(links_.size());
  for (size_t link = 0; link < links_.size(); ++link)
    start_.taken[link].assign(links_[link].readers.size(), 0);
  return Status::ok();
}

Status Machine::checkShape() const {
  if (plans_.empty()) return wrong("no plans");
  for (size_t rank = 0; rank < plans_.size(); ++rank) {
    const Plan& plan = plans_[rank];
    if (plan.rank != static_cast<int32_t>(rank) || plan.nranks != nranks())
      return wrong("plans are not one set");
    if (plan.lanes.size() != plans_[0].lanes.size() || plan.blocks != plans_[0].blocks ||
        plan.blocks < 1 || plan.collective != plans_[0].collective || plan.root != plans_[0].root ||
        plan.scratchCopies < 1 || plan.scratchBlocks < 0)
      return wrong("rank " + std::to_string(rank) + " has another shape than rank 0");
    for (const Lane& lane : plan.lanes) {
      bool inLoop = false;
      uint16_t delay = 0;
      for (const Step& step : lane.steps) {
        if (step.kind == Step::Kind::kLoop) {
          if (inLoop || step.iterations < 0) return wrong("bad loop");
          inLoop = true;
          delay = step.delay;
        } else if (step.kind == Step::Kind::kEndLoop) {
          if (!inLoop) return wrong("end of loop without a loop");
          inLoop = false;
        } else if (inLoop && step.delay != delay) {
          return wrong("delays differ in a loop");
        }
      }
      if (inLoop) return wrong("loop without an end");
    }
  }
  return Status::ok();
}

Status Machine::buildThreads() {
  int32_t maxDelay = 0;
  int32_t copies = 1;
  int32_t credits = 0;
  for (const Plan& plan : plans_) {
    copies = std::max(copies, plan.scratchCopies);
    credits = std::max(credits, plan.minCredits);
    for (const Lane& lane : plan.lanes)
      for (const Step& step : lane.steps) maxDelay = std::max<int32_t>(maxDelay, step.delay);
  }
  lanes_ = static_cast<int32_t>(plans_[0].lanes.size());
  slices_ = options_.slices > 0 ? options_.slices : maxDelay + copies + 1;
  slots_ = static_cast<size_t>(std::max(0, options_.credits > 0 ? options_.credits : credits));
  size_t total = 0;
  for (int32_t rank = 0; rank < nranks(); ++rank) {
    for (int32_t lane = 0; lane < lanes_; ++lane) {
      Thread thread{rank, lane, {}};
      const auto& steps = plans_[static_cast<size_t>(rank)].lanes[static_cast<size_t>(lane)].steps;
      // Slices are dealt in turn, so the last lane may have one less than the first.
      const int32_t mine = lanes_ > 1 && lane == lanes_ - 1 ? std::max(1, slices_ - 1) : slices_;
      for (int32_t wave = 0; wave < mine + maxDelay; ++wave) {
        for (size_t index = 0; index < steps.size(); ++index) {
          const int32_t slice = wave - steps[index].delay;
          const auto kind = steps[index].kind;
          if (kind == Step::Kind::kEndLoop) continue;
          if (kind == Step::Kind::kLoop) {
            size_t end = index + 1;
            while (steps[end].kind != Step::Kind::kEndLoop) ++end;
            for (int32_t i = 0; i < steps[index].iterations && slice >= 0 && slice < mine; ++i) {
              for (size_t inner = index + 1; inner < end; ++inner)
                thread.program.push_back({static_cast<int32_t>(inner), i, slice});
              if (thread.program.size() > 4'000'000) return wrong("too many steps");
            }
            index = end;
          } else if (slice >= 0 && slice < mine) {
            thread.program.push_back({static_cast<int32_t>(index), 0, slice});
          }
        }
      }
      total += thread.program.size();
      if (total > 8'000'000) return wrong("too many steps");
      threads_.push_back(std::move(thread));
    }
  }
  return Status::ok();
}

Status Machine::findLinks() {
  for (const Thread& thread : threads_) {
    for (const Instance& instance : thread.program) {
      for (const Ref& sink : stepOf(thread, instance).sinks) {
        if (sink.kind != Ref::Kind::kLink) continue;
        if (sink.run.count < 1 || sink.run.count > nranks()) return wrong("bad number of peers");
        Status status = addLink(thread.rank, sink.stream, peersOf(instance, sink));
        if (!status.isOk()) return status;
      }
    }
  }
  return Status::ok();
}

Status Machine::addLink(int32_t source, uint8_t stream, std::vector<int32_t> readers) {
  std::sort(readers.begin(), readers.end());
  if (std::adjacent_find(readers.begin(), readers.end()) != readers.end())
    return wrong("a peer twice in one group");
  const auto [place, isNew] = linkByGroup_.try_emplace({source, stream, readers}, links_.size());
  if (!isNew) return Status::ok();
  for (size_t i = 0; i < readers.size(); ++i) {
    if (!linkByReader_.try_emplace({source, stream, readers[i]}, std::pair{links_.size(), i})
             .second)
      return wrong("rank " + std::to_string(readers[i]) + " reads two groups of rank " +
                   std::to_string(source));
  }
  links_.push_back({source, std::move(readers)});
  return Status::ok();
}

// Per rank: all slices' input of every lane, then output, then each lane's copies of scratch.
void Machine::layOutMemory() {
  for (const Plan& plan : plans_) {
    rankBase_.push_back(start_.cells.size());
    const int32_t inputs = blockCount(plan, Space::kInput);
    const int32_t outputs = blockCount(plan, Space::kOutput);
    const size_t perSlice = static_cast<size_t>(inputs + outputs);
    const size_t scratch =
        static_cast<size_t>(plan.scratchBlocks) * static_cast<size_t>(plan.scratchCopies);
    start_.cells.resize(start_.cells.size() +
                        static_cast<size_t>(lanes_) *
                            (static_cast<size_t>(slices_) * perSlice + scratch));
    for (int32_t lane = 0; lane < lanes_; ++lane)
      for (int32_t slice = 0; slice < slices_; ++slice)
        for (int32_t block = 0; block < inputs; ++block)
          start_.cells[cellOf(plan.rank, lane, slice, Space::kInput, block)] =
              contributionOf(plan, plan.rank, block);
  }
}

size_t Machine::cellOf(int32_t rank, int32_t lane, int32_t slice, Space space,
                       int32_t block) const {
  const Plan& plan = plans_[static_cast<size_t>(rank)];
  const auto inputs = static_cast<size_t>(blockCount(plan, Space::kInput));
  const auto outputs = static_cast<size_t>(blockCount(plan, Space::kOutput));
  const auto scratch = static_cast<size_t>(plan.scratchBlocks);
  const size_t laneSize = static_cast<size_t>(slices_) * (inputs + outputs) +
                          scratch * static_cast<size_t>(plan.scratchCopies);
  const size_t laneBase =
      rankBase_[static_cast<size_t>(rank)] + static_cast<size_t>(lane) * laneSize;
  const size_t sliceBase = laneBase + static_cast<size_t>(slice) * (inputs + outputs);
  if (space == Space::kOutput && options_.inPlace && inPlaceAlias(plan, block) >= 0) {
    space = Space::kInput;
    block = inPlaceAlias(plan, block);
  }
  switch (space) {
    case Space::kInput: return sliceBase + static_cast<size_t>(block);
    case Space::kOutput: return sliceBase + inputs + static_cast<size_t>(block);
    case Space::kScratch: break;
  }
  return laneBase + static_cast<size_t>(slices_) * (inputs + outputs) +
         static_cast<size_t>(slice % plan.scratchCopies) * scratch + static_cast<size_t>(block);
}

std::vector<int32_t> Machine::blocksOf(const Thread& thread, const Instance& instance,
                                       const Ref& ref) const {
  const int32_t modulus = blockCount(plans_[static_cast<size_t>(thread.rank)], ref.space);
  std::vector<int32_t> blocks;
  if (modulus < 1 || ref.run.count > modulus) return blocks;  // empty = out of bounds
  for (int32_t k = 0; k < ref.run.count; ++k)
    blocks.push_back(valueOf(ref.run, k, instance.iteration, modulus));
  return blocks;
}

std::vector<int32_t> Machine::peersOf(const Instance& instance, const Ref& ref) const {
  std::vector<int32_t> peers;
  for (int32_t k = 0; k < ref.run.count && k <= nranks(); ++k)
    peers.push_back(valueOf(ref.run, k, instance.iteration, nranks()));
  return peers;
}

size_t Machine::outLink(const Thread& thread, const Instance& instance, const Ref& ref) const {
  std::vector<int32_t> readers = peersOf(instance, ref);
  std::sort(readers.begin(), readers.end());
  return linkByGroup_.at({thread.rank, ref.stream, readers});
}

std::pair<size_t, size_t> Machine::inLink(const Thread& thread, int32_t peer,
                                          uint8_t stream) const {
  const auto found = linkByReader_.find({peer, stream, thread.rank});
  return found == linkByReader_.end() ? std::pair{links_.size(), size_t{0}} : found->second;
}

bool Machine::hasRoom(const State& state, const Thread& thread, const Instance& instance,
                      const Ref& sink) const {
  if (lends(stepOf(thread, instance), sink)) return true;
  const size_t link = outLink(thread, instance, sink);
  const size_t slowest = *std::min_element(state.taken[link].begin(), state.taken[link].end());
  size_t used = 0;
  for (size_t i = slowest; i < state.sent[link].size(); ++i)
    used += state.sent[link][i].lent ? 0 : 1;
  return used < slots_;
}

bool Machine::isLent(const State& state, size_t cell) const {
  for (size_t link = 0; link < links_.size(); ++link) {
    const size_t slowest = *std::min_element(state.taken[link].begin(), state.taken[link].end());
    for (size_t i = slowest; i < state.sent[link].size(); ++i) {
      const auto& cells = state.sent[link][i].cells;
      if (std::find(cells.begin(), cells.end(), cell) != cells.end()) return true;
    }
  }
  return false;
}

bool Machine::isReady(const State& state, const Thread& thread, const Instance& instance,
                      Status* error) const {
  const Step& step = stepOf(thread, instance);
  std::set<std::pair<int32_t, uint8_t>> seen;
  for (const Ref& source : step.sources) {
    if (source.kind != Ref::Kind::kLink) continue;
    for (int32_t peer : peersOf(instance, source)) {
      if (!seen.insert({peer, source.stream}).second)
        *error = wrong(where(thread, instance) + ": a link twice");
      const auto [link, reader] = inLink(thread, peer, source.stream);
      if (link == links_.size() || state.taken[link][reader] >= state.sent[link].size())
        return false;
    }
  }
  for (const Ref& sink : step.sinks) {
    if (sink.kind == Ref::Kind::kLink) {
      if (!hasRoom(state, thread, instance, sink)) return false;
      continue;
    }
    if (options_.credits != 0) continue;
    for (int32_t block : blocksOf(thread, instance, sink))
      if (isLent(state, cellOf(thread.rank, thread.lane, instance.slice, sink.space, block)))
        return false;
  }
  return true;
}

Outcome Machine::tryInstance(State& state, size_t index, Status* error) const {
  const Thread& thread = threads_[index];
  const Instance& instance = thread.program[state.at[index]];
  if (!isReady(state, thread, instance, error))
    return error->isOk() ? Outcome::kBlocked : Outcome::kFailed;
  const bool isMove = stepOf(thread, instance).kind == Step::Kind::kMove;
  if (error->isOk())
    *error = isMove ? runMove(state, thread, instance) : runSignals(state, thread, instance);
  ++state.at[index];
  return error->isOk() ? Outcome::kRan : Outcome::kFailed;
}

Status Machine::runSignals(State& state, const Thread& thread, const Instance& instance) const {
  const Step& step = stepOf(thread, instance);
  for (const Ref& source : step.sources) {
    if (source.kind != Ref::Kind::kLink)
      return wrong(where(thread, instance) + ": waits for a slice");
    for (int32_t peer : peersOf(instance, source)) {
      const auto [link, reader] = inLink(thread, peer, source.stream);
      if (!state.sent[link][state.taken[link][reader]++].signal)
        return wrong(where(thread, instance) + ": waits for a signal and finds a chunk");
    }
  }
  for (const Ref& sink : step.sinks) {
    if (sink.kind != Ref::Kind::kLink) return wrong(where(thread, instance) + ": signals a slice");
    Chunk chunk;
    chunk.signal = true;
    state.sent[outLink(thread, instance, sink)].push_back(std::move(chunk));
  }
  return Status::ok();
}

Status Machine::takeOperand(State& state, const Thread& thread, const Instance& instance,
                            const Ref& source, std::vector<std::vector<Value>>* operands,
                            std::vector<int32_t>* extents) const {
  const auto agree = [&](const std::vector<int32_t>& found) {
    if (extents->empty()) *extents = found;
    return *extents == found && !found.empty();
  };
  if (source.kind == Ref::Kind::kSlice) {
    std::vector<int32_t> found;
    std::vector<Value> values;
    if (blocksOf(thread, instance, source).empty())
      return wrong(where(thread, instance) + ": reads blocks that this rank does not have");
    for (int32_t block : blocksOf(thread, instance, source)) {
      found.push_back(extentOf(plans_[static_cast<size_t>(thread.rank)], source.space, block));
      values.push_back(
          state.cells[cellOf(thread.rank, thread.lane, instance.slice, source.space, block)]);
      if (!values.back().empty() && markOf(values.back()) != source.mark)
        return wrong(where(thread, instance) +
                     ": a slice is read with another mark than it was written with");
    }
    if (!agree(found)) return wrong(where(thread, instance) + ": operands of different extents");
    operands->push_back(std::move(values));
    return Status::ok();
  }
  for (int32_t peer : peersOf(instance, source)) {
    const auto [link, reader] = inLink(thread, peer, source.stream);
    const Chunk& chunk = state.sent[link][state.taken[link][reader]++];
    if (chunk.signal)
      return wrong(where(thread, instance) + ": expects a chunk and finds a signal");
    if (chunk.mark != source.mark)
      return wrong(where(thread, instance) + ": a chunk of another mark");
    if (!agree(chunk.extents)) return wrong(where(thread, instance) + ": a chunk of other extents");
    std::vector<Value> values = chunk.values;
    for (size_t cell : chunk.cells) values.push_back(state.cells[cell]);
    for (Value& value : values)
      if (!value.empty() && markOf(value) != chunk.mark) value.clear();  // bits of another type
    operands->push_back(std::move(values));
  }
  return Status::ok();
}

Value Machine::combine(const std::vector<std::vector<Value>>& operands, size_t position) const {
  Value sum(static_cast<size_t>(nranks()) + 1, '\0');
  sum[0] = kSum;
  for (const auto& operand : operands) {
    const Value& value = operand[position];
    // A finished result in a reduction would be scaled a second time: garbage.
    if (value.empty() || value[0] == kFinished) return Value();
    for (size_t i = 1; i < value.size(); ++i)
      sum[i] = static_cast<char>(std::min(3, sum[i] + value[i]));
  }
  return sum;
}

Status Machine::putResult(State& state, const Thread& thread, const Instance& instance,
                          const Ref& sink, const std::vector<Value>& values,
                          const std::vector<int32_t>& extents,
                          const std::vector<size_t>& sourceCells) const {
  const Step& step = stepOf(thread, instance);
  std::vector<Value> out = values;
  for (Value& value : out)
    if (step.op == Op::kReduce && !value.empty())
      value[0] = sink.mark == Mark::kInput ? kFinished : kSum;
  if (sink.kind == Ref::Kind::kLink) {
    Chunk chunk;
    chunk.mark = sink.mark;
    chunk.extents = extents;
    chunk.lent = lends(step, sink);
    if (chunk.lent) chunk.cells = sourceCells;
    if (!chunk.lent) chunk.values = std::move(out);
    state.sent[outLink(thread, instance, sink)].push_back(std::move(chunk));
    return Status::ok();
  }
  const std::vector<int32_t> blocks = blocksOf(thread, instance, sink);
  if (blocks.empty())
    return wrong(where(thread, instance) + ": writes blocks that this rank does not have");
  if (blocks.size() != extents.size())
    return wrong(where(thread, instance) + ": a sink of another length");
  if (sink.space == Space::kInput) return wrong(where(thread, instance) + ": writes its input");
  for (size_t k = 0; k < blocks.size(); ++k) {
    if (extentOf(plans_[static_cast<size_t>(thread.rank)], sink.space, blocks[k]) != extents[k])
      return wrong(where(thread, instance) + ": a sink of other extents");
    state.cells[cellOf(thread.rank, thread.lane, instance.slice, sink.space, blocks[k])] = out[k];
  }
  return Status::ok();
}

Status Machine::runMove(State& state, const Thread& thread, const Instance& instance) const {
  const Step& step = stepOf(thread, instance);
  if (step.sources.empty() || step.sinks.empty())
    return wrong(where(thread, instance) + ": nothing to move");
  std::vector<std::vector<Value>> operands;
  std::vector<int32_t> extents;
  for (const Ref& source : step.sources) {
    Status status = takeOperand(state, thread, instance, source, &operands, &extents);
    if (!status.isOk()) return status;
  }
  if (operands.empty() || (step.op == Op::kNone && operands.size() != 1))
    return wrong(where(thread, instance) + ": not the right number of operands");
  if (step.op == Op::kReduce && !isReduction(plans_[0].collective))
    return wrong(where(thread, instance) + ": this collective has no reduction");
  std::vector<Value> results = operands[0];
  for (size_t k = 0; step.op == Op::kReduce && k < results.size(); ++k)
    results[k] = combine(operands, k);
  std::vector<size_t> sourceCells;
  if (step.op == Op::kNone && step.sources[0].kind == Ref::Kind::kSlice)
    for (int32_t block : blocksOf(thread, instance, step.sources[0]))
      sourceCells.push_back(
          cellOf(thread.rank, thread.lane, instance.slice, step.sources[0].space, block));
  for (const Ref& sink : step.sinks) {
    if (step.op == Op::kNone && sink.mark != step.sources[0].mark)
      return wrong(where(thread, instance) + ": a copy that changes the mark");
    Status status = putResult(state, thread, instance, sink, results, extents, sourceCells);
    if (!status.isOk()) return status;
  }
  return Status::ok();
}

bool Machine::isRight(const Plan& plan, int32_t block, const Value& value) const {
  if (value.empty()) return false;
  switch (plan.collective) {
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kAllToAll: return value == contributionOf(plan, block, plan.rank);
    case Collective::kBroadcast:
    case Collective::kScatter: return value == contributionOf(plan, plan.root, plan.rank);
    default:
      return value[0] == kFinished &&
             std::all_of(value.begin() + 1, value.end(), [](char count) { return count == 1; });
  }
}

Status Machine::finish(const State& state) const {
  for (size_t link = 0; link < links_.size(); ++link)
    for (size_t taken : state.taken[link])
      if (taken != state.sent[link].size())
        return wrong("a chunk of rank " + std::to_string(links_[link].source) + " was never taken");
  for (const Thread& thread : threads_) {
    const Plan& plan = plans_[static_cast<size_t>(thread.rank)];
    std::set<int32_t> slices;
    const bool isShort = lanes_ > 1 && thread.lane == lanes_ - 1;
    const int32_t mine = isShort ? std::max(1, slices_ - 1) : slices_;
    for (int32_t slice = 0; slice < mine; ++slice) {
      for (int32_t block = 0; block < blockCount(plan, Space::kOutput); ++block) {
        const size_t cell = cellOf(plan.rank, thread.lane, slice, Space::kOutput, block);
        if (!isRight(plan, block, state.cells[cell]))
          return wrong("rank " + std::to_string(plan.rank) + " lane " +
                       std::to_string(thread.lane) + " ends with a wrong output block " +
                       std::to_string(block) + " in slice " + std::to_string(slice));
      }
    }
  }
  return Status::ok();
}

Status Machine::runRandomly(uint64_t seed) {
  State state = start_;
  std::mt19937_64 random(seed);
  std::vector<size_t> open;
  for (size_t i = 0; i < threads_.size(); ++i)
    if (!threads_[i].program.empty()) open.push_back(i);
  const std::string suffix = " (schedule seed " + std::to_string(seed) + ")";
  size_t blocked = 0;  // the first `blocked` entries of `open` cannot move
  while (blocked < open.size()) {
    const size_t pick = blocked + random() % (open.size() - blocked);
    Status error;
    switch (tryInstance(state, open[pick], &error)) {
      case Outcome::kFailed: return wrong(std::string(error.message()) + suffix);
      case Outcome::kBlocked: std::swap(open[pick], open[blocked++]); break;
      case Outcome::kRan:
        blocked = 0;  // it may have woken anyone
        if (state.at[open[pick]] == threads_[open[pick]].program.size()) {
          open[pick] = open.back();
          open.pop_back();
        }
        break;
    }
  }
  if (!open.empty()) {
    const Thread& thread = threads_[open[0]];
    return wrong("deadlock, for example " + where(thread, thread.program[state.at[open[0]]]) +
                 suffix);
  }
  Status status = finish(state);
  return status.isOk() ? status : wrong(std::string(status.message()) + suffix);
}

// Links and memory follow from the positions as long as nothing races, so both belong to the key.
std::string keyOf(const State& state) {
  std::string key;
  for (size_t at : state.at) key.append(reinterpret_cast<const char*>(&at), sizeof(at));
  for (const Value& value : state.cells) {
    key += value;
    key += '|';
  }
  for (const auto& chunks : state.sent)
    for (const Chunk& chunk : chunks)
      for (const Value& value : chunk.values) {
        key += value;
        key += '/';
      }
  return key;
}

Status Machine::runAllOrders() {
  std::unordered_set<std::string> seen;
  std::vector<State> todo{start_};
  while (!todo.empty()) {
    const State state = std::move(todo.back());
    todo.pop_back();
    bool moved = false;
    bool ended = true;
    for (size_t i = 0; i < threads_.size(); ++i) {
      if (state.at[i] == threads_[i].program.size()) continue;
      ended = false;
      State next = state;
      Status error;
      const Outcome outcome = tryInstance(next, i, &error);
      if (outcome == Outcome::kFailed) return error;
      if (outcome == Outcome::kBlocked) continue;
      moved = true;
      if (seen.insert(keyOf(next)).second) todo.push_back(std::move(next));
      if (static_cast<int64_t>(seen.size()) > options_.maxStates) return Status::ok();
    }
    if (ended) {
      Status status = finish(state);
      if (!status.isOk()) return status;
    } else if (!moved) {
      return wrong("deadlock in one interleaving");
    }
  }
  return Status::ok();
}

}  // namespace

Status interpret(std::span<const Plan> plans, const InterpretOptions& options) {
  Machine machine(plans, options);
  if (Status status = machine.prepare(); !status.isOk()) return status;
  for (int32_t i = 0; i < options.schedules; ++i) {
    Status status = machine.runRandomly(options.seed + static_cast<uint64_t>(i));
    if (!status.isOk()) return status;
  }
  return options.maxStates > 0 ? machine.runAllOrders() : Status::ok();
}

}  // namespace omnes::plan
