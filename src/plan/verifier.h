// The verifier: proves one algorithm for one (nranks, root, in place), all ranks at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "plan/plan.h"

namespace omnes::plan {

struct VerifyOptions {
  bool inPlace = false;
  // Slots per link. 0 = "lent": an OUT whose step is a plain copy of one slice lets the receiver
  // read the sender's memory until it has consumed it; other OUTs still need minCredits slots. -1 =
  // prove all that the plan promises: progress with its own minCredits, lent, and with any mix of
  // links that lend and links that do not.
  int32_t credits = -1;
};

// Counters of one rank's plan for one slice; compared with the formula that the algorithm declares.
struct Counters {
  int64_t messages = 0;
  int64_t inputBlocks = 0;
  int64_t partialBlocks = 0;
  int64_t operands = 0;
  bool operator==(const Counters&) const = default;
};

struct Proof {
  int64_t rounds = 0;  // longest chain of link hops
  bool sameOrderOnAllRanks =
      false;  // every output extent is reduced in one order, whichever rank holds it
  bool writesAfterAllPeers =
      false;          // no output is written before a chunk of every peer has arrived
  int64_t steps = 0;  // executed step instances, the measure of the proof's size
};

// plans[r] is rank r's plan. OK with the proof's facts, or a kInternalError whose message is the
// trace of the smallest failing case that was found: property number and name, rank, lane, step,
// link and what was expected.
base::Result<Proof> verify(std::span<const Plan> plans, const VerifyOptions& options);

// The least number of slots a link with which the set makes progress, in slots, lent and mixed; 0
// when it has no links. An error when no number will do, or when sends and receives do not match in
// the first place.
base::Result<int32_t> leastCredits(std::span<const Plan> plans, bool inPlace);

// A slice runs on one lane; when lanes differ, the largest of each.
Counters countersOf(const Plan& plan);

}  // namespace omnes::plan
