// A plan made ready for one shape of call: loops unrolled, links looked up, blocks turned into
// element offsets.
//
// Preparing is the slow part and happens once per shape; the result holds no pointer of the caller,
// so new buffers reuse it. Immutable after prepare(). Borrows the links, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "core/exec/link_set.h"
#include "kernels/kernels.h"
#include "plan/plan.h"
#include "transports/transport.h"

namespace omnes::core {

// What the ranks of a call agree on (and what the cache of prepared operations is keyed by).
struct Shape {
  plan::Collective collective = plan::Collective::kAllReduce;
  uint64_t count = 0;  // elements, with the meaning of the C call
  base::DataType type = base::DataType::kFloat32;
  base::ReduceOp op = base::ReduceOp::kSum;
  int32_t root = -1;  // of collectives that have one
  bool operator==(const Shape&) const = default;
};

// Of a collective whose blocks have lengths of their own (its V form): by rank, in elements, the
// length of the block and where it lies in the buffer that has all blocks. Blocks do not overlap
// there; what lies between them is left alone.
struct VectorLayout {
  std::span<const uint64_t> counts;
  std::span<const uint64_t> displacements;
};

struct PreparedOperand {
  bool isLink = false;
  plan::Space space = plan::Space::kInput;  // slices
  kernels::Mark mark = kernels::Mark::kInput;
  int32_t peer = -1;  // links: whom we wait for; -1 = a group
  transports::Link* link = nullptr;
};

// A range of extents that is contiguous in every operand of its step. Its offsets, one pair per
// operand of the step, are in elements for the full and for the last slice, from the start of the
// operand's space.
struct PreparedPiece {
  uint64_t elements[2];
  uint32_t firstOffset;
  uint32_t extent;  // of its first block
};

struct PreparedStep {
  plan::Step::Kind kind = plan::Step::Kind::kMove;
  plan::Op op = plan::Op::kNone;
  uint16_t delay = 0;
  uint32_t firstOperand = 0;  // sources, then sinks
  uint32_t sources = 0;
  uint32_t sinks = 0;
  uint32_t firstPiece = 0;
  uint32_t pieces = 0;
  uint64_t chunkElements[2] = {0, 0};  // of every link operand, for the full and the last slice
};

struct PreparedLane {
  std::vector<PreparedStep> steps;
  uint64_t slices = 0;
  uint64_t waves = 0;
};

struct Prepared {
  Shape shape;
  std::string_view algorithm;  // registered name, static storage; set by whoever chose it
  kernels::Reduction reduction;
  kernels::ReduceFunction reduce = nullptr;
  int32_t rank = 0;
  size_t elementBytes = 0;
  size_t wireBytes = 0;
  uint64_t slices = 0;
  uint64_t sliceElements = 0;        // how far one slice moves on in input and output
  uint64_t scratchCopyElements = 0;  // of one copy of a lane's scratch
  int32_t scratchCopies = 1;
  bool allRings = false;  // every link can be driven inline
  uint32_t maxSources = 0;
  std::vector<PreparedLane> lanes;
  std::vector<PreparedOperand> operands;
  std::vector<PreparedPiece> pieces;
  std::vector<uint64_t> offsets;  // pairs {full, last}
  // V forms: the length of every extent. Each piece is then one extent, of which a slice holds what
  // is left of it, at most sliceElements; the numbers in pieces and chunks are the most, and of the
  // offsets only the first of a pair counts, and for links none.
  std::vector<uint64_t> extentElements;

  size_t scratchBytes() const {
    return lanes.size() * scratchCopies * scratchCopyElements * wireBytes;
  }
};

using LinkLookup = std::function<base::Result<LinkList>(const transports::LinkShape&)>;

// layout: for V forms, whose plan is that of the collective with even blocks; else null.
// Fails with kNotSupported when the links have fewer credits than the plan needs or the plan is too
// long to unroll.
base::Result<Prepared> prepare(const plan::Plan& plan, const Shape& shape, const LinkLookup& links,
                               const VectorLayout* layout = nullptr);

// Total bytes of the buffers of a call, for limits and messages: {send, recv}.
struct BufferBytes {
  uint64_t send;
  uint64_t recv;
};
BufferBytes bufferBytes(const Shape& shape, int32_t rank, int32_t nranks);

}  // namespace omnes::core
