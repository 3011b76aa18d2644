#include "plan/proof_match.h"

#include <algorithm>
#include <limits>
#include <string>

#include "plan/text.h"

namespace omnes::plan::proof {
namespace {

using base::Status;

// Which ranks a rank has heard of, directly or not. Sets are shared by the chunks that carry them
// and counted; set 0 is "everybody", which most end with.
class HeardSets {
 public:
  explicit HeardSets(int32_t nranks)
      : words_((static_cast<size_t>(nranks) + 63) / 64), nranks_(nranks) {
    const uint32_t everybody = allocate();
    for (int32_t rank = 0; rank < nranks; ++rank) insert(everybody, rank);
  }

  uint32_t only(int32_t rank) {
    if (nranks_ == 1) return kEverybody;
    const uint32_t set = allocate();
    insert(set, rank);
    return set;
  }
  void hold(uint32_t set) { ++users_[set]; }
  void drop(uint32_t set) {
    if (set != kEverybody && --users_[set] == 0) free_.push_back(set);
  }
  // Replaces *set, which the caller holds, by its union with `other`.
  void add(uint32_t* set, uint32_t other) {
    if (*set == kEverybody || *set == other) return;
    if (other == kEverybody) {
      drop(*set);
      *set = kEverybody;
      return;
    }
    if (users_[*set] > 1) {
      const uint32_t copy = allocate();
      std::copy_n(bits_.begin() + offset(*set), words_, bits_.begin() + offset(copy));
      drop(*set);
      *set = copy;
    }
    uint64_t missing = 0;
    for (size_t i = 0; i < words_; ++i) {
      uint64_t& word = bits_[static_cast<size_t>(offset(*set)) + i];
      word |= bits_[static_cast<size_t>(offset(other)) + i];
      missing |= word ^ bits_[i];
    }
    if (missing == 0) {
      drop(*set);
      *set = kEverybody;
    }
  }
  int32_t firstMissing(uint32_t set) const {
    for (int32_t rank = 0; rank < nranks_; ++rank)
      if (((bits_[static_cast<size_t>(offset(set)) + static_cast<size_t>(rank) / 64] >>
            (rank % 64)) &
           1) == 0)
        return rank;
    return -1;
  }

  static constexpr uint32_t kEverybody = 0;

 private:
  std::ptrdiff_t offset(uint32_t set) const { return static_cast<std::ptrdiff_t>(set * words_); }
  uint32_t allocate() {
    uint32_t set = static_cast<uint32_t>(users_.size());
    if (free_.empty()) {
      users_.push_back(1);
      bits_.resize(bits_.size() + words_, 0);
    } else {
      set = free_.back();
      free_.pop_back();
      users_[set] = 1;
      std::fill_n(bits_.begin() + offset(set), words_, 0);
    }
    return set;
  }
  void insert(uint32_t set, int32_t rank) {
    bits_[static_cast<size_t>(offset(set)) + static_cast<size_t>(rank) / 64] |= uint64_t{1}
                                                                                << (rank % 64);
  }

  size_t words_;
  int32_t nranks_;
  std::vector<uint64_t> bits_;
  std::vector<uint32_t> users_;
  std::vector<uint32_t> free_;
};

constexpr int32_t kUnknown = std::numeric_limits<int32_t>::min();

class Matcher {
 public:
  Matcher(const Program& program, Matching* matching)
      : program_(program), matching_(*matching), sets_(program.nranks()) {}

  Status run();

 private:
  struct Thread {
    uint32_t at = 0;       // in sliceOrder
    uint32_t checked = 0;  // sources of the current operation that have arrived
    int32_t depth = 0;
    uint32_t heard = 0;
    bool hasWritten = false;
  };

  Status runThread(int32_t rank);
  bool sourcesArrived(Thread* thread, uint32_t number);
  Status take(Thread* thread, uint32_t number);
  Status compare(uint32_t number, const Ref& source, uint32_t in, uint32_t out);
  void send(const Thread& thread, uint32_t number);
  void noteOutput(Thread* thread, uint32_t number);
  Status finish();
  Status explainStuck(int32_t rank);

