#include "core/exec/message.h"

#include "transports/streams.h"

namespace omnes::core {

using base::Status;

Status MessageChannels::open(bool isOutgoing, int32_t peer) {
  MessageChannel& channel = at(isOutgoing, peer);
  if (channel.data != nullptr) return Status::ok();
  OMNES_ASSIGN_OR_RETURN(const LinkList data,
                         links_->open({isOutgoing, transports::kMessageStream, peer}));
  OMNES_ASSIGN_OR_RETURN(const LinkList answers,
                         links_->open({!isOutgoing, transports::kAnswerStream, peer}));
  channel = {peer, isOutgoing, data.front(), answers.front(), 0};
  return Status::ok();
}

std::string describe(const Message& message) {
  return std::string(message.isSend ? "Send" : "Recv") + " of " + std::to_string(message.count) +
         " " + std::string(base::nameOf(message.type)) + (message.isSend ? " to" : " from") +
         " rank " + std::to_string(message.peer);
}

}  // namespace omnes::core
