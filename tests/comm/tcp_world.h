// n ranks in one thread over the `tcp` transport: each has an endpoint of its own, and takes a step
// in its turn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "core/exec/link_set.h"
#include "core/exec/operation.h"
#include "core/exec/prepared.h"
#include "unit/socket_mesh.h"

namespace omnes::tests {

struct TcpWorldOptions {
  int32_t nranks = 1;
  size_t slotBytes = 4096;
  int32_t dataSockets = 1;
  SocketKind sockets = {};
};

class TcpWorld {
 public:
  explicit TcpWorld(const TcpWorldOptions& options);

  // As MemWorld::run(). A rank is left alone as soon as its operation is done and has nothing
  // unsent, as a caller leaves it; one that fails ends there and then.
  std::string run(const algorithms::Algorithm& algorithm, const core::Shape& shape,
                  const std::vector<core::CallBuffers>& buffers, uint64_t scalarBits = 0);
  // From now on the rank takes no step and its connections are closed.
  void kill(int32_t rank);
  core::Operation& operation(int32_t rank) { return operations_[rank]; }

 private:
  // Whether the rank has finished, and whether it moved.
  bool step(int32_t rank, bool* moved, std::string* error);
  void sleep() const;

  int32_t nranks_;
  std::vector<core::LinkSet> links_;
  std::vector<core::Operation> operations_;
  std::vector<bool> killed_;
  uint64_t calls_ = 0;
};

}  // namespace omnes::tests
