#include "tests/plan/token_checker.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <optional>

namespace omnes::plan::testing {
namespace {

using algorithms::Cost;

constexpr size_t kMaxRanks = 160;

struct Value {
  int32_t extent = -1;
  Mark mark = Mark::kInput;
  std::bitset<kMaxRanks> ranks;  // contributions
  bool twice = false;            // one of them more than once
  uint64_t expression = 0;
};

struct Instance {  // a step of one iteration for one slice
  const Step* step;
  int32_t iteration;
  int32_t slice;
};

using Place = std::pair<Space, int32_t>;  // of one rank and slice

struct Chunk {
  std::vector<Value> values;
  int64_t depth = 0;
  std::set<int32_t> heard;
  bool lent = false;
  int32_t slice = 0;
  std::set<Place> lentPlaces;
};

struct Link {
  std::set<int32_t> readers;
  std::map<int32_t, size_t> taken;
  std::vector<Chunk> chunks;
  size_t slowest() const {
    size_t least = chunks.size();
    for (const int32_t reader : readers) {
      const auto it = taken.find(reader);
      least = std::min(least, it == taken.end() ? size_t{0} : it->second);
    }
    return least;
  }
};

struct Rank {
  std::vector<Instance> program;
  size_t next = 0;
  std::map<std::pair<int32_t, Place>, Value> memory;  // (slice, place)
  int64_t depth = 0;
  std::set<int32_t> heard;
};

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u ^ (b + 0x7f4a7c15u);
  x ^= x >> 31;
  x *= 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 29);
}

class Machine {
 public:
  Machine(std::span<const Plan> plans, int lane, const CheckOptions& options)
      : plans_(plans), options_(options), ranks_(plans.size()) {
    result_.costs.resize(plans.size());
    for (size_t r = 0; r < plans.size(); ++r) {
      unroll(plans[r].lanes[lane], ranks_[r].program);
      ranks_[r].heard.insert(static_cast<int32_t>(r));
      fillInputs(plans[r], ranks_[r]);
    }
  }

