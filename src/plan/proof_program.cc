#include "plan/proof_program.h"

#include <algorithm>
#include <utility>

#include "plan/text.h"

namespace omnes::plan::proof {
namespace {

using base::Status;

// About 1.5 GB at worst; the largest plans of the tests (ring, 1024 ranks) have 2 million
// operations.
constexpr size_t kMaxOperations = size_t{1} << 23;
constexpr size_t kMaxLinkOperands = size_t{1} << 25;

const char* nameOf(Property property) {
  switch (property) {
    case Property::kMatching: return "sends match receives";
    case Property::kProgress: return "no deadlock";
    case Property::kValues: return "values";
    case Property::kRaces: return "no race";
    case Property::kMemory: return "memory and form";
  }
  return "?";
}

int32_t positive(int64_t value, int32_t modulus) {
  const int64_t rest = value % modulus;
  return static_cast<int32_t>(rest < 0 ? rest + modulus : rest);
}

// How the extent moves on when the block does by one.
int32_t directionOf(const Plan& plan, Space space) {
  return plan.collective == Collective::kAllToAll && space == Space::kOutput ? -1 : 1;
}

// From the end of a group to the next.
int64_t hopOf(const Run& run) {
  return run.group > 0 ? run.jump - int64_t{run.stride} * (run.group - 1) : 0;
}

Extents extentsOf(const Plan& plan, const Ref& ref, int32_t firstBlock) {
  const int32_t direction = directionOf(plan, ref.space);
  Extents extents{extentOf(plan, ref.space, firstBlock),
                  positive(int64_t{ref.run.stride} * direction, plan.blocks), ref.run.count,
                  ref.run.group, positive(hopOf(ref.run) * direction, plan.blocks)};
  // One way to say it: no stride for one extent, no groups where they make no difference.
  if (extents.count == 1) extents.stride = 0;
  if (extents.group == 1 && extents.count > 1) extents.stride = extents.hop;
  if (extents.group == 1 || extents.group >= extents.count || extents.stride == extents.hop)
    extents.group = 0;
  if (extents.group == 0) extents.hop = 0;
  return extents;
}

class Compiler {
 public:
  Compiler(LinkTable* table, Program* program) : table_(*table), program_(*program) {}

  Status run();

 private:
  Status expand(int32_t rank);
  Status add(int32_t rank, int32_t index, int32_t iteration);
  Status addExtents(Operation* operation, uint32_t number);
  Status checkSinks(const Operation& operation, uint32_t number) const;
  Status addOut(const Ref& sink, uint32_t number);
  Status newLink(const Ref& sink, uint32_t number);
  Status addIns(Operation* operation, uint32_t number);
  Status failAt(uint32_t number, Property property, const std::string& text) const {
    return fail(program_, property, proof::nameOf(program_, number) + ": " + text);
  }

