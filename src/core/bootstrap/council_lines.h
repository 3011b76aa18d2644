// The connections of a council (council.cc): those who come, and those who are called. One thread.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "core/bootstrap/council.h"
#include "core/bootstrap/frame.h"
#include "core/bootstrap/keep_alive.h"
#include "core/bootstrap/outgoing_link.h"
#include "core/bootstrap/socket_address.h"

namespace omnes::core::bootstrap {

// Listeners live as long as their ranks, so a refusal is soon believed.
inline constexpr base::Duration kCouncilRefusalGrace = std::chrono::milliseconds(100);
// A host that does not even refuse; as long as a silent connection is taken for a living one.
inline constexpr base::Duration kCouncilUnreachableLimit = std::chrono::seconds(10);

// A proven connection, of either direction.
struct CouncilLine {
  explicit CouncilLine(base::UniqueFd socket) : fd(std::move(socket)), keepAlive(fd.get()) {}

  void send(SharedFrame frame) {
    writer.push(std::move(frame));
    (void)writer.flush(fd.get());  // a lost connection is found when it is read
  }
  short events() const {
    return static_cast<short>(writer.isEmpty() ? POLLIN : (POLLIN | POLLOUT));
  }

  base::UniqueFd fd;
  KeepAlive keepAlive;
  FrameReader reader;
  FrameWriter writer;
};

struct CouncilGuest {
  CouncilLine line;
  std::optional<std::string> blob;  // once it has reported
};

// A connection to a rank: being made, or made.
struct CouncilCall {
  CouncilCall(const CouncilParty& party, uint32_t to, LinkKind kind, const SocketAddress& address,
              base::TimePoint now)
      : link(party.secret, ProofIdentity{party.commId, party.nranks(), party.rank, to, kind},
             address, kCouncilRefusalGrace),
        since(now) {}

  // Whether nothing has answered for so long that nobody will.
  bool isUnreachable(base::TimePoint now) const {
    const bool isTrying = link.state() == OutgoingLink::State::kConnecting ||
                          link.state() == OutgoingLink::State::kPausing;
    return !line.has_value() && isTrying && now - since >= kCouncilUnreachableLimit;
  }

  OutgoingLink link;
  base::TimePoint since;
  std::optional<CouncilLine> line;
};

}  // namespace omnes::core::bootstrap
