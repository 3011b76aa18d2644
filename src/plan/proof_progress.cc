#include "plan/proof_progress.h"

#include <algorithm>
#include <string>

#include "plan/text.h"

namespace omnes::plan::proof {
namespace {

using base::Status;

constexpr int64_t kMaxInstances = int64_t{1} << 28;
constexpr size_t kMaxLoanRecords = size_t{1} << 27;

bool hasScratch(const Program& program) {
  return std::any_of(program.plans.begin(), program.plans.end(),
                     [](const Plan& plan) { return plan.scratchBlocks > 0; });
}

class Run {
 public:
  Run(const Program& program, const Matching& matching, int32_t slots, const Lending* lending)
      : program_(program),
        matching_(matching),
        slots_(static_cast<uint32_t>(slots)),
        lending_(lending) {}

  Status run();

 private:
  enum class Blocked : uint8_t { kNo, kChunk, kSlot, kLoan };
  struct Thread {
    int32_t wave = 0;
    uint32_t at = 0;
    // What of the operation at hand is already known to be there; none of it can go away again.
    uint32_t ins = 0;
    uint32_t outs = 0;
    uint32_t outReaders = 0;
    uint32_t waits = 0;
    Blocked blocked = Blocked::kNo;
    uint32_t reader = 0;  // the one that it waits for, or whose progress it waits for
  };

  Status prepare();
  void prepareLoans();
  void runAll(int32_t lastWave);
  void runThread(int32_t rank, int32_t lastWave);
  bool isReady(Thread* thread, int32_t slice);
  bool hasSlots(Thread* thread, const Operation& operation);
  bool loansAreBack(Thread* thread, int32_t slice);
  bool block(Thread* thread, Blocked reason, uint32_t reader);
  void commit(Thread* thread, int32_t slice);
  bool isLent(uint32_t out) const { return lending_ != nullptr && lending_->isLent[out] != 0; }
  bool allReached(int32_t wave) const;
  Status explain() const;
  Status explainCycle() const;
  int32_t waitedFor(const Thread& thread) const;
  std::string textOf(const Thread& thread) const;

