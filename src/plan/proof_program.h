// The verifier's working form of a plan set: one lane of all ranks, loops unrolled, every link
// resolved to a number.
//
// Private to src/plan. The verifier treats lanes one by one, since they may share nothing: links
// belong to one lane at both ends (checked here), scratch is per lane, and different slices of a
// lane or of several lanes use disjoint parts of input and output. A "thread" below is one rank
// running the lane at hand. Value types, used by one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace omnes::plan::proof {

inline constexpr uint32_t kNone = UINT32_MAX;

enum class Property : uint8_t {
  kMatching = 1,
  kProgress = 2,
  kValues = 3,
  kRaces = 4,
  kMemory = 5,
};

// A run as the extents it touches: first, first + stride, ... modulo the number of extents, and
// with groups a step of `hop` instead of `stride` from the end of each to the next. The stride is
// that of the blocks, or its negative where extents fall as blocks rise (the output of an
// all-to-all).
// Canonical: two runs touch the same extents in the same order exactly when these are equal.
struct Extents {
  int32_t first = 0;
  int32_t stride = 0;
  int32_t count = 0;
  int32_t group = 0;
  int32_t hop = 0;
  bool operator==(const Extents&) const = default;
  int32_t at(int32_t position, int32_t modulus) const {
    const int64_t hops = group > 0 ? position / group : 0;
    return static_cast<int32_t>((first + stride * (position - hops) + hop * hops) % modulus);
  }
};

// One step in one loop iteration of one rank.
struct Operation {
  const Step* step = nullptr;  // borrows from the plans
  int32_t rank = 0;
  int32_t index = 0;  // of the step in its lane
  int32_t iteration = 0;
  uint32_t firstIn = 0;  // ins[firstIn ...]: one for each peer of each link source, in order
  uint32_t inCount = 0;
  uint32_t firstOut = 0;  // outs[firstOut ...]: one for each link sink
  uint32_t outCount = 0;
  Extents extents;
};

struct Link {
  int32_t source = 0;
  uint8_t stream = 0;
  uint32_t firstReader = 0;
  uint32_t readerCount = 0;
};

// One rank at the far end of a link.
struct Reader {
  int32_t rank = 0;
  uint32_t link = 0;
};

struct Out {
  uint32_t link = 0;
  uint32_t operation = 0;
};

// (source, stream, reader) -> Reader. Lives over all lanes of a set, so that sharing between lanes
// is seen.
class LinkTable {
 public:
  struct Entry {
    uint64_t key = UINT64_MAX;
    uint32_t reader = kNone;
    int32_t lane = 0;
  };
  LinkTable() : entries_(1024) {}
  static uint64_t keyOf(int32_t source, uint8_t stream, int32_t reader) {
    return (static_cast<uint64_t>(source) << 40) | (static_cast<uint64_t>(stream) << 32) |
           static_cast<uint32_t>(reader);
  }
  const Entry* find(uint64_t key) const;  // borrows until insert()
  void insert(const Entry& entry);        // key must be absent

 private:
  size_t placeOf(uint64_t key) const;
  std::vector<Entry> entries_;
  size_t used_ = 0;
};

struct Program {
  std::span<const Plan> plans;  // borrows
  bool inPlace = false;
  int32_t lane = 0;
  int32_t maxDelay = 0;
  std::vector<Operation> operations;  // rank after rank, in program order
  std::vector<uint32_t> threadBegin;  // [nranks + 1], into operations
  std::vector<uint32_t>
      sliceOrder;  // as operations, but each rank's in the order of one slice (by delay, stable)
  std::vector<uint32_t> ins;  // reader numbers
  std::vector<Out> outs;
  std::vector<Link> links;
  std::vector<Reader> readers;

  int32_t nranks() const { return static_cast<int32_t>(plans.size()); }
  const Plan& planOf(const Operation& operation) const {
    return plans[static_cast<size_t>(operation.rank)];
  }
  // The sink of an out, i.e. the link sink of its operation with the same ordinal.
  const Ref& sinkOf(uint32_t out) const;
};

// The failure of one property: "property 3 (values): AllReduce ring n=4 in place: ...".
base::Status fail(std::span<const Plan> plans, bool inPlace, Property property,
                  const std::string& text);
base::Status fail(const Program& program, Property property, const std::string& text);
// "rank 1 lane 0 step 3 (reduce ... -> ...) iteration 2"
std::string nameOf(const Program& program, uint32_t operation);
// "link 2->5 stream 1"
std::string nameOf(const Program& program, const Reader& reader);

// Everything that can be said of each plan alone: same shape on all ranks, sizes within limits,
// steps and runs well formed. Whatever passes can be compiled.
base::Status checkForm(std::span<const Plan> plans, bool inPlace);

// Fills *program for one lane. Checks operand lengths, groups and who may use which link.
base::Status compile(std::span<const Plan> plans, bool inPlace, int32_t lane, LinkTable* table,
                     Program* program);

// The run of a slice ref in one iteration: first block, stride and hop in [0, blockCount).
struct Blocks {
  int32_t first = 0;
  int32_t stride = 0;
  int32_t modulus = 1;
  int32_t group = 0;
  int32_t hop = 0;
  // The block behind `block`, which is at `position`.
  int32_t next(int32_t block, int32_t position) const {
    block += group > 0 && (position + 1) % group == 0 ? hop : stride;
    return block >= modulus ? block - modulus : block;
  }
};
Blocks blocksOf(const Plan& plan, const Ref& ref, int32_t iteration);

// Where a block lives: 0 .. outputs - 1 are output blocks (also for input blocks that alias one),
// then scratch blocks; -1 = input that nobody can write. The inverse of inPlaceAlias for input.
int32_t cellOf(const Plan& plan, bool inPlace, Space space, int32_t block);
// Whether a plain copy from this slice to this sink moves a block onto itself, which no executor
// does.
bool isSelfCopy(const Program& program, const Operation& operation, const Ref& sink);

}  // namespace omnes::plan::proof
