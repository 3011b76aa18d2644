#include "comm/mem_world.h"

namespace omnes::tests {

using base::Result;
using transports::Endpoint;
using transports::Link;

MemWorld::MemWorld(const transports::mem::HubOptions& options)
    : hub_(options), nranks_(options.nranks), operations_(options.nranks) {
  for (int32_t rank = 0; rank < nranks_; ++rank) {
    transports::OpenParameters parameters;
    parameters.rank = rank;
    parameters.nranks = nranks_;
    parameters.context = &hub_;
    Endpoint* endpoint = nullptr;
    transports::mem::table().open(&parameters, &endpoint);
    endpoints_.push_back(endpoint);
  }
}

MemWorld::~MemWorld() {
  for (Endpoint* endpoint : endpoints_) endpoint->table->close(endpoint);
}

Result<core::LinkList> MemWorld::openLink(int32_t rank, const transports::LinkShape& shape) {
  Link* link = nullptr;
  endpoints_[rank]->table->openLink(endpoints_[rank], &shape, &link);
  return core::LinkList{link};
}

std::string MemWorld::run(const algorithms::Algorithm& algorithm, const core::Shape& shape,
                          const std::vector<core::CallBuffers>& buffers, uint64_t scalarBits) {
  return run(algorithm, shape, buffers, scalarBits,
             std::vector<uint64_t>(nranks_, 0x1234567 + ++calls_));
}

std::string MemWorld::run(const algorithms::Algorithm& algorithm, const core::Shape& shape,
                          const std::vector<core::CallBuffers>& buffers, uint64_t scalarBits,
                          const std::vector<uint64_t>& fingerprints) {
  std::vector<core::Prepared> prepared(nranks_);
  std::string error;
  for (int32_t rank = 0; rank < nranks_; ++rank) {
    auto made =
        core::prepare(algorithm.make({.rank = rank, .nranks = nranks_, .root = shape.root}), shape,
                      [&](const transports::LinkShape& link) { return openLink(rank, link); });
    if (!made.isOk()) return std::string(made.status().message());
    prepared[rank] = std::move(made).value();
  }
  std::vector<std::function<bool()>> tasks;
  for (int32_t rank = 0; rank < nranks_; ++rank) {
    operations_[rank].start(prepared[rank], buffers[rank], fingerprints[rank], scalarBits, false);
    tasks.push_back([&, rank] {
      const core::Progress progress = operations_[rank].advance();
      if (progress == core::Progress::kFailed)
        error += "rank " + std::to_string(rank) + ": " + operations_[rank].failure().text + "; ";
      return progress == core::Progress::kDone || progress == core::Progress::kFailed;
    });
  }
  if (!hub_.run(tasks) && error.empty()) error = "nobody can move";
  return error;
}

}  // namespace omnes::tests
