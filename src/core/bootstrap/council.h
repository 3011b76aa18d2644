// A council: the ranks of a communicator, or those of them that live, agree on who they are and
// tell each other what each of them must know. The communicator itself may be broken, its control
// star gone, and ranks may die meanwhile. docs/adr/0009-shrink.md has the protocol and its reasons.
//
// Each rank has a socket that has listened since its communicator was made; who takes part accepts
// there for as long as it does. The lowest rank that nobody takes for dead presides.
//
// holdCouncil() blocks until its deadline or abort at most; one thread at a time for one listener.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "core/bootstrap/council_words.h"
#include "core/bootstrap/secret.h"
#include "core/bootstrap/socket_io.h"

namespace omnes::core::bootstrap {

// The communicator as this rank knows it.
struct CouncilParty {
  Secret secret;
  uint64_t commId = 0;
  uint32_t rank = 0;
  std::vector<std::string> addresses;         // of the listeners, by rank
  std::function<bool(uint32_t rank)> isGone;  // has died, or has ended the communicator
  std::function<std::string(uint32_t)> nameOf;

  uint32_t nranks() const { return static_cast<uint32_t>(addresses.size()); }
};

struct CouncilAgenda {
  std::string what;     // for messages: "omnesCommSplit"
  std::string purpose;  // must be alike on all who take part, at most kMaxPurposeBytes
  std::vector<uint32_t> excluded = {};  // ascending; who is not expected
  // The dead are excluded, and ranks unite their sets. Else sets must be alike, and a death is an
  // error.
  bool excludesDead = false;
  std::string blob = {};  // for all others, at most kMaxCouncilBlobBytes
};

struct CouncilResult {
  std::vector<bool> isExcluded;    // by rank
  std::vector<std::string> blobs;  // by rank; of those who are excluded: empty
  std::array<uint8_t, kCouncilNonceBytes> nonce{};
};

// `listener` is used meanwhile and given back in any case. All who are not excluded hold it.
//
// kInvalidUsage: purposes or sets differ, or aborted; kTimeout names those who have not come;
// kRemoteError: a rank has died (unless excludesDead), has given up, or others exclude this one;
// kInvalidArgument: a text is too long; kSystemError.
base::Result<CouncilResult> holdCouncil(const CouncilParty& party, const CouncilAgenda& agenda,
                                        base::UniqueFd* listener, const WaitLimits& limits);

}  // namespace omnes::core::bootstrap
