// A message from one rank to another: what the two calls say of it, what travels with it, and the
// way it goes.
//
// The messages between two ranks are one sequence in each direction, in the order of the calls at
// both ends. Every chunk carries a tag that says what the sender means to send; it can be read
// back, so that the receiver can name both sides when they differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "core/exec/link_set.h"
#include "plan/plan.h"

namespace omnes::core {

struct Message {
  bool isSend = true;
  int32_t peer = 0;
  uint8_t* data = nullptr;  // read only, for a send
  uint64_t count = 0;
  base::DataType type = base::DataType::kInt8;

  uint64_t bytes() const { return count * base::sizeOf(type); }
};

// The largest count that a tag can tell from all others.
inline constexpr uint64_t kMostMessageElements = (uint64_t{1} << 45) - 1;

// What both ends of a message must agree on.
struct MessageTag {
  plan::Collective collective = plan::Collective::kSendReceive;
  base::DataType type = base::DataType::kInt8;
  uint8_t number = 0;  // of the message on its way, modulo 256
  uint64_t count = 0;  // at most kMostMessageElements

  uint64_t pack() const {
    return uint64_t{static_cast<uint8_t>(collective)} << 60 |
           uint64_t{static_cast<uint8_t>(type)} << 53 | uint64_t{number} << 45 | count;
  }
  // Any number is some tag; its fields may be anything.
  static MessageTag unpack(uint64_t bits) {
    return {static_cast<plan::Collective>(bits >> 60),
            static_cast<base::DataType>(bits >> 53 & 0x7f), static_cast<uint8_t>(bits >> 45),
            bits & kMostMessageElements};
  }
};

// The way of the messages between this rank and a peer, in one direction.
struct MessageChannel {
  int32_t peer = 0;
  bool isOutgoing = true;
  transports::Link* data = nullptr;
  transports::Link* answers = nullptr;  // the other way
  uint64_t begun = 0;                   // messages so far; of whoever drives
};

// All channels of a communicator. They are opened when they are first asked for, and stay.
class MessageChannels {
 public:
  // Borrows the links.
  MessageChannels(const LinkSet* links, int32_t nranks)
      : links_(links), channels_(2 * static_cast<size_t>(nranks)) {}

  // Null when it is not open yet.
  MessageChannel* find(bool isOutgoing, int32_t peer) {
    MessageChannel& channel = at(isOutgoing, peer);
    return channel.data != nullptr ? &channel : nullptr;
  }
  // Not while links are driven.
  base::Status open(bool isOutgoing, int32_t peer);

 private:
  MessageChannel& at(bool isOutgoing, int32_t peer) {
    return channels_[2 * static_cast<size_t>(peer) + (isOutgoing ? 1 : 0)];
  }

  const LinkSet* links_;
  std::vector<MessageChannel> channels_;
};

// "Send of 100 float to rank 1".
std::string describe(const Message& message);

}  // namespace omnes::core
