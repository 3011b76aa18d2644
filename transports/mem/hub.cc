#include "transports/mem/hub.h"

#include <algorithm>
#include <numeric>

namespace omnes::transports::mem {

Pipe* Hub::pipe(int32_t source, uint8_t stream, int32_t reader) {
  const bool multicast = stream % 2 == 0;
  std::unique_ptr<Pipe>& pipe = pipes_[{source, stream, multicast ? -1 : reader}];
  if (!pipe) {
    pipe = std::make_unique<Pipe>();
    pipe->source = source;
    for (int32_t rank = 0; rank < options_.nranks; ++rank)
      if (multicast ? rank != source : rank == reader) pipe->readers.push_back(rank);
    pipe->consumed.resize(pipe->readers.size());
    pipe->lastArrival.resize(pipe->readers.size());
  }
  return pipe.get();
}

void Hub::send(Pipe* pipe, std::vector<uint8_t> bytes, uint64_t fingerprint) {
  auto parcel = std::make_shared<Parcel>();
  parcel->bytes = std::move(bytes);
  parcel->fingerprint = fingerprint;
  std::uniform_int_distribution<int64_t> delay(0, options_.maxDelayNs);
  for (base::TimePoint& last : pipe->lastArrival) {
    last = std::max(last, clock_.now() + std::chrono::nanoseconds(delay(random_)));
    parcel->arrival.push_back(last);
  }
  pipe->parcels.push_back(std::move(parcel));
  ++pipe->sent;
  ++events_;
}

void Hub::consume(Pipe* pipe, size_t reader) {
  ++pipe->consumed[reader];
  ++events_;
  const uint64_t slowest = *std::min_element(pipe->consumed.begin(), pipe->consumed.end());
  for (; pipe->first < slowest; ++pipe->first) pipe->parcels.pop_front();
}

bool Hub::advanceToNextArrival() {
  base::TimePoint next{base::Duration::max()};
  for (const auto& [key, pipe] : pipes_)
    for (size_t reader = 0; reader < pipe->readers.size(); ++reader) {
      if (pipe->consumed[reader] == pipe->sent) continue;
      const base::TimePoint arrival =
          pipe->parcels[pipe->consumed[reader] - pipe->first]->arrival[reader];
      if (arrival > clock_.now()) next = std::min(next, arrival);
    }
  if (next.sinceStart == base::Duration::max()) return false;
  clock_.advanceTo(next);
  return true;
}

bool Hub::run(const std::vector<std::function<bool()>>& tasks, int64_t limitNs) {
  const base::TimePoint limit = clock_.now() + std::chrono::nanoseconds(limitNs);
  std::vector<int32_t> pending(tasks.size());
  std::iota(pending.begin(), pending.end(), 0);
  while (true) {
    std::erase_if(pending, [&](int32_t rank) { return killed_[rank]; });
    std::shuffle(pending.begin(), pending.end(), random_);
    const uint64_t before = events_;
    const size_t remaining = pending.size();
    std::erase_if(pending, [&](int32_t rank) { return tasks[rank](); });
    if (pending.empty()) return true;
    if (events_ != before || pending.size() != remaining) continue;
    if (advanceToNextArrival()) continue;
    if (clock_.now() >= limit) return false;
    clock_.advanceTo(clock_.now() + std::chrono::milliseconds(1));
  }
}

}  // namespace omnes::transports::mem