  LinkTable& table_;
  Program& program_;
};

Status Compiler::run() {
  for (int32_t rank = 0; rank < program_.nranks(); ++rank) {
    program_.threadBegin.push_back(static_cast<uint32_t>(program_.operations.size()));
    Status status = expand(rank);
    if (!status.isOk()) return status;
  }
  program_.threadBegin.push_back(static_cast<uint32_t>(program_.operations.size()));
  for (uint32_t i = 0; i < program_.operations.size(); ++i) {
    Status status = addIns(&program_.operations[i], i);
    if (!status.isOk()) return status;
  }
  auto& order = program_.sliceOrder;
  order.resize(program_.operations.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto delayOf = [&](uint32_t i) { return program_.operations[i].step->delay; };
  for (int32_t rank = 0; rank < program_.nranks(); ++rank) {
    const auto begin = order.begin() + program_.threadBegin[static_cast<size_t>(rank)];
    const auto end = order.begin() + program_.threadBegin[static_cast<size_t>(rank) + 1];
    const auto less = [&](uint32_t a, uint32_t b) { return delayOf(a) < delayOf(b); };
    if (!std::is_sorted(begin, end, less)) std::stable_sort(begin, end, less);
  }
  return Status::ok();
}

Status Compiler::expand(int32_t rank) {
  const auto& steps =
      program_.plans[static_cast<size_t>(rank)].lanes[static_cast<size_t>(program_.lane)].steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind == Step::Kind::kEndLoop) continue;
    if (steps[i].kind != Step::Kind::kLoop) {
      Status status = add(rank, static_cast<int32_t>(i), 0);
      if (!status.isOk()) return status;
      continue;
    }
    size_t end = i + 1;
    while (steps[end].kind != Step::Kind::kEndLoop) ++end;
    for (int32_t iteration = 0; end > i + 1 && iteration < steps[i].iterations; ++iteration) {
      for (size_t inner = i + 1; inner < end; ++inner) {
        Status status = add(rank, static_cast<int32_t>(inner), iteration);
        if (!status.isOk()) return status;
      }
    }
    i = end;
  }
  return Status::ok();
}

Status Compiler::add(int32_t rank, int32_t index, int32_t iteration) {
  const auto number = static_cast<uint32_t>(program_.operations.size());
  if (number >= kMaxOperations)
    return fail(program_, Property::kMemory, "more than 8 million steps to prove");
  Operation operation;
  operation.step = &program_.plans[static_cast<size_t>(rank)]
                        .lanes[static_cast<size_t>(program_.lane)]
                        .steps[static_cast<size_t>(index)];
  operation.rank = rank;
  operation.index = index;
  operation.iteration = iteration;
  operation.firstOut = static_cast<uint32_t>(program_.outs.size());
  program_.maxDelay = std::max<int32_t>(program_.maxDelay, operation.step->delay);
  program_.operations.push_back(operation);
  for (const Ref& sink : operation.step->sinks) {
    if (sink.kind != Ref::Kind::kLink) continue;
    Status status = addOut(sink, number);
    if (!status.isOk()) return status;
    ++program_.operations.back().outCount;
  }
  return addExtents(&program_.operations.back(), number);
}

// All slices of a step touch the same extents in the same order.
Status Compiler::addExtents(Operation* operation, uint32_t number) {
  if (operation->step->kind != Step::Kind::kMove) return Status::ok();
  const Plan& plan = program_.planOf(*operation);
  for (const auto* refs : {&operation->step->sources, &operation->step->sinks}) {
    for (const Ref& ref : *refs) {
      if (ref.kind != Ref::Kind::kSlice) continue;
      const Blocks blocks = blocksOf(plan, ref, operation->iteration);
      const Extents extents = extentsOf(plan, ref, blocks.first);
      const int64_t last = blocks.first + int64_t{ref.run.stride} * (ref.run.count - 1);
      if (blocks.modulus % plan.blocks != 0 && (last < 0 || last >= blocks.modulus) &&
          ref.run.count > 1)
        return failAt(number, Property::kMemory,
                      toText(ref) + " wraps around in scratch that is no multiple of blocks");
      if (operation->extents.count == 0) operation->extents = extents;
      if (!(operation->extents == extents))
        return failAt(number, Property::kMemory,
                      toText(ref) + " holds other extents than the step's first slice");
    }
  }
  return checkSinks(*operation, number);
}

// Slots are as large as the largest chunk that the plan declares; and no block is written twice at
// once.
Status Compiler::checkSinks(const Operation& operation, uint32_t number) const {
  const Plan& plan = program_.planOf(operation);
  int32_t scratchSinks = 0;
  int32_t outputSinks = 0;
  for (const Ref& sink : operation.step->sinks) {
    if (sink.kind == Ref::Kind::kLink) {
      const int32_t most =
          sink.mark == Mark::kInput ? plan.maxInputChunkBlocks : plan.maxPartialChunkBlocks;
      if (operation.extents.count > most)
        return failAt(number, Property::kMemory,
                      toText(sink) + ": a chunk of " + std::to_string(operation.extents.count) +
                          " blocks, declared are at most " + std::to_string(most));
      continue;
    }
    ++(sink.space == Space::kScratch ? scratchSinks : outputSinks);
  }
  if (outputSinks > 1 || scratchSinks > 1)
    return failAt(number, Property::kRaces, "two sinks in one space may write the same block");
  return Status::ok();
}

Status Compiler::addOut(const Ref& sink, uint32_t number) {
  const int32_t rank = program_.operations[number].rank;
  const int32_t iteration = program_.operations[number].iteration;
  uint32_t link = kNone;
  for (int32_t k = 0; k < sink.run.count; ++k) {
    const int32_t peer = valueOf(sink.run, k, iteration, program_.nranks());
    if (peer == rank && program_.operations[number].step->kind != Step::Kind::kSignal)
      return failAt(number, Property::kMemory, toText(sink) + " reaches the rank itself");
    const LinkTable::Entry* entry = table_.find(LinkTable::keyOf(rank, sink.stream, peer));
    if (entry != nullptr && entry->lane != program_.lane)
      return failAt(number, Property::kMatching,
                    toText(sink) + " is also used by lane " + std::to_string(entry->lane));
    const uint32_t found = entry == nullptr ? kNone : program_.readers[entry->reader].link;
    if (k == 0) link = found;
    if (found != link || (link != kNone && program_.links[link].readerCount !=
                                               static_cast<uint32_t>(sink.run.count)))
      return failAt(number, Property::kMatching,
                    toText(sink) + ": rank " + std::to_string(peer) +
                        " would belong to two groups of one stream");
  }
  if (link == kNone) {
    Status status = newLink(sink, number);
    if (!status.isOk()) return status;
    link = static_cast<uint32_t>(program_.links.size() - 1);
  }
  for (uint32_t i = program_.operations[number].firstOut; i < program_.outs.size(); ++i)
    if (program_.outs[i].link == link)
      return failAt(number, Property::kMatching, toText(sink) + ": a link twice");
  program_.outs.push_back({link, number});
  return Status::ok();
}

Status Compiler::newLink(const Ref& sink, uint32_t number) {
  const Operation& operation = program_.operations[number];
  const auto link = static_cast<uint32_t>(program_.links.size());
  const auto firstReader = static_cast<uint32_t>(program_.readers.size());
  program_.links.push_back(
      {operation.rank, sink.stream, firstReader, static_cast<uint32_t>(sink.run.count)});
  for (int32_t k = 0; k < sink.run.count; ++k) {
    if (program_.readers.size() >= kMaxLinkOperands)
      return fail(program_, Property::kMemory, "too many links");
    const int32_t peer = valueOf(sink.run, k, operation.iteration, program_.nranks());
    const uint64_t key = LinkTable::keyOf(operation.rank, sink.stream, peer);
    table_.insert({key, static_cast<uint32_t>(program_.readers.size()), program_.lane});
    program_.readers.push_back({peer, link});
  }
  return Status::ok();
}

Status Compiler::addIns(Operation* operation, uint32_t number) {
  operation->firstIn = static_cast<uint32_t>(program_.ins.size());
  for (const Ref& source : operation->step->sources) {
    if (source.kind != Ref::Kind::kLink) continue;
    for (int32_t k = 0; k < source.run.count; ++k) {
      const int32_t peer = valueOf(source.run, k, operation->iteration, program_.nranks());
      if (peer == operation->rank && operation->step->kind != Step::Kind::kWait)
        return failAt(number, Property::kMemory, toText(source) + " reaches the rank itself");
      const auto* entry = table_.find(LinkTable::keyOf(peer, source.stream, operation->rank));
      if (entry == nullptr || entry->lane != program_.lane)
        return failAt(number, Property::kMatching,
                      "rank " + std::to_string(peer) + " sends nothing to it on stream " +
                          std::to_string(source.stream) + " of this lane");
      if (program_.ins.size() >= kMaxLinkOperands)
        return fail(program_, Property::kMemory, "too many operands from links");
      program_.ins.push_back(entry->reader);
    }
  }
  operation->inCount = static_cast<uint32_t>(program_.ins.size()) - operation->firstIn;
  if (operation->step->sources.size() == 1) return Status::ok();  // the peers of one run differ
  std::vector<uint32_t> sorted(program_.ins.begin() + operation->firstIn, program_.ins.end());
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return failAt(number, Property::kMatching, "takes two chunks of one link");
  return Status::ok();
}

}  // namespace

