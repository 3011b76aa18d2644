// One call of an algorithm over a world of ranks in one thread, with an exact oracle.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "core/exec/operation.h"
#include "core/exec/prepared.h"

namespace omnes::tests {

struct ExactCase {
  int32_t nranks;
  core::Shape shape;
  bool inPlace;
};

template <typename T>
struct ExactBuffers {
  std::vector<std::vector<T>> input, send, recv;
};

// Where the smaller buffer of a rank lies in the larger one when the call is in place, in elements
// of the smaller.
inline size_t inPlaceOffset(const core::Shape& shape, int32_t rank, size_t elements) {
  switch (shape.collective) {
    case plan::Collective::kAllGather:
    case plan::Collective::kGather:
    case plan::Collective::kReduceScatter:
    case plan::Collective::kScatter: return static_cast<size_t>(rank) * elements;
    default: return 0;
  }
}

// The buffers of one rank, filled; NULL where the collective gives it none.
template <typename T>
core::CallBuffers bind(const ExactCase& c, int32_t rank, size_t sendCount, size_t recvCount,
                       ExactBuffers<T>* b) {
  std::vector<T>& send = b->send[rank];
  std::vector<T>& recv = b->recv[rank];
  send = b->input[rank];
  recv.assign(recvCount, static_cast<T>(0x5a));
  if (sendCount == 0 && recvCount == 0) return {send.data(), recv.data()};
  if (sendCount == 0) return {nullptr, recv.data()};
  if (recvCount == 0) return {send.data(), nullptr};
  if (!c.inPlace || c.shape.collective == plan::Collective::kAllToAll)
    return {send.data(), recv.data()};
  const size_t offset = inPlaceOffset(c.shape, rank, std::min(sendCount, recvCount));
  if (sendCount > recvCount) return {send.data(), send.data() + offset};
  std::copy(send.begin(), send.end(), recv.begin() + static_cast<std::ptrdiff_t>(offset));
  return {recv.data() + offset, recv.data()};
}

// Element i of what the rank is to receive.
template <typename T>
T expectedAt(const ExactCase& c, int32_t rank, size_t i, const ExactBuffers<T>& b) {
  const size_t count = c.shape.count;
  size_t at = i;
  switch (c.shape.collective) {
    case plan::Collective::kAllGather:
    case plan::Collective::kGather: return b.input[i / count][i % count];
    case plan::Collective::kBroadcast: return b.input[c.shape.root][i];
    case plan::Collective::kScatter: return b.input[c.shape.root][rank * count + i];
    case plan::Collective::kAllToAll: return b.input[i / count][rank * count + i % count];
    case plan::Collective::kReduceScatter: at = rank * count + i; break;
    default: break;
  }
  uint64_t sum = 0;
  for (const std::vector<T>& input : b.input) sum += static_cast<uint64_t>(input[at]);
  return static_cast<T>(sum);
}

// Runs the case with random integers and compares with a reference: it wraps as uint64, narrow
// types on the cast. World has run(algorithm, shape, buffers) as MemWorld. Empty text on success.
template <typename T, typename World>
std::string runExactCase(World& world, const algorithms::Algorithm& algorithm, const ExactCase& c,
                         std::mt19937_64& random) {
  const int32_t n = c.nranks;
  ExactBuffers<T> b;
  std::vector<core::CallBuffers> calls;
  b.input.resize(n), b.send.resize(n), b.recv.resize(n);
  for (int32_t r = 0; r < n; ++r) {
    const auto bytes = core::bufferBytes(c.shape, r, n);
    b.input[r].resize(bytes.send / sizeof(T));
    for (T& x : b.input[r]) x = static_cast<T>(random());
    calls.push_back(bind(c, r, bytes.send / sizeof(T), bytes.recv / sizeof(T), &b));
  }
  std::string error = world.run(algorithm, c.shape, calls);
  if (!error.empty()) return error;
  for (int32_t r = 0; r < n; ++r) {
    const size_t recvCount = core::bufferBytes(c.shape, r, n).recv / sizeof(T);
    const T* out = static_cast<const T*>(calls[r].recv);
    for (size_t i = 0; i < recvCount; ++i)
      if (out[i] != expectedAt(c, r, i, b))
        return "rank " + std::to_string(r) + " element " + std::to_string(i) + " of " +
               std::to_string(recvCount) + " is wrong";
    const bool ownsSend = calls[r].send == b.send[r].data() && recvCount > 0 &&
                          (out < b.send[r].data() || out >= b.send[r].data() + b.send[r].size());
    if ((ownsSend || recvCount == 0) && b.send[r] != b.input[r])
      return "the send buffer of rank " + std::to_string(r) + " was changed";
  }
  return "";
}

}  // namespace omnes::tests
