// The control socket of one member: credits that it is owed, and those that it sends. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transports/streams.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/window.h"

namespace omnes::transports::tcp {

class CreditChannel {
 public:
  // Whether credits wait to be sent, also those of a frame that is partly sent.
  bool hasUnsent() const { return sent_ < encoded_ || !owed_.empty(); }
  // The member must hear what the link has consumed. Borrows the link.
  void owe(Incoming* link) {
    if (link->isListed) return;
    owed_.push_back(link);
    link->isListed = true;
  }
  // Nobody listens any more.
  void forget();

  // Sends what can be sent now: bytes, 0 when there was no room, or the errno, negative.
  ssize_t flush(int fd);
  // Reads all that there is into `credits`: as receiveSome(). kInvalidCredit: no credit frame.
  static constexpr ssize_t kInvalidCredit = -2'000'000;
  ssize_t read(int fd, std::vector<Credit>* credits);

 private:
  std::vector<Incoming*> owed_;
  uint8_t out_[kStreams * kCreditBytes];  // each link is listed once
  size_t encoded_ = 0;
  size_t sent_ = 0;
  uint8_t in_[16 * kCreditBytes];
  size_t received_ = 0;
};

}  // namespace omnes::transports::tcp