size_t LinkTable::placeOf(uint64_t key) const {
  uint64_t hash = key * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 29;
  size_t place = hash & (entries_.size() - 1);
  while (entries_[place].reader != kNone && entries_[place].key != key)
    place = (place + 1) & (entries_.size() - 1);
  return place;
}

const LinkTable::Entry* LinkTable::find(uint64_t key) const {
  const Entry& entry = entries_[placeOf(key)];
  return entry.reader == kNone ? nullptr : &entry;
}

void LinkTable::insert(const Entry& entry) {
  if (++used_ * 2 > entries_.size()) {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& moved : old)
      if (moved.reader != kNone) entries_[placeOf(moved.key)] = moved;
  }
  entries_[placeOf(entry.key)] = entry;
}

const Ref& Program::sinkOf(uint32_t out) const {
  const Operation& operation = operations[outs[out].operation];
  uint32_t ordinal = out - operation.firstOut;
  for (const Ref& sink : operation.step->sinks)
    if (sink.kind == Ref::Kind::kLink && ordinal-- == 0) return sink;
  return operation.step->sinks[0];
}

Status fail(std::span<const Plan> plans, bool inPlace, Property property, const std::string& text) {
  const Plan& plan = plans[0];
  return Status(base::Code::kInternalError,
                "property " + std::to_string(static_cast<int>(property)) + " (" + nameOf(property) +
                    "): " + plan::nameOf(plan.collective) + " " + plan.algorithm.substr(0, 64) +
                    " n=" + std::to_string(plans.size()) + (inPlace ? " in place: " : ": ") + text);
}

