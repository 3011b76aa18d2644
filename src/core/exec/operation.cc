#include "core/exec/operation.h"

#include <algorithm>
#include <cstring>

namespace omnes::core {

using plan::Space;
using plan::Step;
using transports::Chunk;
using transports::Link;
using transports::Outcome;

namespace {

// Chunks shorter than this are stored plainly: they stay in the cache anyway.
constexpr size_t kNonTemporalChunkBytes = 4 << 10;
// Outputs are stored around the cache only when input and output together cannot stay in it.
constexpr uint64_t kNonTemporalOutputBytes = 32 << 20;
// The tail line's latency is measured where it matters for the stores, once in a ring's worth of
// chunks.
constexpr size_t kMeasuredChunkBytes = kNonTemporalChunkBytes;
// Steps of a lane in one advance(): others wait to be advanced, too.
constexpr uint64_t kStepsAtOnce = 64;
constexpr uint64_t kLengthMix = 0x9e3779b97f4a7c15u;

}  // namespace

// The data functions over rings that lie in memory we can address: inlined.
struct Operation::RingLinks {
  static Outcome acquire(Link* link, size_t bytes, LineLatency* latency) {
    base::SlotSender* sender = link->sender;
    if (bytes < kMeasuredChunkBytes || sender->hasCredit())
      return sender->tryAcquire() ? Outcome::kOk : Outcome::kAgain;
    const base::Clock& clock = base::Clock::monotonic();
    const base::TimePoint start = clock.now();
    if (!sender->tryAcquire()) return Outcome::kAgain;
    latency->add((clock.now() - start).count());
    return Outcome::kOk;
  }
  static uint8_t* slot(Link* link, size_t bytes) {
    return base::slotPayload(link->sender->slot(), bytes);
  }
  static void commit(Link* link, size_t, uint64_t fingerprint) {
    link->sender->publish(fingerprint);
  }
  static Outcome peek(Link* link, size_t bytes, Chunk* chunk) {
    base::SlotReceiver* receiver = link->receiver;
    if (!receiver->tryPeek()) return Outcome::kAgain;
    chunk->data = base::slotPayload(receiver->slot(), bytes);
    chunk->bytes = bytes;
    chunk->fingerprint = receiver->slot()->fingerprint;
    return Outcome::kOk;
  }
  static void release(Link* link) { link->receiver->release(); }
};

// The same through the transport's table.
struct Operation::TableLinks {
  static Outcome acquire(Link* link, size_t bytes, LineLatency*) {
    Chunk chunk;
    return link->endpoint->table->acquire(link, bytes, &chunk);
  }
  static uint8_t* slot(Link* link, size_t bytes) {
    // acquire() was kOk and stays so until commit(): asking again names the same slot.
    Chunk chunk;
    link->endpoint->table->acquire(link, bytes, &chunk);
    return chunk.data;
  }
  static void commit(Link* link, size_t bytes, uint64_t fingerprint) {
    link->endpoint->table->commit(link, bytes, fingerprint);
  }
  static Outcome peek(Link* link, size_t bytes, Chunk* chunk) {
    return link->endpoint->table->peek(link, bytes, chunk);
  }
  static void release(Link* link) { link->endpoint->table->release(link); }
};

void Operation::start(const Prepared& prepared, const CallBuffers& buffers, uint64_t fingerprint,
                      uint64_t scalarBits, bool nonTemporal) {
  prepared_ = &prepared;
  buffers_ = buffers;
  reduction_ = prepared.reduction;
  reduction_.scalarBits = scalarBits;
  fingerprint_ = fingerprint;
  nonTemporal_ = nonTemporal;
  nonTemporalOutput_ = prepared.shape.count * prepared.elementBytes >= kNonTemporalOutputBytes;
  isUneven_ = !prepared.extentElements.empty();
  failure_ = {};
  stepsDone_ = 0;
  stepsTotal_ = 0;
  for (const PreparedLane& lane : prepared.lanes) stepsTotal_ += lane.slices * lane.steps.size();
  cursors_.assign(prepared.lanes.size(), Cursor{});
  if (scratch_.size() < prepared.scratchBytes()) scratch_.resize(prepared.scratchBytes());
  if (chunks_.size() < prepared.maxSources) {
    chunks_.resize(prepared.maxSources);
    sources_.resize(prepared.maxSources);
    sinks_.resize(prepared.maxSources);
  }
  if (bases_.size() < 2 * size_t{prepared.maxSources})
    bases_.resize(2 * size_t{prepared.maxSources});
}

Progress Operation::advance() {
  return prepared_->allRings ? advanceWith<RingLinks>() : advanceWith<TableLinks>();
}

template <class Links>
Progress Operation::advanceWith() {
  const uint64_t before = stepsDone_;
  bool done = true;
  for (size_t lane = 0; lane < prepared_->lanes.size(); ++lane) {
    const Progress progress = advanceLane<Links>(lane);
    if (progress == Progress::kFailed) return progress;
    if (progress == Progress::kDone) continue;
    if (done) stuckLane_ = lane;
    done = false;
  }
  if (done) return Progress::kDone;
  return stepsDone_ != before ? Progress::kMoved : Progress::kStuck;
}

template <class Links>
Progress Operation::advanceLane(size_t laneIndex) {
  const PreparedLane& lane = prepared_->lanes[laneIndex];
  Cursor& cursor = cursors_[laneIndex];
  const uint64_t lanes = prepared_->lanes.size();
  const uint32_t steps = static_cast<uint32_t>(lane.steps.size());
  const uint64_t enough = stepsDone_ + kStepsAtOnce;
  for (; cursor.wave < lane.waves; ++cursor.wave, cursor.step = 0) {
    for (; cursor.step < steps; ++cursor.step) {
      const PreparedStep& step = lane.steps[cursor.step];
      if (cursor.wave < step.delay || cursor.wave - step.delay >= lane.slices) continue;
      const uint64_t laneSlice = cursor.wave - step.delay;
      int table = laneSlice * lanes + laneIndex + 1 == prepared_->slices ? 1 : 0;
      chunkElements_ = step.chunkElements[table];
      if (isUneven_) [[unlikely]] {
        table = 0;
        sliceStart_ = (laneSlice * lanes + laneIndex) * prepared_->sliceElements;
        chunkElements_ = chunkElementsLeft(step);
      }
      const Readiness ready = readiness<Links>(step, &cursor);
      if (ready == Readiness::kFailed) return Progress::kFailed;
      if (ready == Readiness::kNotReady) return Progress::kStuck;
      run<Links>(step, laneIndex, laneSlice, table);
      ++stepsDone_;
      cursor.ready = 0;
      if (isInterrupted() || stepsDone_ == enough) [[unlikely]] {
        ++cursor.step;
        return Progress::kMoved;
      }
    }
  }
  return Progress::kDone;
}

uint64_t Operation::elementsLeft(const PreparedPiece& piece) const {
  const uint64_t length = prepared_->extentElements[piece.extent];
  return length > sliceStart_ ? std::min(length - sliceStart_, prepared_->sliceElements) : 0;
}

uint64_t Operation::chunkElementsLeft(const PreparedStep& step) const {
  uint64_t sum = 0;
  for (uint32_t p = 0; p < step.pieces; ++p)
    sum += elementsLeft(prepared_->pieces[step.firstPiece + p]);
  return sum;
}

size_t Operation::operandBytes(const PreparedOperand& operand) const {
  const size_t width =
      operand.mark == kernels::Mark::kInput ? prepared_->elementBytes : prepared_->wireBytes;
  return chunkElements_ * width;
}

uint64_t Operation::chunkFingerprint(size_t bytes) const {
  return fingerprint_ + bytes * kLengthMix;
}

template <class Links>
Operation::Readiness Operation::readiness(const PreparedStep& step, Cursor* cursor) {
  const uint32_t operands = step.sources + step.sinks;
  for (; cursor->ready < operands; ++cursor->ready) {
    const PreparedOperand& operand = prepared_->operands[step.firstOperand + cursor->ready];
    if (!operand.isLink) continue;
    const size_t bytes = operandBytes(operand);
    Outcome outcome;
    if (cursor->ready < step.sources) {
      Chunk chunk;
      outcome = Links::peek(operand.link, bytes, &chunk);
      if (outcome == Outcome::kOk && chunk.fingerprint != chunkFingerprint(bytes)) {
        failure_ = {OperationFailure::Kind::kMismatch, operand.peer, "mismatch"};
        return Readiness::kFailed;
      }
    } else {
      outcome = Links::acquire(operand.link, bytes, &lineLatency_);
    }
    if (outcome == Outcome::kAgain) return Readiness::kNotReady;
    if (outcome != Outcome::kOk) [[unlikely]]
      return failWith(outcome, operand);
  }
  return Readiness::kReady;
}

Operation::Readiness Operation::failWith(Outcome outcome, const PreparedOperand& operand) {
  const transports::Endpoint* endpoint = operand.link->endpoint;
  const bool gone = outcome == Outcome::kPeerGone;
  failure_ = {gone ? OperationFailure::Kind::kPeerGone : OperationFailure::Kind::kTransport,
              gone ? endpoint->failedPeer : operand.peer, endpoint->error};
  return Readiness::kFailed;
}

template <class Links>
void Operation::run(const PreparedStep& step, size_t lane, uint64_t laneSlice, int table) {
  const PreparedOperand* operands = prepared_->operands.data() + step.firstOperand;
  if (step.kind == Step::Kind::kMove) move<Links>(step, lane, laneSlice, table);
  // Publish before giving slots back: others wait for the former.
  for (uint32_t i = step.sources; i < step.sources + step.sinks; ++i) {
    if (!operands[i].isLink) continue;
    const size_t bytes = operandBytes(operands[i]);
    if (step.kind == Step::Kind::kSignal) Links::slot(operands[i].link, 0);
    Links::commit(operands[i].link, bytes, chunkFingerprint(bytes));
  }
  for (uint32_t i = 0; i < step.sources; ++i)
    if (operands[i].isLink) Links::release(operands[i].link);
}

// Finds where the operands' bytes start: a slot, or the space of a slice.
template <class Links>
void Operation::bindOperands(const PreparedStep& step, size_t lane, uint64_t laneSlice) {
  const uint64_t slice = laneSlice * prepared_->lanes.size() + lane;
  const uint64_t moved = slice * prepared_->sliceElements;
  for (uint32_t i = 0; i < step.sources + step.sinks; ++i) {
    const PreparedOperand& operand = prepared_->operands[step.firstOperand + i];
    if (operand.isLink) {
      const size_t bytes = operandBytes(operand);
      if (i < step.sources) {
        Links::peek(operand.link, bytes, &chunks_[i]);
        bases_[i] = chunks_[i].data;
      } else {
        bases_[i] = Links::slot(operand.link, bytes);
      }
      continue;
    }
    switch (operand.space) {
      case Space::kInput:
        // Sources only; the verifier has shown that nothing writes here.
        bases_[i] = static_cast<uint8_t*>(const_cast<void*>(buffers_.send)) +
                    moved * prepared_->elementBytes;
        break;
      case Space::kOutput:
        bases_[i] = static_cast<uint8_t*>(buffers_.recv) + moved * prepared_->elementBytes;
        break;
      case Space::kScratch: {
        const uint64_t copy =
            lane * prepared_->scratchCopies + laneSlice % prepared_->scratchCopies;
        bases_[i] = scratch_.data() + copy * prepared_->scratchCopyElements * prepared_->wireBytes;
        break;
      }
    }
  }
}

template <class Links>
void Operation::move(const PreparedStep& step, size_t lane, uint64_t laneSlice, int table) {
  bindOperands<Links>(step, lane, laneSlice);
  const PreparedOperand* operands = prepared_->operands.data() + step.firstOperand;
  uint64_t before = 0;  // elements of the pieces before, in V forms
  const auto at = [&](uint32_t i, const PreparedPiece& piece) {
    // Scratch is laid out in wire elements whatever it holds, so that offsets do not depend on
    // marks.
    const size_t width = (operands[i].mark == kernels::Mark::kInput &&
                          (operands[i].isLink || operands[i].space != Space::kScratch))
                             ? prepared_->elementBytes
                             : prepared_->wireBytes;
    const uint64_t offset = isUneven_ && operands[i].isLink
                                ? before
                                : prepared_->offsets[piece.firstOffset + 2 * i + table];
    return bases_[i] + offset * width;
  };
  for (uint32_t p = 0; p < step.pieces; ++p) {
    const PreparedPiece& piece = prepared_->pieces[step.firstPiece + p];
    const uint64_t elements = isUneven_ ? elementsLeft(piece) : piece.elements[table];
    if (elements == 0) continue;
    for (uint32_t i = 0; i < step.sources; ++i) sources_[i] = {at(i, piece), operands[i].mark};
    for (uint32_t k = 0; k < step.sinks; ++k) {
      const PreparedOperand& sink = operands[step.sources + k];
      const bool stream =
          sink.isLink ? nonTemporal_ && elements * prepared_->elementBytes >= kNonTemporalChunkBytes
                      : nonTemporalOutput_ && sink.space == Space::kOutput;
      sinks_[k] = {at(step.sources + k, piece), sink.mark, stream};
    }
    if (step.op == plan::Op::kReduce) {
      prepared_->reduce(reduction_, sources_.data(), step.sources, sinks_.data(), step.sinks,
                        elements);
    } else {
      const size_t width = operands[0].mark == kernels::Mark::kInput ? prepared_->elementBytes
                                                                     : prepared_->wireBytes;
      for (uint32_t k = 0; k < step.sinks; ++k)
        if (sinks_[k].data != sources_[0].data)
          kernels::copy(sinks_[k].data, sources_[0].data, elements * width, sinks_[k].nonTemporal);
    }
    before += elements;
  }
}

int32_t Operation::waitingFor() const {
  const PreparedLane& lane = prepared_->lanes[stuckLane_];
  const Cursor& cursor = cursors_[stuckLane_];
  if (cursor.step >= lane.steps.size()) return -1;
  const PreparedStep& step = lane.steps[cursor.step];
  const PreparedOperand& operand = prepared_->operands[step.firstOperand + cursor.ready];
  const transports::Link* link = operand.link;
  if (operand.peer >= 0 || link == nullptr) return operand.peer;
  return link->sender != nullptr ? link->readers[link->sender->slowestReader()] : link->awaited;
}

}  // namespace omnes::core
