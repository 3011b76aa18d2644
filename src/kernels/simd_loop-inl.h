// The loop that all SIMD reductions share. Included once per instruction set (foreach_target.h),
// hence the toggle guard.
//
// Vocabulary. A *group* is as many elements as fill one vector of the element type; a lane policy L
// keeps it as one or more accumulator vectors. A *block* is several groups that run side by side to
// hide latencies; its bytes are a multiple of a cache line at every sink, so that a sink that
// starts on a line boundary keeps to it.
//   - head: elements before the first line boundary of a streamed sink, through a padded buffer;
//   - blocks: the bulk, by a body compiled per source count when all sources are inputs, else by
//     one body for any marks;
//   - groups: whole groups that are left;
//   - tail: the last elements, through the padded buffer, so nothing outside an operand is touched.
// In every part an element sees the same operations in the same order. All sources of a part are
// loaded before any sink of it is written, which is what makes a sink that equals a source safe.
//
// A lane policy L has
//   - In, Acc: types that give the widths of an element and of a partial in memory;
//   - kLanes, kUnroll: elements of a group, groups that a block should have;
//   - Group: the accumulators;
//   - explicit L(const Reduction&), bool scales();
//   - Group loadInput(p), loadPartial(p); void combine(Group&, const Group&), scale(Group&);
//   - storeInput<stream>(Group, p), storePartial<stream>(Group, p), where stream promises that a
//     block starts on a line.
#if defined(OMNES_KERNELS_SIMD_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OMNES_KERNELS_SIMD_LOOP_INL_H_
#undef OMNES_KERNELS_SIMD_LOOP_INL_H_
#else
#define OMNES_KERNELS_SIMD_LOOP_INL_H_
#endif

#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace omnes::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kVectorBytes = HWY_LANES(uint8_t);
// Below this a head is not worth the trouble: such a sink is written plainly.
inline constexpr size_t kMinStreamBytes = 1024;

// Loads and stores go through byte vectors: operands need only byte alignment.
template <class D>
HWY_INLINE hn::VFromD<D> loadBytes(D d, const uint8_t* p) {
  return hn::BitCast(d, hn::LoadU(hn::Repartition<uint8_t, D>(), p));
}

template <bool kStream, class D>
HWY_INLINE void storeBytes(D, hn::VFromD<D> v, uint8_t* p) {
  const hn::Repartition<uint8_t, D> bytes;
  if constexpr (kStream)
    hn::Stream(hn::BitCast(bytes, v), bytes, p);
  else
    hn::StoreU(hn::BitCast(bytes, v), bytes, p);
}

template <class L>
inline constexpr size_t kBlockGroups = HWY_MAX(L::kUnroll, kLineBytes / kVectorBytes);
template <class L>
inline constexpr size_t kBlockLanes = kBlockGroups<L>* L::kLanes;

template <class L>
HWY_INLINE size_t strideOf(Mark mark) {
  return mark == Mark::kPartial ? sizeof(typename L::Acc) : sizeof(typename L::In);
}
template <class L>
HWY_INLINE const uint8_t* addressOf(const Source& source, size_t index) {
  return static_cast<const uint8_t*>(source.data) + index * strideOf<L>(source.mark);
}
template <class L>
HWY_INLINE uint8_t* addressOf(const Sink& sink, size_t index) {
  return static_cast<uint8_t*>(sink.data) + index * strideOf<L>(sink.mark);
}

template <class L, size_t kGroups>
HWY_INLINE void loadGroups(const L& lanes, const Source& source, const uint8_t* p,
                           typename L::Group (&to)[kGroups]) {
  if (source.mark == Mark::kPartial) {
    for (size_t g = 0; g < kGroups; ++g)
      to[g] = lanes.loadPartial(p + g * L::kLanes * sizeof(typename L::Acc));
  } else {
    for (size_t g = 0; g < kGroups; ++g) to[g] = lanes.loadInput(p + g * kVectorBytes);
    if (HWY_UNLIKELY(lanes.scales())) {
      for (size_t g = 0; g < kGroups; ++g) lanes.scale(to[g]);
    }
  }
}

