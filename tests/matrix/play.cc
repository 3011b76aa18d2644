#include "matrix/play.h"

#include <algorithm>
#include <cstring>

#include "matrix/layout.h"

namespace omnes::tests::matrix {
namespace {

using plan::Collective;

constexpr uint8_t kPoison = 0x5a;
constexpr size_t kGuardBytes = 64;

// A buffer that begins `offset` bytes behind a multiple of 64, with bytes on both sides that nobody
// may write.
class Memory {
 public:
  Memory(uint64_t bytes, size_t offset) : bytes_(bytes), all_(bytes + 4 * kGuardBytes, kPoison) {
    const auto address = reinterpret_cast<uintptr_t>(all_.data());
    start_ = (kGuardBytes - address % kGuardBytes) % kGuardBytes + kGuardBytes + offset;
  }
  uint8_t* data() { return all_.data() + start_; }
  uint64_t size() const { return bytes_; }
  // Empty when the buffer holds `expected` and what is around it is as it was.
  std::string difference(const Bytes& expected) const {
    const uint8_t* got = all_.data() + start_;
    if (!std::equal(expected.begin(), expected.end(), got)) {
      const auto at =
          static_cast<uint64_t>(std::mismatch(got, got + bytes_, expected.data()).first - got);
      return "byte " + std::to_string(at) + " of " + std::to_string(bytes_) + " is " +
             std::to_string(got[at]) + ", not " + std::to_string(expected[at]);
    }
    for (size_t i = 0; i < all_.size(); ++i)
      if ((i < start_ || i >= start_ + bytes_) && all_[i] != kPoison)
        return "byte " + std::to_string(static_cast<int64_t>(i) - static_cast<int64_t>(start_)) +
               " was written, the buffer has " + std::to_string(bytes_);
    return "";
  }

