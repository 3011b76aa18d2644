// n ranks in one thread over the `mem` transport: what every collective test runs on first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "algorithms/registry.h"
#include "core/exec/operation.h"
#include "core/exec/prepared.h"
#include "transports/mem/hub.h"

namespace omnes::tests {

class MemWorld {
 public:
  explicit MemWorld(const transports::mem::HubOptions& options);
  ~MemWorld();

  // Runs one call of the algorithm on all ranks; buffers[r] are rank r's. Empty text on success,
  // else what went wrong.
  std::string run(const algorithms::Algorithm& algorithm, const core::Shape& shape,
                  const std::vector<core::CallBuffers>& buffers, uint64_t scalarBits = 0);
  // The same with fingerprints[r] instead of one for all.
  std::string run(const algorithms::Algorithm& algorithm, const core::Shape& shape,
                  const std::vector<core::CallBuffers>& buffers, uint64_t scalarBits,
                  const std::vector<uint64_t>& fingerprints);

  transports::mem::Hub& hub() { return hub_; }
  core::Operation& operation(int32_t rank) { return operations_[rank]; }

 private:
  base::Result<core::LinkList> openLink(int32_t rank, const transports::LinkShape& shape);

  transports::mem::Hub hub_;
  int32_t nranks_;
  std::vector<transports::Endpoint*> endpoints_;
  std::vector<core::Operation> operations_;
  uint64_t calls_ = 0;
};

}  // namespace omnes::tests
