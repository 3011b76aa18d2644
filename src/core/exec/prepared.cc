#include "core/exec/prepared.h"

#include <algorithm>
#include <string>

#include "transports/streams.h"

namespace omnes::core {
namespace {

using base::Code;
using base::Result;
using base::Status;
using plan::Ref;
using plan::Space;
using plan::Step;

// A plan longer than this would need a loop counter in the cursor; no plan of this version comes
// near.
constexpr size_t kMaxUnrolledSteps = 1 << 16;
// A slice that no link's slot bounds (one rank): an abort is looked for between slices.
constexpr uint64_t kLinklessSliceBytes = 4 << 20;
// Messages below this stay in one slice even when a plan has several lanes.
constexpr uint64_t kLaneSplitBytes = 64 << 10;

uint64_t ceilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
uint64_t roundUp(uint64_t a, uint64_t b) { return ceilDiv(a, b) * b; }

// How a slice is cut: extents' lengths and offsets for a full slice (0) and the last one (1).
struct Cutting {
  uint64_t slices = 0;
  uint64_t sliceElements = 0;
  std::vector<uint64_t> offset[2];  // blocks + 1 running sums of extent lengths

  uint64_t length(int table, int32_t extent) const {
    return offset[table][extent + 1] - offset[table][extent];
  }
};

class Preparer {
 public:
  Preparer(const plan::Plan& plan, const Shape& shape, const LinkLookup& links,
           const VectorLayout* layout)
      : plan_(plan), links_(links), layout_(layout) {
    if (layout != nullptr) out_.extentElements.assign(layout->counts.begin(), layout->counts.end());
    out_.shape = shape;
    out_.rank = plan.rank;
    out_.elementBytes = base::sizeOf(shape.type);
    out_.wireBytes =
        std::max(base::sizeOf(base::wireType(shape.type, shape.op)), out_.elementBytes);
    out_.reduction = {shape.type, shape.op, static_cast<uint32_t>(plan.nranks), 0};
    out_.reduce = kernels::selectReduce(shape.type, shape.op);
    out_.scratchCopies = plan.scratchCopies;
  }

  Result<Prepared> run() {
    OMNES_RETURN_IF_ERROR(openLinks());
    OMNES_RETURN_IF_ERROR(cut());
    out_.lanes.resize(plan_.lanes.size());
    for (size_t lane = 0; lane < plan_.lanes.size(); ++lane) OMNES_RETURN_IF_ERROR(unroll(lane));
    return std::move(out_);
  }

 private:
  // PreMulSum: every rank has a factor of its own, so a contribution is scaled (and widened) by its
  // owner when it leaves the input buffer, and travels as a partial sum of one term.
  bool scalesAtOwner() const { return out_.shape.op == base::ReduceOp::kPreMulSum; }
  bool isOuter() const { return plan_.cut == plan::Cut::kOuter; }
  uint64_t modulus(const Ref& ref) const {
    return ref.kind == Ref::Kind::kLink ? plan_.nranks : plan::blockCount(plan_, ref.space);
  }

  // Opens every link once, to learn the smallest slot and whether all are rings.
  Status openLinks() {
    out_.allRings = true;
    for (const plan::Lane& lane : plan_.lanes)
      for (const Step& step : lane.steps) {
        iterationsOf_ = step.kind == Step::Kind::kLoop      ? step.iterations
                        : step.kind == Step::Kind::kEndLoop ? 1
                                                            : iterationsOf_;
        if (step.kind == Step::Kind::kLoop || step.kind == Step::Kind::kEndLoop) continue;
        for (int32_t i = 0; i < iterationsOf_; ++i) {
          const bool moves = step.kind == Step::Kind::kMove;
          for (const Ref& ref : step.sources) OMNES_RETURN_IF_ERROR(openLink(ref, i, false, moves));
          for (const Ref& ref : step.sinks) OMNES_RETURN_IF_ERROR(openLink(ref, i, true, moves));
        }
      }
    return Status::ok();
  }

  Status openLink(const Ref& ref, int32_t iteration, bool outgoing, bool carriesBytes) {
    if (ref.kind != Ref::Kind::kLink) return Status::ok();
    const int32_t count = outgoing ? 1 : ref.run.count;
    for (int32_t k = 0; k < count; ++k) {
      OMNES_ASSIGN_OR_RETURN(const LinkList links, lookUp(ref, k, iteration, outgoing));
      for (const transports::Link* link : links) {
        const bool isRing = outgoing ? link->sender != nullptr : link->receiver != nullptr;
        out_.allRings = out_.allRings && isRing;
        if (carriesBytes) smallestSlot_ = std::min(smallestSlot_, link->slotBytes);
        // What all links of the class have, whatever carries them: ranks must agree on the answer.
        const uint32_t slots =
            std::min(link->credits, transports::streamClass(ref.stream, link->slotBytes).slots);
        if (slots < static_cast<uint32_t>(plan_.minCredits))
          return Status(Code::kNotSupported, "algorithm " + plan_.algorithm + " needs " +
                                                 std::to_string(plan_.minCredits) +
                                                 " slots a link, there are " +
                                                 std::to_string(slots));
      }
    }
    return Status::ok();
  }

