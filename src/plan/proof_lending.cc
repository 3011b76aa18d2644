// Who touches which block of memory: reuse of scratch by later slices, and blocks that are lent to
// other ranks.
#include <algorithm>
#include <string>
#include <tuple>

#include "plan/proof_progress.h"
#include "plan/text.h"

namespace omnes::plan::proof {
namespace {

using base::Status;

constexpr int64_t kMaxScratchTouches = int64_t{1} << 28;
constexpr size_t kMaxWaits = size_t{1} << 26;

bool usesScratch(const Operation& operation) {
  const auto isScratch = [](const Ref& ref) {
    return ref.kind == Ref::Kind::kSlice && ref.space == Space::kScratch;
  };
  return std::any_of(operation.step->sources.begin(), operation.step->sources.end(), isScratch) ||
         std::any_of(operation.step->sinks.begin(), operation.step->sinks.end(), isScratch);
}

template <typename Visit>
void forEachBlock(const Plan& plan, const Operation& operation, const Ref& ref,
                  const Visit& visit) {
  const Blocks blocks = blocksOf(plan, ref, operation.iteration);
  int32_t block = blocks.first;
  for (int32_t k = 0; k < ref.run.count; block = blocks.next(block, k), ++k) visit(block);
}

// One rank's scratch over the waves of several slices: each block remembers which slice wrote it.
class ScratchRun {
 public:
  ScratchRun(const Program& program, int32_t rank) : program_(program), rank_(rank) {}

  Status run(int64_t* touchesLeft);

 private:
  const Plan& plan() const { return program_.plans[static_cast<size_t>(rank_)]; }
  Status runOperation(uint32_t number, int32_t slice);

  const Program& program_;
  int32_t rank_;
  std::vector<int32_t> writer_;
};

Status ScratchRun::run(int64_t* touchesLeft) {
  const uint32_t begin = program_.threadBegin[static_cast<size_t>(rank_)];
  const uint32_t end = program_.threadBegin[static_cast<size_t>(rank_) + 1];
  std::vector<uint32_t> users;
  int32_t least = INT32_MAX;
  int32_t most = 0;
  for (uint32_t i = begin; i < end; ++i) {
    if (!usesScratch(program_.operations[i])) continue;
    users.push_back(i);
    least = std::min<int32_t>(least, program_.operations[i].step->delay);
    most = std::max<int32_t>(most, program_.operations[i].step->delay);
  }
  // With one delay for all, the accesses of a slice lie in one wave and slices cannot meet.
  if (users.empty() || least == most) return Status::ok();
  const int32_t slices = most - least + plan().scratchCopies + 1;
  writer_.assign(
      static_cast<size_t>(plan().scratchBlocks) * static_cast<size_t>(plan().scratchCopies), -1);
  for (int32_t wave = least; wave < slices + most; ++wave) {
    for (uint32_t number : users) {
      const Operation& operation = program_.operations[number];
      const int32_t slice = wave - operation.step->delay;
      if (slice < 0 || slice >= slices) continue;
      *touchesLeft -= operation.extents.count + 1;
      if (*touchesLeft < 0) return fail(program_, Property::kMemory, "too much scratch to prove");
      Status status = runOperation(number, slice);
      if (!status.isOk()) return status;
    }
  }
  return Status::ok();
}

Status ScratchRun::runOperation(uint32_t number, int32_t slice) {
  const Operation& operation = program_.operations[number];
  const auto base =
      static_cast<size_t>(slice % plan().scratchCopies) * static_cast<size_t>(plan().scratchBlocks);
  int32_t stolenBlock = -1;
  int32_t thief = -1;
  for (const Ref& source : operation.step->sources) {
    if (source.kind != Ref::Kind::kSlice || source.space != Space::kScratch) continue;
    forEachBlock(plan(), operation, source, [&](int32_t block) {
      const int32_t writer = writer_[base + static_cast<size_t>(block)];
      if (writer == slice) return;
      stolenBlock = block;
      thief = writer;
    });
  }
  if (stolenBlock >= 0)
    return fail(program_, Property::kRaces,
                nameOf(program_, number) + ": slice " + std::to_string(slice) +
                    " reads scratch block " + std::to_string(stolenBlock) + ", which slice " +
                    std::to_string(thief) + " has taken over; scratchCopies " +
                    std::to_string(plan().scratchCopies) + " is too small");
  for (const Ref& sink : operation.step->sinks) {
    if (sink.kind != Ref::Kind::kSlice || sink.space != Space::kScratch) continue;
    forEachBlock(plan(), operation, sink,
                 [&](int32_t block) { writer_[base + static_cast<size_t>(block)] = slice; });
  }
  return Status::ok();
}

// One rank's blocks over one slice: each remembers the chunks that were lent out of it since it was
// last written.
class LendingRun {
 public:
  LendingRun(const Program& program, Lending* lending) : program_(program), lending_(*lending) {}

  void run(int32_t rank);