  const Program& program_;
  const Matching& matching_;
  uint32_t slots_;
  const Lending* lending_;
  int32_t slices_ = 0;
  std::vector<Thread> threads_;
  std::vector<int32_t> work_;
  std::vector<uint32_t> sent_;         // per link
  std::vector<uint32_t> sentStaged_;   // per link: those that took a slot
  std::vector<uint32_t> taken_;        // per reader
  std::vector<uint32_t> takenStaged_;  // per reader
  std::vector<uint8_t> isAwaited_;     // per reader: 1 = its rank sleeps on it, 2 = the sender does
  std::vector<uint32_t> firstWait_;    // per operation, into lending_->waits (and one behind)
  std::vector<uint32_t> loanOf_;       // per out: number of its loan record, or kNone
  std::vector<uint32_t> loanAt_;       // [loan record][slice]: number of the chunk on its link
};

Status Run::prepare() {
  slices_ = slicesFor(program_);
  if (static_cast<int64_t>(program_.operations.size()) * slices_ > kMaxInstances)
    return fail(program_, Property::kMemory, "too many steps times delays to prove");
  threads_.resize(program_.plans.size());
  for (size_t rank = 0; rank < threads_.size(); ++rank)
    threads_[rank].at = program_.threadBegin[rank];
  sent_.assign(program_.links.size(), 0);
  sentStaged_.assign(program_.links.size(), 0);
  taken_.assign(program_.readers.size(), 0);
  takenStaged_.assign(program_.readers.size(), 0);
  isAwaited_.assign(program_.readers.size(), 0);
  if (lending_ != nullptr) prepareLoans();
  return loanAt_.size() > kMaxLoanRecords
             ? fail(program_, Property::kMemory, "too many lent chunks to prove")
             : Status::ok();
}

void Run::prepareLoans() {
  firstWait_.assign(program_.operations.size() + 1, 0);
  loanOf_.assign(program_.outs.size(), kNone);
  uint32_t loans = 0;
  for (const Lending::Wait& wait : lending_->waits) {
    ++firstWait_[wait.operation + 1];
    if (loanOf_[wait.out] == kNone) loanOf_[wait.out] = loans++;
  }
  for (size_t i = 1; i < firstWait_.size(); ++i) firstWait_[i] += firstWait_[i - 1];
  const size_t records = size_t{loans} * static_cast<size_t>(slices_);
  loanAt_.assign(std::min(records, kMaxLoanRecords + 1), 0);
}

Status Run::run() {
  Status status = prepare();
  if (!status.isOk()) return status;
  for (int32_t wave = 0; wave < slices_ + program_.maxDelay; ++wave) {
    runAll(wave);
    if (!allReached(wave + 1)) return explain();
  }
  return Status::ok();
}

void Run::runAll(int32_t lastWave) {
  for (int32_t rank = program_.nranks() - 1; rank >= 0; --rank) work_.push_back(rank);
  while (!work_.empty()) {
    const int32_t rank = work_.back();
    work_.pop_back();
    runThread(rank, lastWave);
  }
}

bool Run::allReached(int32_t wave) const {
  return std::all_of(threads_.begin(), threads_.end(),
                     [&](const Thread& thread) { return thread.wave >= wave; });
}

void Run::runThread(int32_t rank, int32_t lastWave) {
  Thread& thread = threads_[static_cast<size_t>(rank)];
  const uint32_t begin = program_.threadBegin[static_cast<size_t>(rank)];
  const uint32_t end = program_.threadBegin[static_cast<size_t>(rank) + 1];
  while (thread.wave <= lastWave) {
    for (; thread.at < end; ++thread.at) {
      const int32_t slice = thread.wave - program_.operations[thread.at].step->delay;
      if (slice < 0 || slice >= slices_) continue;
      if (!isReady(&thread, slice)) return;
      commit(&thread, slice);
    }
    ++thread.wave;
    thread.at = begin;
  }
}

bool Run::block(Thread* thread, Blocked reason, uint32_t reader) {
  thread->blocked = reason;
  thread->reader = reader;
  isAwaited_[reader] |= reason == Blocked::kChunk ? 1 : 2;
  return false;
}

bool Run::isReady(Thread* thread, int32_t slice) {
  const Operation& operation = program_.operations[thread->at];
  for (; thread->ins < operation.inCount; ++thread->ins) {
    const uint32_t reader = program_.ins[operation.firstIn + thread->ins];
    if (taken_[reader] == sent_[program_.readers[reader].link])
      return block(thread, Blocked::kChunk, reader);
  }
  if (!hasSlots(thread, operation)) return false;
  return lending_ == nullptr || loansAreBack(thread, slice);
}

bool Run::hasSlots(Thread* thread, const Operation& operation) {
  for (; thread->outs < operation.outCount; ++thread->outs, thread->outReaders = 0) {
    const uint32_t out = operation.firstOut + thread->outs;
    if (isLent(out)) continue;
    const uint32_t linkNumber = program_.outs[out].link;
    const Link& link = program_.links[linkNumber];
    for (; thread->outReaders < link.readerCount; ++thread->outReaders) {
      const uint32_t reader = link.firstReader + thread->outReaders;
      if (sentStaged_[linkNumber] - takenStaged_[reader] >= slots_)
        return block(thread, Blocked::kSlot, reader);
    }
  }
  return true;
}

bool Run::loansAreBack(Thread* thread, int32_t slice) {
  const uint32_t first = firstWait_[thread->at];
  for (; first + thread->waits < firstWait_[thread->at + 1]; ++thread->waits) {
    const Lending::Wait& wait = lending_->waits[first + thread->waits];
    const int32_t lentSlice = slice - wait.sliceShift;
    if (lentSlice < 0) continue;
    const size_t record =
        size_t{loanOf_[wait.out]} * static_cast<size_t>(slices_) + static_cast<size_t>(lentSlice);
    const Link& link = program_.links[program_.outs[wait.out].link];
    for (uint32_t reader = link.firstReader; reader < link.firstReader + link.readerCount; ++reader)
      if (taken_[reader] <= loanAt_[record]) return block(thread, Blocked::kLoan, reader);
  }
  return true;
}

void Run::commit(Thread* thread, int32_t slice) {
  const Operation& operation = program_.operations[thread->at];
  for (uint32_t in = operation.firstIn; in < operation.firstIn + operation.inCount; ++in) {
    const uint32_t reader = program_.ins[in];
    ++taken_[reader];
    if (!isLent(matching_.chunkOf[in])) ++takenStaged_[reader];
    if ((isAwaited_[reader] & 2) != 0)
      work_.push_back(program_.links[program_.readers[reader].link].source);
    isAwaited_[reader] &= static_cast<uint8_t>(~2);
  }
  for (uint32_t out = operation.firstOut; out < operation.firstOut + operation.outCount; ++out) {
    const uint32_t linkNumber = program_.outs[out].link;
    const Link& link = program_.links[linkNumber];
    if (lending_ != nullptr && loanOf_[out] != kNone)
      loanAt_[size_t{loanOf_[out]} * static_cast<size_t>(slices_) + static_cast<size_t>(slice)] =
          sent_[linkNumber];
    ++sent_[linkNumber];
    if (!isLent(out)) ++sentStaged_[linkNumber];
    for (uint32_t reader = link.firstReader; reader < link.firstReader + link.readerCount;
         ++reader) {
      if ((isAwaited_[reader] & 1) != 0) work_.push_back(program_.readers[reader].rank);
      isAwaited_[reader] &= static_cast<uint8_t>(~1);
    }
  }
  thread->ins = thread->outs = thread->outReaders = thread->waits = 0;
  thread->blocked = Blocked::kNo;
}

// ---- Traces ----

int32_t Run::waitedFor(const Thread& thread) const {
  const Reader& reader = program_.readers[thread.reader];
  return thread.blocked == Blocked::kChunk ? program_.links[reader.link].source : reader.rank;
}

std::string Run::textOf(const Thread& thread) const {
  const Reader& reader = program_.readers[thread.reader];
  const int32_t slice = thread.wave - program_.operations[thread.at].step->delay;
  std::string text =
      nameOf(program_, thread.at) + " slice " + std::to_string(slice) + " waits for ";
  switch (thread.blocked) {
    case Blocked::kNo: return text + "the next wave";
    case Blocked::kChunk: return text + "a chunk on " + nameOf(program_, reader);
    case Blocked::kSlot:
      return text + "one of the " + std::to_string(slots_) + " slots of " +
             nameOf(program_, reader);
    case Blocked::kLoan:
      return text + "rank " + std::to_string(reader.rank) + " to read the block that " +
             nameOf(program_, reader) + " lent";
  }
  return text;
}

// Called when a wave did not end. Without the waves: is it a true deadlock?
Status Run::explain() const {
  Run free(*this);
  free.runAll(slices_ + program_.maxDelay);
  if (!free.allReached(slices_ + program_.maxDelay)) return free.explainCycle();
  for (const Thread& thread : threads_) {
    if (thread.blocked != Blocked::kNo)
      return fail(program_, Property::kProgress,
                  "needs its ranks in different waves, so that no number of slices proves the "
                  "others: in wave " +
                      std::to_string(thread.wave) + " " + textOf(thread));
  }
  return fail(program_, Property::kProgress, "a wave does not end");
}

Status Run::explainCycle() const {
  int32_t rank = 0;
  while (threads_[static_cast<size_t>(rank)].blocked == Blocked::kNo) ++rank;
  std::vector<uint8_t> seen(threads_.size(), 0);
  for (; seen[static_cast<size_t>(rank)] == 0;
       rank = waitedFor(threads_[static_cast<size_t>(rank)]))
    seen[static_cast<size_t>(rank)] = 1;
  const int32_t start = rank;
  std::string text = lending_ == nullptr ? "" : "with lent chunks: ";
  text += "a cycle with K=" + std::to_string(slots_) + ": ";
  int32_t length = 0;
  do {
    const Thread& thread = threads_[static_cast<size_t>(rank)];
    if (++length <= 8) text += textOf(thread) + ", ";
    rank = waitedFor(thread);
  } while (rank != start);
  if (length > 8) text += "... (" + std::to_string(length) + " ranks in all), ";
  return fail(program_, Property::kProgress,
              text + "which rank " + std::to_string(start) + " holds up");
}

}  // namespace

int32_t slicesFor(const Program& program) {
  if (!hasScratch(program)) return program.maxDelay + 2;
  int32_t copies = 1;
  for (const Plan& plan : program.plans) copies = std::max(copies, plan.scratchCopies);
  return program.maxDelay + copies + 1;
}

Status checkProgress(const Program& program, const Matching& matching, int32_t slots,
                     const Lending* lending) {
  if (slots < 1 && !program.links.empty())
    return fail(program, Property::kProgress,
                "a cycle with K=0: " + nameOf(program, program.outs[0].operation) +
                    " needs a slot and the link has none");
  return Run(program, matching, slots, lending).run();
}

}  // namespace omnes::plan::proof