  const Program& program_;
  Matching& matching_;
  HeardSets sets_;
  std::vector<Thread> threads_;
  std::vector<int32_t> work_;          // ranks that may move
  std::vector<uint32_t> lastSent_;     // per link: its newest out
  std::vector<uint32_t> nextSent_;     // per out: the next one of its link
  std::vector<uint32_t> readersLeft_;  // per out
  std::vector<uint32_t> heardOf_;      // per out: set at the send
  std::vector<int32_t> depthOf_;       // per out
  std::vector<uint32_t> head_;         // per reader: the chunk it takes next
  std::vector<uint8_t> isAwaited_;     // per reader: its rank sleeps on it
  std::vector<int32_t> skew_;          // per reader: delay of receive - delay of send
};

Status Matcher::run() {
  const size_t outs = program_.outs.size();
  const size_t readers = program_.readers.size();
  lastSent_.assign(program_.links.size(), kNone);
  nextSent_.assign(outs, kNone);
  readersLeft_.assign(outs, 0);
  heardOf_.assign(outs, kNone);
  depthOf_.assign(outs, 0);
  head_.assign(readers, kNone);
  isAwaited_.assign(readers, 0);
  skew_.assign(readers, kUnknown);
  matching_.order.reserve(program_.operations.size());
  matching_.chunkOf.assign(program_.ins.size(), kNone);
  for (int32_t rank = 0; rank < program_.nranks(); ++rank) {
    threads_.push_back(
        {program_.threadBegin[static_cast<size_t>(rank)], 0, 0, sets_.only(rank), false});
    work_.push_back(program_.nranks() - 1 - rank);
  }
  while (!work_.empty()) {
    const int32_t rank = work_.back();
    work_.pop_back();
    Status status = runThread(rank);
    if (!status.isOk()) return status;
  }
  return finish();
}

Status Matcher::runThread(int32_t rank) {
  Thread& thread = threads_[static_cast<size_t>(rank)];
  const uint32_t end = program_.threadBegin[static_cast<size_t>(rank) + 1];
  while (thread.at < end) {
    const uint32_t number = program_.sliceOrder[thread.at];
    if (!sourcesArrived(&thread, number)) return Status::ok();
    Status status = take(&thread, number);
    if (!status.isOk()) return status;
    noteOutput(&thread, number);
    send(thread, number);
    matching_.order.push_back(number);
    matching_.rounds = std::max<int64_t>(matching_.rounds, thread.depth);
    ++thread.at;
    thread.checked = 0;
  }
  return Status::ok();
}

bool Matcher::sourcesArrived(Thread* thread, uint32_t number) {
  const Operation& operation = program_.operations[number];
  for (; thread->checked < operation.inCount; ++thread->checked) {
    const uint32_t reader = program_.ins[operation.firstIn + thread->checked];
    if (head_[reader] != kNone) continue;
    isAwaited_[reader] = 1;
    return false;
  }
  return true;
}

Status Matcher::take(Thread* thread, uint32_t number) {
  const Operation& operation = program_.operations[number];
  uint32_t in = operation.firstIn;
  for (const Ref& source : operation.step->sources) {
    if (source.kind != Ref::Kind::kLink) continue;
    for (int32_t k = 0; k < source.run.count; ++k, ++in) {
      const uint32_t reader = program_.ins[in];
      const uint32_t out = head_[reader];
      Status status = compare(number, source, in, out);
      if (!status.isOk()) return status;
      matching_.chunkOf[in] = out;
      head_[reader] = nextSent_[out];
      thread->depth = std::max(thread->depth, depthOf_[out]);
      sets_.add(&thread->heard, heardOf_[out]);
      if (--readersLeft_[out] == 0) sets_.drop(heardOf_[out]);
    }
  }
  return Status::ok();
}

std::string textOf(const Extents& extents) {
  return "extents " + std::to_string(extents.first) + ":" + std::to_string(extents.count) + ":" +
         std::to_string(extents.stride) +
         (extents.group == 0 ? ""
                             : " in groups of " + std::to_string(extents.group) + " with hop " +
                                   std::to_string(extents.hop));
}

Status Matcher::compare(uint32_t number, const Ref& source, uint32_t in, uint32_t out) {
  const Operation& receive = program_.operations[number];
  const Operation& send = program_.operations[program_.outs[out].operation];
  const uint32_t reader = program_.ins[in];
  const auto failed = [&](const std::string& expected, const std::string& found) {
    return fail(program_, Property::kMatching,
                nameOf(program_, number) + ": " + nameOf(program_, program_.readers[reader]) +
                    ": expected " + expected + ", found " + found + " from " +
                    nameOf(program_, program_.outs[out].operation));
  };
  const bool wantsSignal = receive.step->kind == Step::Kind::kWait;
  const bool isSignal = send.step->kind == Step::Kind::kSignal;
  if (wantsSignal != isSignal)
    return failed(wantsSignal ? "a signal" : "a chunk", isSignal ? "a signal" : "a chunk");
  if (!isSignal && !(receive.extents == send.extents))
    return failed(textOf(receive.extents), textOf(send.extents));
  if (!isSignal && program_.sinkOf(out).mark != source.mark)
    return failed(source.mark == Mark::kInput ? "input" : "partial",
                  source.mark == Mark::kInput ? "partial" : "input");
  const int32_t skew = int32_t{receive.step->delay} - int32_t{send.step->delay};
  if (skew_[reader] == kUnknown) skew_[reader] = skew;
  if (skew_[reader] != skew)
    return failed(
        "the link's constant delay between send and receive, " + std::to_string(skew_[reader]),
        std::to_string(skew));
  return Status::ok();
}

void Matcher::send(const Thread& thread, uint32_t number) {
  const Operation& operation = program_.operations[number];
  for (uint32_t out = operation.firstOut; out < operation.firstOut + operation.outCount; ++out) {
    const Link& link = program_.links[program_.outs[out].link];
    uint32_t& last = lastSent_[program_.outs[out].link];
    if (last != kNone) nextSent_[last] = out;
    last = out;
    readersLeft_[out] = link.readerCount;
    depthOf_[out] = thread.depth + 1;
    heardOf_[out] = thread.heard;
    sets_.hold(thread.heard);
    for (uint32_t reader = link.firstReader; reader < link.firstReader + link.readerCount;
         ++reader) {
      if (head_[reader] == kNone) head_[reader] = out;
      if (isAwaited_[reader] != 0) work_.push_back(program_.readers[reader].rank);
      isAwaited_[reader] = 0;
    }
  }
}

// Only the first write counts: every later one, of this slice or another, comes after it in the
// lane.
void Matcher::noteOutput(Thread* thread, uint32_t number) {
  if (thread->hasWritten) return;
  for (const Ref& sink : program_.operations[number].step->sinks)
    thread->hasWritten |= sink.kind == Ref::Kind::kSlice && sink.space == Space::kOutput;
  if (thread->hasWritten && thread->heard != HeardSets::kEverybody)
    matching_.writesAfterAllPeers = false;
}

Status Matcher::finish() {
  for (int32_t rank = 0; rank < program_.nranks(); ++rank)
    if (threads_[static_cast<size_t>(rank)].at <
        program_.threadBegin[static_cast<size_t>(rank) + 1])
      return explainStuck(rank);
  for (uint32_t reader = 0; reader < program_.readers.size(); ++reader)
    if (head_[reader] != kNone)
      return fail(program_, Property::kMatching,
                  nameOf(program_, program_.readers[reader]) + ": the chunk of " +
                      nameOf(program_, program_.outs[head_[reader]].operation) + " is never taken");
  if (program_.plans[0].collective != Collective::kBarrier) return Status::ok();
  for (int32_t rank = 0; rank < program_.nranks(); ++rank) {
    const Thread& thread = threads_[static_cast<size_t>(rank)];
    if (thread.heard != HeardSets::kEverybody)
      return fail(program_, Property::kValues,
                  "rank " + std::to_string(rank) +
                      " leaves the barrier without knowing that rank " +
                      std::to_string(sets_.firstMissing(thread.heard)) + " has come");
  }
  return Status::ok();
}

Status Matcher::explainStuck(int32_t rank) {
  std::vector<uint8_t> isOnPath(static_cast<size_t>(program_.nranks()), 0);
  std::string path;
  for (int32_t hops = 0;; ++hops) {
    const Thread& thread = threads_[static_cast<size_t>(rank)];
    const std::string rankName = "rank " + std::to_string(rank);
    if (thread.at == program_.threadBegin[static_cast<size_t>(rank) + 1])
      return fail(program_, Property::kMatching,
                  path + rankName + ", which has ended without sending it");
    const uint32_t number = program_.sliceOrder[thread.at];
    const uint32_t reader = program_.ins[program_.operations[number].firstIn + thread.checked];
    if (isOnPath[static_cast<size_t>(rank)] != 0)
      return fail(program_, Property::kProgress,
                  "a cycle with any number of slots: " + path + rankName + " again");
    isOnPath[static_cast<size_t>(rank)] = 1;
    if (hops < 16)
      path += nameOf(program_, number) + " waits for a chunk on " +
              nameOf(program_, program_.readers[reader]) + " of ";
    if (hops == 16) path += "... ";
    rank = program_.links[program_.readers[reader].link].source;
  }
}

}  // namespace

Status match(const Program& program, Matching* matching) {
  return Matcher(program, matching).run();
}

}  // namespace omnes::plan::proof