 private:
  struct Loan {
    uint32_t out = 0;
    uint32_t next = kNone;
  };

  void runOperation(const Plan& plan, uint32_t number);
  void write(uint32_t number, size_t cell);
  void wrapAround(const Plan& plan);
  void addWait(uint32_t number, uint32_t out, int32_t shift);

  const Program& program_;
  Lending& lending_;
  std::vector<uint32_t> loansOf_;     // per cell: list of loans
  std::vector<uint32_t> firstWrite_;  // per cell
  std::vector<Loan> loans_;
};

void LendingRun::run(int32_t rank) {
  const Plan& plan = program_.plans[static_cast<size_t>(rank)];
  const auto cells = static_cast<size_t>(blockCount(plan, Space::kOutput)) +
                     static_cast<size_t>(plan.scratchBlocks);
  loansOf_.assign(cells, kNone);
  firstWrite_.assign(cells, kNone);
  loans_.clear();
  for (uint32_t i = program_.threadBegin[static_cast<size_t>(rank)];
       i < program_.threadBegin[static_cast<size_t>(rank) + 1]; ++i)
    runOperation(plan, program_.sliceOrder[i]);
  wrapAround(plan);
}

void LendingRun::runOperation(const Plan& plan, uint32_t number) {
  const Operation& operation = program_.operations[number];
  if (operation.step->kind != Step::Kind::kMove) return;
  for (const Ref& sink : operation.step->sinks) {
    if (sink.kind != Ref::Kind::kSlice || isSelfCopy(program_, operation, sink)) continue;
    forEachBlock(plan, operation, sink, [&](int32_t block) {
      write(number, static_cast<size_t>(cellOf(plan, program_.inPlace, sink.space, block)));
    });
  }
  const Ref& source = operation.step->sources[0];
  if (operation.step->op != Op::kNone || source.kind != Ref::Kind::kSlice) return;
  for (uint32_t out = operation.firstOut; out < operation.firstOut + operation.outCount; ++out) {
    if (!mayLend(program_.links[program_.outs[out].link].stream)) continue;
    lending_.isLent[out] = 1;
    forEachBlock(plan, operation, source, [&](int32_t block) {
      const int32_t cell = cellOf(plan, program_.inPlace, source.space, block);
      if (cell < 0) return;  // input that nobody writes
      loans_.push_back({out, loansOf_[static_cast<size_t>(cell)]});
      loansOf_[static_cast<size_t>(cell)] = static_cast<uint32_t>(loans_.size() - 1);
    });
  }
}

void LendingRun::write(uint32_t number, size_t cell) {
  if (firstWrite_[cell] == kNone) firstWrite_[cell] = number;
  for (uint32_t loan = loansOf_[cell]; loan != kNone; loan = loans_[loan].next)
    addWait(number, loans_[loan].out, 0);
  loansOf_[cell] = kNone;
}

// The first write of slice s + copies meets what slice s lent after its last write.
void LendingRun::wrapAround(const Plan& plan) {
  for (auto cell = static_cast<size_t>(blockCount(plan, Space::kOutput)); cell < loansOf_.size();
       ++cell) {
    if (firstWrite_[cell] == kNone) continue;
    for (uint32_t loan = loansOf_[cell]; loan != kNone; loan = loans_[loan].next)
      addWait(firstWrite_[cell], loans_[loan].out, plan.scratchCopies);
  }
}

void LendingRun::addWait(uint32_t number, uint32_t out, int32_t shift) {
  // Mostly block after block of the same few chunks.
  const size_t size = lending_.waits.size();
  for (size_t i = size; i > 0 && i + 4 > size; --i) {
    const Lending::Wait& recent = lending_.waits[i - 1];
    if (recent.operation == number && recent.out == out && recent.sliceShift == shift) return;
  }
  if (size >= kMaxWaits) {
    lending_.tooMany = true;
    return;
  }
  lending_.waits.push_back({number, out, shift});
}

}  // namespace

Status checkScratchReuse(const Program& program) {
  int64_t touchesLeft = kMaxScratchTouches;
  for (int32_t rank = 0; rank < program.nranks(); ++rank) {
    Status status = ScratchRun(program, rank).run(&touchesLeft);
    if (!status.isOk()) return status;
  }
  return Status::ok();
}

Lending findLending(const Program& program) {
  Lending lending;
  lending.isLent.assign(program.outs.size(), 0);
  LendingRun run(program, &lending);
  for (int32_t rank = 0; rank < program.nranks(); ++rank) run.run(rank);
  const auto key = [](const Lending::Wait& wait) {
    return std::tuple(wait.operation, wait.out, wait.sliceShift);
  };
  auto& waits = lending.waits;
  std::sort(waits.begin(), waits.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  const auto same = [&](const auto& a, const auto& b) { return key(a) == key(b); };
  waits.erase(std::unique(waits.begin(), waits.end(), same), waits.end());
  return lending;
}

}  // namespace omnes::plan::proof