template <bool kStream, class L, size_t kGroups>
HWY_INLINE void storeGroups(const L& lanes, const typename L::Group (&groups)[kGroups], Mark mark,
                            uint8_t* p) {
  if (HWY_UNLIKELY(mark == Mark::kPartial)) {
    for (size_t g = 0; g < kGroups; ++g) {
      lanes.template storePartial<kStream>(groups[g], p + g * L::kLanes * sizeof(typename L::Acc));
    }
  } else {
    for (size_t g = 0; g < kGroups; ++g)
      lanes.template storeInput<kStream>(groups[g], p + g * kVectorBytes);
  }
}

// Stores a whole block to every sink.
template <class L, size_t kGroups>
HWY_INLINE void storeBlock(const L& lanes, const typename L::Group (&groups)[kGroups],
                           const Sink* sinks, size_t sinkCount, size_t index) {
  for (size_t s = 0; s < sinkCount; ++s) {
    uint8_t* p = addressOf<L>(sinks[s], index);
    if (sinks[s].nonTemporal && reinterpret_cast<uintptr_t>(p) % kLineBytes == 0) {
      storeGroups<true>(lanes, groups, sinks[s].mark, p);
    } else {
      storeGroups<false>(lanes, groups, sinks[s].mark, p);
    }
  }
}

// Blocks of kSources inputs, none scaled. [begin, end) is a whole number of blocks.
template <class L, size_t kSources>
HWY_NOINLINE void runInputBlocks(const L& lanes, const Source* sources, const Sink* sinks,
                                 size_t sinkCount, size_t begin, size_t end) {
  constexpr size_t kGroups = kBlockGroups<L>;
  const uint8_t* from[kSources];
  for (size_t s = 0; s < kSources; ++s) from[s] = static_cast<const uint8_t*>(sources[s].data);
  for (size_t i = begin; i < end; i += kBlockLanes<L>) {
    const size_t offset = i * sizeof(typename L::In);
    typename L::Group acc[kGroups];
    for (size_t g = 0; g < kGroups; ++g)
      acc[g] = lanes.loadInput(from[0] + offset + g * kVectorBytes);
    for (size_t s = 1; s < kSources; ++s) {
      for (size_t g = 0; g < kGroups; ++g) {
        lanes.combine(acc[g], lanes.loadInput(from[s] + offset + g * kVectorBytes));
      }
    }
    storeBlock(lanes, acc, sinks, sinkCount, i);
  }
}

// Blocks, or single groups, of any number of sources of any marks.
template <class L, size_t kGroups>
HWY_NOINLINE void runAnyBlocks(const L& lanes, const Source* sources, size_t sourceCount,
                               const Sink* sinks, size_t sinkCount, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i += kGroups * L::kLanes) {
    typename L::Group acc[kGroups];
    loadGroups(lanes, sources[0], addressOf<L>(sources[0], i), acc);
    for (size_t s = 1; s < sourceCount; ++s) {
      typename L::Group next[kGroups];
      loadGroups(lanes, sources[s], addressOf<L>(sources[s], i), next);
      for (size_t g = 0; g < kGroups; ++g) lanes.combine(acc[g], next[g]);
    }
    if constexpr (kGroups == kBlockGroups<L>) {
      storeBlock(lanes, acc, sinks, sinkCount, i);
    } else {
      for (size_t s = 0; s < sinkCount; ++s) {
        storeGroups<false>(lanes, acc, sinks[s].mark, addressOf<L>(sinks[s], i));
      }
    }
  }
}

// Loads `count` < kLanes elements through a padded copy.
template <class L>
HWY_INLINE void loadPadded(const L& lanes, const Source& source, size_t index, size_t count,
                           uint8_t* padded, typename L::Group (&to)[1]) {
  std::memset(padded, 0, L::kLanes * sizeof(typename L::Acc));
  std::memcpy(padded, addressOf<L>(source, index), count * strideOf<L>(source.mark));
  loadGroups(lanes, source, padded, to);
}

// Fewer elements than a group.
template <class L>
HWY_NOINLINE void runPartialGroup(const L& lanes, const Source* sources, size_t sourceCount,
                                  const Sink* sinks, size_t sinkCount, size_t index, size_t count) {
  alignas(kLineBytes) uint8_t padded[L::kLanes * sizeof(typename L::Acc)];
  typename L::Group acc[1];
  loadPadded(lanes, sources[0], index, count, padded, acc);
  for (size_t s = 1; s < sourceCount; ++s) {
    typename L::Group next[1];
    loadPadded(lanes, sources[s], index, count, padded, next);
    lanes.combine(acc[0], next[0]);
  }
  for (size_t s = 0; s < sinkCount; ++s) {
    storeGroups<false>(lanes, acc, sinks[s].mark, padded);
    std::memcpy(addressOf<L>(sinks[s], index), padded, count * strideOf<L>(sinks[s].mark));
  }
}