  Result<LinkList> lookUp(const Ref& ref, int32_t k, int32_t iteration, bool outgoing) {
    return links_({outgoing, ref.stream, plan::valueOf(ref.run, k, iteration, plan_.nranks)});
  }

  // Chooses the slice and cuts it. A function of agreed inputs only: count, type, op, plan-wide
  // numbers, slot sizes. Extents are whole cache lines unless the slots are too small for that.
  Status cut() {
    if (layout_ != nullptr &&
        (!isOuter() || static_cast<size_t>(plan_.blocks) != layout_->counts.size()))
      return Status(Code::kNotSupported,
                    "algorithm " + plan_.algorithm + " has other blocks than one a rank");
    // The longest block decides how many slices there are.
    const uint64_t count = layout_ == nullptr
                               ? out_.shape.count
                               : *std::max_element(layout_->counts.begin(), layout_->counts.end());
    const uint64_t blocks = static_cast<uint64_t>(std::max(plan_.blocks, 1));
    const uint64_t perExtent = isOuter() ? count : ceilDiv(count, blocks);
    uint64_t most = UINT64_MAX;  // elements of an extent that the largest chunk leaves room for
    const auto cap = [&](int32_t chunkBlocks, size_t width) {
      if (chunkBlocks > 0) most = std::min<uint64_t>(most, smallestSlot_ / (chunkBlocks * width));
    };
    cap(plan_.maxInputChunkBlocks, scalesAtOwner() ? out_.wireBytes : out_.elementBytes);
    cap(plan_.maxPartialChunkBlocks, out_.wireBytes);
    if (most == UINT64_MAX)
      most = std::max<uint64_t>(1, kLinklessSliceBytes / out_.elementBytes / blocks);
    if (most == 0)
      return Status(Code::kNotSupported,
                    "algorithm " + plan_.algorithm + " does not fit in slots of " +
                        std::to_string(smallestSlot_) + " bytes; raise OMNES_SLOT_BYTES");
    uint64_t line = std::max<uint64_t>(1, base::kLineBytes / out_.elementBytes);
    if (most < line) line = 1;
    uint64_t extent = std::min(roundUp(perExtent, line), most / line * line);
    const uint64_t lanes = plan_.lanes.size();
    const uint64_t perLane = roundUp(ceilDiv(perExtent, lanes), line);
    if (lanes > 1 && perLane * blocks * out_.elementBytes >= kLaneSplitBytes)
      extent = std::min(extent, perLane);

    Cutting& c = cutting_;
    c.sliceElements = isOuter() ? extent : extent * blocks;
    if (plan_.collective == plan::Collective::kBarrier) {
      c.slices = 1;
    } else {
      // A call of zero elements still runs one slice: it posts its fingerprint and synchronises.
      c.slices = std::max<uint64_t>(1, c.sliceElements == 0 ? 1 : ceilDiv(count, c.sliceElements));
    }
    const uint64_t last = count - (c.slices - 1) * c.sliceElements;
    for (int table = 0; table < 2; ++table) {
      const uint64_t total = table == 0 ? c.sliceElements : last;
      // The last slice is cut evenly too, by its own length.
      const uint64_t per = isOuter() ? total : roundUp(ceilDiv(total, blocks), line);
      c.offset[table].push_back(0);
      for (uint64_t b = 1; b <= blocks; ++b)
        c.offset[table].push_back(isOuter() ? b * per : std::min(b * per, total));
    }
    out_.slices = c.slices;
    out_.sliceElements = c.sliceElements;
    out_.scratchCopyElements = ceilDiv(plan_.scratchBlocks, blocks) * c.offset[0][blocks];
    return Status::ok();
  }

  Status unroll(size_t laneIndex) {
    const std::vector<Step>& steps = plan_.lanes[laneIndex].steps;
    PreparedLane& lane = out_.lanes[laneIndex];
    const uint64_t lanes = plan_.lanes.size();
    lane.slices = cutting_.slices > laneIndex ? ceilDiv(cutting_.slices - laneIndex, lanes) : 0;
    uint16_t maxDelay = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind != Step::Kind::kLoop) {
        OMNES_RETURN_IF_ERROR(emit(steps[i], 0, &lane));
        maxDelay = std::max(maxDelay, steps[i].delay);
        continue;
      }
      size_t end = i;
      while (steps[end].kind != Step::Kind::kEndLoop) ++end;
      for (int32_t iteration = 0; iteration < steps[i].iterations; ++iteration)
        for (size_t s = i + 1; s < end; ++s) {
          OMNES_RETURN_IF_ERROR(emit(steps[s], iteration, &lane));
          maxDelay = std::max(maxDelay, steps[s].delay);
        }
      i = end;
    }
    lane.waves = lane.slices == 0 ? 0 : lane.slices + maxDelay;
    return Status::ok();
  }