  CheckResult run() {
    bool progress = true;
    while (progress && result_.error.empty()) {
      progress = false;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        while (ranks_[r].next < ranks_[r].program.size() && result_.error.empty() &&
               attempt(static_cast<int32_t>(r))) {
          ++ranks_[r].next;
          progress = true;
        }
      }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].next < ranks_[r].program.size()) fail(r, "waits for ever");
    }
    for (const auto& [key, link] : links_) {
      if (link.slowest() != link.chunks.size()) fail(key[0], "left a chunk in a link");
    }
    if (result_.error.empty()) checkOutputs();
    for (const Rank& rank : ranks_) result_.rounds = std::max(result_.rounds, rank.depth);
    return std::move(result_);
  }

 private:
  void fail(size_t rank, const std::string& what) {
    if (!result_.error.empty()) return;
    result_.error = "rank " + std::to_string(rank) + " step instance " +
                    std::to_string(ranks_[rank].next) + ": " + what;
  }

  void unroll(const Lane& lane, std::vector<Instance>& program) const {
    uint16_t largest = 0;
    for (const Step& step : lane.steps) largest = std::max(largest, step.delay);
    for (int32_t wave = 0; wave < options_.slices + largest; ++wave) {
      for (size_t i = 0; i < lane.steps.size(); ++i) {
        const Step& step = lane.steps[i];
        const int32_t slice = wave - step.delay;
        const bool runs = slice >= 0 && slice < options_.slices;
        if (step.kind != Step::Kind::kLoop) {
          if (runs) program.push_back({&step, 0, slice});
          continue;
        }
        size_t end = i;
        while (lane.steps[end].kind != Step::Kind::kEndLoop) ++end;
        for (int32_t k = 0; runs && k < step.iterations; ++k) {
          for (size_t j = i + 1; j < end; ++j) program.push_back({&lane.steps[j], k, slice});
        }
        i = end;
      }
    }
  }

  void fillInputs(const Plan& plan, Rank& rank) const {
    for (int32_t slice = 0; slice < options_.slices; ++slice) {
      for (int32_t b = 0; b < blockCount(plan, Space::kInput); ++b) {
        const int32_t extent = extentOf(plan, Space::kInput, b);
        Value value{extent, Mark::kInput, {}, false, mix(plan.rank + 1, 0)};
        value.ranks.set(plan.rank);
        rank.memory[{slice, {Space::kInput, b}}] = value;
      }
    }
  }

  Place place(const Plan& plan, Space space, int32_t block) const {
    if (options_.inPlace && space == Space::kOutput && inPlaceAlias(plan, block) >= 0) {
      return {Space::kInput, inPlaceAlias(plan, block)};
    }
    return {space, block};
  }

  std::vector<Place> placesOf(const Plan& plan, const Ref& ref, int32_t iteration) const {
    std::vector<Place> places;
    const int32_t modulus = blockCount(plan, ref.space);
    for (int32_t k = 0; k < ref.run.count; ++k) {
      places.push_back(place(plan, ref.space, valueOf(ref.run, k, iteration, modulus)));
    }
    return places;
  }

  std::vector<int32_t> peersOf(const Plan& plan, const Ref& ref, int32_t iteration) const {
    std::vector<int32_t> peers;
    for (int32_t k = 0; k < ref.run.count; ++k) {
      peers.push_back(valueOf(ref.run, k, iteration, plan.nranks));
    }
    return peers;
  }

  // Links are known by (source, stream), unicast ones by the reader as well.
  static std::vector<int32_t> key(int32_t source, uint8_t stream, int32_t reader) {
    const uint8_t base = stream % kStreamsPerLane;
    const bool multicast = base == kStreamExchange || base == kStreamGather;
    return {source, stream, multicast ? -1 : reader};
  }

  Link* linkOf(int32_t source, uint8_t stream, int32_t reader) {
    const auto it = links_.find(key(source, stream, reader));
    return it == links_.end() ? nullptr : &it->second;
  }

  // Chunks of all link sources, or nothing if one is missing.
  std::optional<std::vector<Chunk*>> arrivals(int32_t r, const Instance& instance) {
    std::vector<Chunk*> chunks;
    for (const Ref& ref : instance.step->sources) {
      if (ref.kind != Ref::Kind::kLink) continue;
      for (const int32_t peer : peersOf(plans_[r], ref, instance.iteration)) {
        Link* link = linkOf(peer, ref.stream, r);
        if (link == nullptr || link->taken[r] >= link->chunks.size()) return std::nullopt;
        chunks.push_back(&link->chunks[link->taken[r]]);
      }
    }
    return chunks;
  }

  bool lends(const Step& step, const Ref& sink) const {
    return options_.lend && step.kind == Step::Kind::kMove && step.op == Op::kNone &&
           step.sources.front().kind == Ref::Kind::kSlice && mayLend(sink.stream);
  }

  bool sinksReady(int32_t r, const Instance& instance) {
    const Plan& plan = plans_[r];
    for (const Ref& sink : instance.step->sinks) {
      if (sink.kind == Ref::Kind::kLink) {
        const auto peers = peersOf(plan, sink, instance.iteration);
        Link* link = linkOf(r, sink.stream, peers.front());
        if (link == nullptr || lends(*instance.step, sink)) continue;
        size_t staged = 0;
        for (size_t c = link->slowest(); c < link->chunks.size(); ++c) {
          staged += link->chunks[c].lent ? 0 : 1;
        }
        if (staged >= static_cast<size_t>(options_.credits)) return false;
      } else {
        for (const Place& p : placesOf(plan, sink, instance.iteration)) {
          if (isLent(r, p, instance.slice)) return false;
        }
      }
    }
    return true;
  }

  bool isLent(int32_t r, const Place& where, int32_t slice) const {
    for (const auto& [key, link] : links_) {
      if (key[0] != r) continue;
      for (size_t c = link.slowest(); c < link.chunks.size(); ++c) {
        const Chunk& chunk = link.chunks[c];
        const bool sameMemory = where.first == Space::kScratch || chunk.slice == slice;
        if (chunk.lent && sameMemory && chunk.lentPlaces.contains(where)) return true;
      }
    }
    return false;
  }

  std::vector<Value> load(int32_t r, const Ref& ref, const Instance& instance) {
    std::vector<Value> values;
    for (const Place& p : placesOf(plans_[r], ref, instance.iteration)) {
      const auto it = ranks_[r].memory.find({memorySlice(p, instance.slice), p});
      if (it == ranks_[r].memory.end()) {
        fail(r, "reads what nobody wrote");
        return {};
      }
      values.push_back(it->second);
    }
    return values;
  }

  // Scratch of the next slice is the same memory (the plans here have one copy).
  static int32_t memorySlice(const Place& p, int32_t slice) {
    return p.first == Space::kScratch ? 0 : slice;
  }

  void expectMark(int32_t r, const std::vector<Value>& values, Mark mark) {
    for (const Value& value : values) {
      if (value.mark != mark) fail(r, "mark differs from what the value is");
    }
  }

  void combine(int32_t r, std::vector<Value>& total, const std::vector<Value>& operand,
               bool first) {
    if (first) {
      total = operand;
      return;
    }
    if (total.size() != operand.size()) return fail(r, "operands of different lengths");
    for (size_t b = 0; b < total.size(); ++b) {
      if (total[b].extent != operand[b].extent) fail(r, "adds different extents");
      total[b].twice |= operand[b].twice || (total[b].ranks & operand[b].ranks).any();
      total[b].ranks |= operand[b].ranks;
      total[b].expression = mix(total[b].expression, operand[b].expression);
    }
  }

  bool attempt(int32_t r) {
    Rank& rank = ranks_[r];
    const Instance& instance = rank.program[rank.next];
    const Step& step = *instance.step;
    const auto chunks = arrivals(r, instance);
    if (!chunks || !sinksReady(r, instance)) return false;

    std::vector<Value> total;
    bool first = true;
    size_t arrived = 0;
    Cost& cost = result_.costs[r];
    for (const Ref& ref : step.sources) {
      std::vector<std::vector<Value>> operands;
      if (ref.kind == Ref::Kind::kSlice) {
        operands.push_back(load(r, ref, instance));
      } else {
        for (const int32_t peer : peersOf(plans_[r], ref, instance.iteration)) {
          Chunk& chunk = *(*chunks)[arrived++];
          operands.push_back(chunk.values);
          rank.depth = std::max(rank.depth, chunk.depth);
          rank.heard.insert(chunk.heard.begin(), chunk.heard.end());
          ++linkOf(peer, ref.stream, r)->taken[r];
        }
      }
      for (const auto& operand : operands) {
        expectMark(r, operand, ref.mark);
        if (step.op == Op::kReduce && instance.slice == 0) {
          cost.operands += static_cast<int64_t>(operand.size());
        }
        combine(r, total, operand, first);
        first = false;
      }
    }
    if (step.op == Op::kReduce) {
      for (Value& value : total) value.expression = mix(value.expression, 1);
    }
    for (const Ref& sink : step.sinks) store(r, instance, sink, total);
    return true;
  }

  void store(int32_t r, const Instance& instance, const Ref& sink, std::vector<Value> values) {
    const Step& step = *instance.step;
    const Plan& plan = plans_[r];
    if (step.op == Op::kNone) expectMark(r, values, sink.mark);
    for (Value& value : values) value.mark = sink.mark;
    if (sink.kind == Ref::Kind::kSlice) {
      const auto places = placesOf(plan, sink, instance.iteration);
      if (places.size() != values.size()) return fail(r, "sink of another length");
      for (size_t b = 0; b < places.size(); ++b) {
        const int32_t block = valueOf(sink.run, static_cast<int32_t>(b), instance.iteration,
                                      blockCount(plan, sink.space));
        if (extentOf(plan, sink.space, block) != values[b].extent) fail(r, "wrong extent");
        ranks_[r].memory[{memorySlice(places[b], instance.slice), places[b]}] = values[b];
      }
      return;
    }
    const auto peers = peersOf(plan, sink, instance.iteration);
    Link& link = links_[key(r, sink.stream, peers.front())];
    link.readers.insert(peers.begin(), peers.end());
    Chunk chunk;
    chunk.values = values;
    chunk.depth = ranks_[r].depth + 1;
    chunk.heard = ranks_[r].heard;
    chunk.slice = instance.slice;
    if (lends(step, sink)) {
      chunk.lent = true;
      const auto places = placesOf(plan, step.sources.front(), instance.iteration);
      chunk.lentPlaces.insert(places.begin(), places.end());
    }
    link.chunks.push_back(std::move(chunk));
    if (instance.slice != 0) return;
    Cost& cost = result_.costs[r];
    const auto readers = static_cast<int64_t>(peers.size());
    const int64_t blocks = readers * static_cast<int64_t>(values.size());
    cost.messages += readers;
    (sink.mark == Mark::kInput ? cost.inputBlocks : cost.partialBlocks) += blocks;
  }

  void checkOutputs() {
    std::map<int32_t, uint64_t> expressions;  // by extent
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const Plan& plan = plans_[r];
      if (plan.collective == Collective::kBarrier && ranks_[r].heard.size() != ranks_.size()) {
        fail(r, "leaves the barrier too early");
      }
      for (int32_t slice = 0; slice < options_.slices; ++slice) {
        for (int32_t b = 0; b < blockCount(plan, Space::kOutput); ++b) {
          const auto it = ranks_[r].memory.find({slice, place(plan, Space::kOutput, b)});
          if (it == ranks_[r].memory.end()) return fail(r, "output not written");
          checkOutput(r, b, it->second);
          const auto [known, isNew] = expressions.emplace(it->second.extent, it->second.expression);
          if (!isNew && known->second != it->second.expression) result_.sameOrder = false;
        }
      }
    }
  }

  void checkOutput(size_t r, int32_t block, const Value& value) {
    const Plan& plan = plans_[r];
    std::bitset<kMaxRanks> expected;
    for (int32_t i = 0; i < plan.nranks; ++i) {
      if (plan.collective != Collective::kAllGather || i == block) expected.set(i);
    }
    if (value.mark != Mark::kInput) fail(r, "output is not finished");
    if (value.extent != extentOf(plan, Space::kOutput, block)) fail(r, "output of another extent");
    if (value.ranks != expected || value.twice)
      fail(r, "output block " + std::to_string(block) + " is wrong");
  }

  std::span<const Plan> plans_;
  CheckOptions options_;
  std::vector<Rank> ranks_;
  std::map<std::vector<int32_t>, Link> links_;
  CheckResult result_;
};

}  // namespace

CheckResult check(std::span<const Plan> plans, int lane, const CheckOptions& options) {
  return Machine(plans, lane, options).run();
}

}  // namespace omnes::plan::testing