// Elements in front of the first line boundary of the first sink that wants streaming; 0 when that
// boundary never comes. Aligning plain sinks too was measured: it gained nothing at 256 KiB and
// cost a fifth at 16 KiB.
template <class L>
HWY_INLINE size_t headOf(const Sink* sinks, size_t sinkCount, size_t count, bool* streams) {
  *streams = false;
  for (size_t s = 0; s < sinkCount; ++s) {
    if (!sinks[s].nonTemporal) continue;
    *streams = true;
    const size_t stride = strideOf<L>(sinks[s].mark);
    if (count * stride < kMinStreamBytes) return 0;
    const size_t past = reinterpret_cast<uintptr_t>(sinks[s].data) % kLineBytes;
    const size_t bytes = (kLineBytes - past) % kLineBytes;
    return bytes % stride == 0 ? bytes / stride : 0;
  }
  return 0;
}

template <class L>
HWY_INLINE void runBlocks(const L& lanes, const Source* sources, size_t sourceCount,
                          const Sink* sinks, size_t sinkCount, size_t begin, size_t end) {
  bool plain = !lanes.scales();
  for (size_t s = 0; s < sourceCount; ++s) plain &= sources[s].mark == Mark::kInput;
  if (plain) {
    switch (sourceCount) {
      case 1: return runInputBlocks<L, 1>(lanes, sources, sinks, sinkCount, begin, end);
      case 2: return runInputBlocks<L, 2>(lanes, sources, sinks, sinkCount, begin, end);
      case 3: return runInputBlocks<L, 3>(lanes, sources, sinks, sinkCount, begin, end);
      case 4: return runInputBlocks<L, 4>(lanes, sources, sinks, sinkCount, begin, end);
      case 5: return runInputBlocks<L, 5>(lanes, sources, sinks, sinkCount, begin, end);
      case 6: return runInputBlocks<L, 6>(lanes, sources, sinks, sinkCount, begin, end);
      case 7: return runInputBlocks<L, 7>(lanes, sources, sinks, sinkCount, begin, end);
      case 8: return runInputBlocks<L, 8>(lanes, sources, sinks, sinkCount, begin, end);
      default: break;
    }
  }
  runAnyBlocks<L, kBlockGroups<L>>(lanes, sources, sourceCount, sinks, sinkCount, begin, end);
}

// The ReduceFunction of a lane policy. kHot compiles a body per source count.
template <class L, bool kHot>
void reduceWith(const Reduction& reduction, const Source* sources, size_t sourceCount,
                const Sink* sinks, size_t sinkCount, size_t count) {
  const L lanes(reduction);
  bool streams = false;
  size_t i = 0;
  const size_t head = headOf<L>(sinks, sinkCount, count, &streams);
  while (i < head) {
    const size_t part = HWY_MIN(head - i, L::kLanes);
    runPartialGroup(lanes, sources, sourceCount, sinks, sinkCount, i, part);
    i += part;
  }
  const size_t blocks = (count - i) / kBlockLanes<L> * kBlockLanes<L>;
  if (blocks != 0) {
    if constexpr (kHot)
      runBlocks(lanes, sources, sourceCount, sinks, sinkCount, i, i + blocks);
    else
      runAnyBlocks<L, kBlockGroups<L>>(lanes, sources, sourceCount, sinks, sinkCount, i,
                                       i + blocks);
    i += blocks;
  }
  const size_t groups = (count - i) / L::kLanes * L::kLanes;
  if (groups != 0) {
    runAnyBlocks<L, 1>(lanes, sources, sourceCount, sinks, sinkCount, i, i + groups);
    i += groups;
  }
  if (i < count) runPartialGroup(lanes, sources, sourceCount, sinks, sinkCount, i, count - i);
  if (streams) hwy::FlushStream();
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace omnes::kernels
HWY_AFTER_NAMESPACE();

#endif  // toggle