 private:
  uint64_t bytes_;
  size_t start_ = 0;
  Bytes all_;
};

void write(const Side& side, uint64_t from, uint64_t width, uint8_t* out) {
  for (const Block& block : side.blocks)
    repeat(block.period, block.elements, width, out + (from + block.at) * width);
}

struct Call {
  const Case& c;
  omnesComm_t comm;
  int32_t rank;
  const void* send;
  void* receive;
};

// The operator of the case; a created one ends with this.
class Operator {
 public:
  explicit Operator(const Call& call)
      : comm_(call.comm), op_(static_cast<omnesRedOp_t>(call.c.op)) {
    if (!plan::isReduction(call.c.group.collective) || call.c.op != base::ReduceOp::kPreMulSum)
      return;
    uint64_t bits = factorBits(call.c, call.rank);
    isCreated_ = omnesRedOpCreatePreMulSum(&op_, &bits, static_cast<omnesDataType_t>(call.c.type),
                                           omnesScalarHostImmediate, comm_) == omnesSuccess;
  }
  ~Operator() {
    if (isCreated_) omnesRedOpDestroy(op_, comm_);
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  omnesRedOp_t get() const { return op_; }

 private:
  omnesComm_t comm_;
  omnesRedOp_t op_;
  bool isCreated_ = false;
};

omnesResult_t sendAround(const Call& call, omnesDataType_t type) {
  const int32_t n = call.c.group.nranks;
  omnesResult_t result = omnesGroupStart();
  if (result == omnesSuccess)
    result = omnesSend(call.send, call.c.count(), type, (call.rank + 1) % n, call.comm, nullptr);
  if (result == omnesSuccess)
    result =
        omnesRecv(call.receive, call.c.count(), type, (call.rank + n - 1) % n, call.comm, nullptr);
  const omnesResult_t end = omnesGroupEnd();
  return result != omnesSuccess ? result : end;
}

omnesResult_t invokeUneven(const Call& call, omnesDataType_t type, omnesRedOp_t op) {
  const Case& c = call.c;
  const auto own = static_cast<size_t>(call.rank);
  const Spread blocks = spreadOf(c);
  const size_t *counts = blocks.counts.data(), *displacements = blocks.displacements.data();
  switch (c.group.collective) {
    case Collective::kAllGatherV:
      return omnesAllGatherV(call.send, counts[own], call.receive, counts, displacements, type,
                             call.comm, nullptr);
    case Collective::kReduceScatterV:
      return omnesReduceScatterV(call.send, call.receive, counts, type, op, call.comm, nullptr);
    case Collective::kGatherV:
      return omnesGatherV(call.send, counts[own], call.receive, counts, displacements, type,
                          c.rootRank(), call.comm, nullptr);
    case Collective::kScatterV:
      return omnesScatterV(call.send, counts, displacements, call.receive, counts[own], type,
                           c.rootRank(), call.comm, nullptr);
    default: break;
  }
  const Spread sent = spreadOfSent(c, call.rank), received = spreadOfReceived(c, call.rank);
  return omnesAlltoAllV(call.send, sent.counts.data(), sent.displacements.data(), call.receive,
                        received.counts.data(), received.displacements.data(), type, call.comm,
                        nullptr);
}

omnesResult_t invoke(const Call& call) {
  const Case& c = call.c;
  const auto type = static_cast<omnesDataType_t>(c.type);
  const Operator op(call);
  const uint64_t count = c.count();
  switch (c.group.collective) {
    case Collective::kAllReduce:
      return omnesAllReduce(call.send, call.receive, count, type, op.get(), call.comm, nullptr);
    case Collective::kReduce:
      return omnesReduce(call.send, call.receive, count, type, op.get(), c.rootRank(), call.comm,
                         nullptr);
    case Collective::kReduceScatter:
      return omnesReduceScatter(call.send, call.receive, count, type, op.get(), call.comm, nullptr);
    case Collective::kBroadcast:
      return omnesBroadcast(call.send, call.receive, count, type, c.rootRank(), call.comm, nullptr);
    case Collective::kAllGather:
      return omnesAllGather(call.send, call.receive, count, type, call.comm, nullptr);
    case Collective::kAllToAll:
      return omnesAlltoAll(call.send, call.receive, count, type, call.comm, nullptr);
    case Collective::kGather:
      return omnesGather(call.send, call.receive, count, type, c.rootRank(), call.comm, nullptr);
    case Collective::kScatter:
      return omnesScatter(call.send, call.receive, count, type, c.rootRank(), call.comm, nullptr);
    case Collective::kBarrier: return omnesBarrier(call.comm, nullptr);
    case Collective::kSendReceive: return sendAround(call, type);
    default: return invokeUneven(call, type, op.get());
  }
}

std::string failureOf(omnesResult_t result, omnesComm_t comm) {
  if (result == omnesSuccess) return "";
  return std::string(omnesGetErrorString(result)) + ": " + omnesGetLastError(comm);
}

std::string playInPlace(const Case& c, omnesComm_t comm, int32_t rank, const Layout& layout) {
  const uint64_t width = base::sizeOf(c.type);
  const uint64_t elements =
      std::max(layout.sendAt + layout.send.elements, layout.receiveAt + layout.receive.elements);
  Memory memory(elements * width, c.offset == Offset::kNone ? 0 : width);
  write(layout.send, layout.sendAt, width, memory.data());
  Bytes expected(memory.data(), memory.data() + memory.size());
  write(layout.receive, layout.receiveAt, width, expected.data());
  const std::string failure =
      failureOf(invoke({c, comm, rank, memory.data() + layout.sendAt * width,
                        memory.data() + layout.receiveAt * width}),
                comm);
  return failure.empty() ? memory.difference(expected) : failure;
}

std::string playApart(const Case& c, omnesComm_t comm, int32_t rank, const Layout& layout) {
  const uint64_t width = base::sizeOf(c.type);
  const bool movesSend = c.offset == Offset::kSend || c.offset == Offset::kBoth;
  const bool movesReceive = c.offset == Offset::kReceive || c.offset == Offset::kBoth;
  Memory send(layout.send.elements * width, movesSend ? width : 0);
  Memory receive(layout.receive.elements * width, movesReceive ? 3 * width : 0);
  write(layout.send, 0, width, send.data());
  const Bytes sent(send.data(), send.data() + send.size());
  Bytes expected(receive.size(), kPoison);
  write(layout.receive, 0, width, expected.data());
  // A side without elements has no buffer.
  const std::string failure =
      failureOf(invoke({c, comm, rank, send.size() == 0 ? nullptr : send.data(),
                        receive.size() == 0 ? nullptr : receive.data()}),
                comm);
  if (!failure.empty()) return failure;
  const std::string changed = send.difference(sent);
  return changed.empty() ? receive.difference(expected) : "the send buffer: " + changed;
}

}  // namespace

std::string play(const Case& c, omnesComm_t comm, int32_t rank) {
  const Layout layout = layoutOf(c, rank);
  return c.inPlace ? playInPlace(c, comm, rank, layout) : playApart(c, comm, rank, layout);
}

}  // namespace omnes::tests::matrix
