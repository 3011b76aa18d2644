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

// Runs the case with random integers and compares with a reference: it wraps as uint64, narrow
// types on the cast. World has run(algorithm, shape, buffers) as MemWorld. Empty text on success.
template <typename T, typename World>
std::string runExactCase(World& world, const algorithms::Algorithm& algorithm, const ExactCase& c,
                         std::mt19937_64& random) {
  const int32_t n = c.nranks;
  const auto bytes = core::bufferBytes(c.shape, 0, n);
  const size_t sendCount = bytes.send / sizeof(T), recvCount = bytes.recv / sizeof(T);
  ExactBuffers<T> b;
  std::vector<core::CallBuffers> calls;
  b.input.resize(n), b.send.resize(n), b.recv.resize(n);
  for (int32_t r = 0; r < n; ++r) {
    b.input[r].resize(sendCount);
    for (T& x : b.input[r]) x = static_cast<T>(random());
    b.send[r] = b.input[r];
    b.recv[r].assign(std::max(sendCount, recvCount), static_cast<T>(0x5a));
    const size_t offset = c.shape.collective == plan::Collective::kAllGather       ? r * sendCount
                          : c.shape.collective == plan::Collective::kReduceScatter ? r * recvCount
                                                                                   : 0;
    if (!c.inPlace) {
      calls.push_back({b.send[r].data(), b.recv[r].data()});
    } else if (c.shape.collective == plan::Collective::kReduceScatter) {
      calls.push_back({b.send[r].data(), b.send[r].data() + offset});
    } else {
      std::copy(b.input[r].begin(), b.input[r].end(), b.recv[r].begin() + offset);
      calls.push_back({b.recv[r].data() + offset, b.recv[r].data()});
    }
  }
  std::string error = world.run(algorithm, c.shape, calls);
  if (!error.empty()) return error;
  for (int32_t r = 0; r < n; ++r) {
    const T* out = static_cast<const T*>(calls[r].recv);
    for (size_t i = 0; i < recvCount; ++i) {
      T expected = 0;
      if (c.shape.collective == plan::Collective::kAllGather) {
        expected = b.input[i / sendCount][i % sendCount];
      } else {
        const size_t at =
            c.shape.collective == plan::Collective::kReduceScatter ? r * recvCount + i : i;
        uint64_t sum = 0;
        for (int32_t s = 0; s < n; ++s) sum += static_cast<uint64_t>(b.input[s][at]);
        expected = static_cast<T>(sum);
      }
      if (out[i] != expected)
        return "rank " + std::to_string(r) + " element " + std::to_string(i) + " of " +
               std::to_string(recvCount) + " is wrong";
    }
    if (!c.inPlace && b.send[r] != b.input[r]) return "the send buffer was changed";
  }
  return "";
}

}  // namespace omnes::tests