  Status emit(const Step& step, int32_t iteration, PreparedLane* lane) {
    if (lane->steps.size() >= kMaxUnrolledSteps)
      return Status(Code::kNotSupported,
                    "algorithm " + plan_.algorithm + " is too long to run at this size");
    PreparedStep made;
    made.kind = step.kind;
    made.op = step.op;
    const bool leavesInput = step.op == plan::Op::kNone && step.kind == Step::Kind::kMove &&
                             step.sources[0].kind == Ref::Kind::kSlice &&
                             step.sources[0].space == Space::kInput;
    if (scalesAtOwner() && leavesInput) made.op = plan::Op::kReduce;
    // Nothing to combine, scale or divide: a copy, which keeps even the payloads of NaNs.
    if (plan_.nranks == 1 && !scalesAtOwner()) made.op = plan::Op::kNone;
    made.delay = step.delay;
    made.firstOperand = static_cast<uint32_t>(out_.operands.size());
    operandRefs_.clear();
    for (const Ref& ref : step.sources) OMNES_RETURN_IF_ERROR(addOperand(ref, iteration, false));
    made.sources = static_cast<uint32_t>(out_.operands.size()) - made.firstOperand;
    for (const Ref& ref : step.sinks) OMNES_RETURN_IF_ERROR(addOperand(ref, iteration, true));
    made.sinks = static_cast<uint32_t>(out_.operands.size()) - made.firstOperand - made.sources;
    if (scalesAtOwner()) markScaled(made, leavesInput);
    out_.maxSources = std::max(out_.maxSources, std::max(made.sources, made.sinks));
    if (step.kind == Step::Kind::kMove) OMNES_RETURN_IF_ERROR(addPieces(step, iteration, &made));
    lane->steps.push_back(made);
    return Status::ok();
  }

  // The operands that hold a contribution outside the input buffer: what a step takes from there
  // and passes on, and what a reduction gets from elsewhere. (A reduction never consumes a final
  // result; the verifier has shown that.)
  void markScaled(const PreparedStep& step, bool leavesInput) {
    const uint32_t end = step.firstOperand + step.sources + step.sinks;
    for (uint32_t i = step.firstOperand; i < end; ++i) {
      PreparedOperand& operand = out_.operands[i];
      const bool isSink = i >= step.firstOperand + step.sources;
      const bool isElsewhere = operand.isLink || operand.space == Space::kScratch;
      if (isElsewhere && (isSink ? leavesInput : step.op == plan::Op::kReduce))
        operand.mark = kernels::Mark::kPartial;
    }
  }

  Status addOperand(const Ref& ref, int32_t iteration, bool outgoing) {
    PreparedOperand operand;
    operand.mark = ref.mark == plan::Mark::kInput ? kernels::Mark::kInput : kernels::Mark::kPartial;
    if (ref.kind == Ref::Kind::kSlice) {
      operand.space = ref.space;
      out_.operands.push_back(operand);
      operandRefs_.push_back(&ref);
      return Status::ok();
    }
    operand.isLink = true;
    const int32_t count = outgoing ? 1 : ref.run.count;
    for (int32_t k = 0; k < count; ++k) {
      OMNES_ASSIGN_OR_RETURN(const LinkList links, lookUp(ref, k, iteration, outgoing));
      operand.peer =
          outgoing && ref.run.count > 1 ? -1 : plan::valueOf(ref.run, k, iteration, plan_.nranks);
      // A multicast that more than one transport carries is written once for each.
      for (transports::Link* link : links) {
        operand.link = link;
        out_.operands.push_back(operand);
        operandRefs_.push_back(&ref);
      }
    }
    return Status::ok();
  }

  // Cuts the step's list of blocks into pieces that are contiguous in every slice operand.
  Status addPieces(const Step& step, int32_t iteration, PreparedStep* made) {
    made->firstPiece = static_cast<uint32_t>(out_.pieces.size());
    const Ref* slice = nullptr;  // any slice operand tells the extents
    for (const auto* refs : {&step.sources, &step.sinks})
      for (const Ref& ref : *refs)
        if (ref.kind == Ref::Kind::kSlice) slice = &ref;
    if (slice == nullptr)
      return Status(Code::kNotSupported,
                    "algorithm " + plan_.algorithm + " relays a chunk without keeping it");
    const int32_t blocks = slice->run.count;
    for (int32_t k = 0; k < blocks;) {
      int32_t end = k + 1;
      while (end < blocks && continues(end, iteration)) ++end;
      addPiece(k, end, iteration, *slice, made);
      k = end;
    }
    made->pieces = static_cast<uint32_t>(out_.pieces.size()) - made->firstPiece;
    return Status::ok();
  }

