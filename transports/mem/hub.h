// The memory that the ranks of a `mem` transport share, and the seeded world they live in.
//
// All ranks run in one thread, driven by run() below: it picks a random rank, lets it take a step,
// and advances the virtual clock when nobody can move. Chunks arrive after random delays, in order
// per link and reader; a sender has a fixed number of credits per link; ranks can be killed at a
// moment of the virtual clock. Everything follows from the seed, so that a failing run can be
// replayed. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "transports/transport.h"

namespace omnes::transports::mem {

struct HubOptions {
  int32_t nranks = 1;
  uint64_t seed = 1;
  uint32_t credits = 2;       // slots of every link
  size_t slotBytes = 4096;    // largest chunk
  int64_t maxDelayNs = 1000;  // a chunk takes 0..maxDelayNs to arrive
};

class VirtualClock final : public base::Clock {
 public:
  base::TimePoint now() const override { return now_; }
  void advanceTo(base::TimePoint t) { now_ = t; }

 private:
  base::TimePoint now_;
};

// One chunk under way or waiting to be read.
struct Parcel {
  std::vector<uint8_t> bytes;
  uint64_t fingerprint = 0;
  std::vector<base::TimePoint> arrival;  // by reader
};

// The shared half of a link: the queue and how far each reader is.
struct Pipe {
  int32_t source = 0;
  std::vector<int32_t> readers;    // ranks
  std::vector<uint64_t> consumed;  // by reader
  std::vector<base::TimePoint> lastArrival;
  std::deque<std::shared_ptr<Parcel>> parcels;  // [first, sent)
  uint64_t first = 0;
  uint64_t sent = 0;
};

class Hub {
 public:
  explicit Hub(const HubOptions& options)
      : options_(options), random_(options.seed), killed_(options.nranks) {}

  const HubOptions& options() const { return options_; }
  VirtualClock& clock() { return clock_; }

  // The pipe of (source, stream) to `reader`, or to all others on a multicast stream. Owned by the
  // hub.
  Pipe* pipe(int32_t source, uint8_t stream, int32_t reader);
  // From now on the rank takes no step, and whoever needs it is told that it is gone.
  void kill(int32_t rank) { killed_[rank] = true; }
  bool isKilled(int32_t rank) const { return killed_[rank]; }

  void send(Pipe* pipe, std::vector<uint8_t> bytes, uint64_t fingerprint);
  void consume(Pipe* pipe, size_t reader);

  // Runs tasks[r] (one step of rank r; true = finished) in random order until all live ranks have
  // finished. False when nobody can move any more: a deadlock, or ranks that wait for a deadline
  // (limitNs of virtual time may pass idle).
  bool run(const std::vector<std::function<bool()>>& tasks, int64_t limitNs = 0);

 private:
  bool advanceToNextArrival();

  HubOptions options_;
  std::mt19937_64 random_;
  VirtualClock clock_;
  std::vector<bool> killed_;
  uint64_t events_ = 0;  // sends and consumptions, to tell a step that moved from one that did not
  std::map<std::tuple<int32_t, uint8_t, int32_t>, std::unique_ptr<Pipe>> pipes_;
};

// The transport's table. OpenParameters::context is the Hub, which must outlive the endpoints.
const TransportTable& table();

}  // namespace omnes::transports::mem