Status fail(const Program& program, Property property, const std::string& text) {
  return fail(program.plans, program.inPlace, property, text);
}

std::string nameOf(const Program& program, uint32_t number) {
  const Operation& operation = program.operations[number];
  std::string text = "rank " + std::to_string(operation.rank) + " lane " +
                     std::to_string(program.lane) + " step " + std::to_string(operation.index) +
                     " (" + toText(*operation.step) + ")";
  if (operation.iteration > 0) text += " iteration " + std::to_string(operation.iteration);
  return text;
}

std::string nameOf(const Program& program, const Reader& reader) {
  const Link& link = program.links[reader.link];
  return "link " + std::to_string(link.source) + "->" + std::to_string(reader.rank) + " stream " +
         std::to_string(link.stream);
}

Status compile(std::span<const Plan> plans, bool inPlace, int32_t lane, LinkTable* table,
               Program* program) {
  *program = Program();
  program->plans = plans;
  program->inPlace = inPlace;
  program->lane = lane;
  return Compiler(table, program).run();
}

Blocks blocksOf(const Plan& plan, const Ref& ref, int32_t iteration) {
  const int32_t modulus = blockCount(plan, ref.space);
  return {valueOf(ref.run.start, iteration, modulus), positive(ref.run.stride, modulus), modulus,
          ref.run.group, positive(hopOf(ref.run), modulus)};
}

int32_t cellOf(const Plan& plan, bool inPlace, Space space, int32_t block) {
  if (space == Space::kOutput) return block;
  if (space == Space::kScratch) return blockCount(plan, Space::kOutput) + block;
  if (!inPlace) return -1;
  const bool isRoot = plan.rank == plan.root;
  switch (plan.collective) {
    case Collective::kReduceScatter:
    case Collective::kScatter: return block == plan.rank ? 0 : -1;
    case Collective::kAllGather: return plan.rank;
    case Collective::kGather: return isRoot ? plan.rank : -1;
    case Collective::kReduce: return isRoot ? block : -1;
    case Collective::kAllToAll: return -1;
    default: return block;
  }
}

bool isSelfCopy(const Program& program, const Operation& operation, const Ref& sink) {
  if (operation.step->op != Op::kNone || operation.step->sources[0].kind != Ref::Kind::kSlice)
    return false;
  const Ref& source = operation.step->sources[0];
  const Plan& plan = program.planOf(operation);
  const int32_t from = blocksOf(plan, source, operation.iteration).first;
  const int32_t to = blocksOf(plan, sink, operation.iteration).first;
  // The operands of a step hold the same extents in the same order, and outside scratch no two
  // blocks of a space hold the same one: runs that begin on one cell agree everywhere.
  return source.space != Space::kScratch && sink.space == Space::kOutput &&
         cellOf(plan, program.inPlace, source.space, from) == to;
}

}  // namespace omnes::plan::proof