  // Whether block k of every slice operand lies right behind its block k - 1.
  bool continues(int32_t k, int32_t iteration) const {
    if (isOuter()) return false;
    for (const Ref* ref : operandRefs_) {
      if (ref->kind != Ref::Kind::kSlice) continue;
      // Scratch keeps every block at its place in wire elements, so narrow blocks do not touch each
      // other.
      if (ref->space == Space::kScratch && ref->mark == plan::Mark::kInput &&
          out_.elementBytes != out_.wireBytes)
        return false;
      const int32_t m = static_cast<int32_t>(modulus(*ref));
      const int32_t before = plan::valueOf(ref->run, k - 1, iteration, m);
      const int32_t here = plan::valueOf(ref->run, k, iteration, m);
      if (here != before + 1) return false;
      // The second copy of the extents in scratch begins where a full slice ends; a last one is
      // shorter.
      if (ref->space == Space::kScratch && here % plan_.blocks == 0) return false;
    }
    return true;
  }

  void addPiece(int32_t begin, int32_t end, int32_t iteration, const Ref& slice,
                PreparedStep* made) {
    PreparedPiece piece{};
    piece.firstOffset = static_cast<uint32_t>(out_.offsets.size());
    const int32_t m = static_cast<int32_t>(modulus(slice));
    piece.extent = static_cast<uint32_t>(
        plan::extentOf(plan_, slice.space, plan::valueOf(slice.run, begin, iteration, m)));
    for (int table = 0; table < 2; ++table) {
      for (int32_t k = begin; k < end; ++k) {
        const int32_t block = plan::valueOf(slice.run, k, iteration, m);
        piece.elements[table] += cutting_.length(table, plan::extentOf(plan_, slice.space, block));
      }
    }
    for (const Ref* ref : operandRefs_) {
      const int32_t modulusOfRef = static_cast<int32_t>(modulus(*ref));
      for (int table = 0; table < 2; ++table)
        out_.offsets.push_back(
            ref->kind == Ref::Kind::kSlice
                ? offsetOf(ref->space, plan::valueOf(ref->run, begin, iteration, modulusOfRef),
                           table)
                : made->chunkElements[table]);
    }
    for (int table = 0; table < 2; ++table) made->chunkElements[table] += piece.elements[table];
    out_.pieces.push_back(piece);
  }

  // Element offset of a block from the start of its space (for scratch: of the copy of the lane).
  uint64_t offsetOf(Space space, int32_t block, int table) const {
    const uint64_t blocks = plan_.blocks;
    if (space == Space::kScratch) {
      return block / blocks * cutting_.offset[0][blocks] + cutting_.offset[table][block % blocks];
    }
    if (!isOuter()) return cutting_.offset[table][block];
    if (layout_ != nullptr) {
      const bool hasAll =
          (space == Space::kOutput) == (plan_.collective == plan::Collective::kAllGather);
      return hasAll ? layout_->displacements[block] : 0;
    }
    return static_cast<uint64_t>(block) *
           out_.shape.count;  // a space of one block has only block 0
  }

  const plan::Plan& plan_;
  const LinkLookup& links_;
  const VectorLayout* layout_;
  Prepared out_;
  Cutting cutting_;
  size_t smallestSlot_ = SIZE_MAX;
  int32_t iterationsOf_ = 1;
  std::vector<const Ref*> operandRefs_;
};

}  // namespace

Result<Prepared> prepare(const plan::Plan& plan, const Shape& shape, const LinkLookup& links,
                         const VectorLayout* layout) {
  return Preparer(plan, shape, links, layout).run();
}

BufferBytes bufferBytes(const Shape& shape, int32_t rank, int32_t nranks) {
  const uint64_t one = shape.count * base::sizeOf(shape.type);
  const bool isRoot = rank == shape.root;
  switch (shape.collective) {
    case plan::Collective::kReduceScatter: return {one * nranks, one};
    case plan::Collective::kAllGather: return {one, one * nranks};
    case plan::Collective::kAllToAll: return {one * nranks, one * nranks};
    case plan::Collective::kBroadcast: return {isRoot ? one : 0, one};
    case plan::Collective::kReduce: return {one, isRoot ? one : 0};
    case plan::Collective::kGather: return {one, isRoot ? one * nranks : 0};
    case plan::Collective::kScatter: return {isRoot ? one * nranks : 0, one};
    case plan::Collective::kBarrier: return {0, 0};
    default: return {one, one};
  }
}

}  // namespace omnes::core
