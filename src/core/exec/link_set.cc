#include "core/exec/link_set.h"

#include <string>

#include "transports/streams.h"

namespace omnes::core {

using base::Code;
using base::Result;
using base::Status;
using transports::Endpoint;
using transports::Link;
using transports::LinkShape;
using transports::Outcome;

// Ranks cut a message by the largest chunk of their links, and pick algorithms by the slots: a link
// that differs from the others of its class would let them cut or pick differently.
Result<Link*> LinkSet::openOn(Endpoint* endpoint, const LinkShape& shape) const {
  Link* link = nullptr;
  if (endpoint->table->openLink(endpoint, &shape, &link) != Outcome::kOk)
    return Status(Code::kNotSupported, endpoint->error);
  const transports::StreamClass wanted = transports::streamClass(shape.stream, slotBytes_);
  if (link->slotBytes != wanted.bodyBytes || link->credits < wanted.slots)
    return Status(Code::kInternalError,
                  std::string(endpoint->table->name) + " has " + std::to_string(link->credits) +
                      " slots of " + std::to_string(link->slotBytes) + " bytes for stream " +
                      std::to_string(shape.stream) + " instead of " + std::to_string(wanted.slots) +
                      " of " + std::to_string(wanted.bodyBytes));
  return link;
}

void LinkSet::add(EndpointOwner endpoint, const std::vector<int32_t>& members) {
  for (const int32_t rank : members) carrier_[rank] = endpoint.get();
  if (endpoint->pollFd >= 0) pumped_.push_back(endpoint.get());
  endpoints_.push_back(std::move(endpoint));
}

Result<LinkList> LinkSet::open(const LinkShape& shape) const {
  LinkList out;
  if (shape.outgoing && transports::streamClass(shape.stream, slotBytes_).multicast) {
    for (const EndpointOwner& endpoint : endpoints_) {
      OMNES_ASSIGN_OR_RETURN(Link * link, openOn(endpoint.get(), shape));
      out.push_back(link);
    }
    return out;
  }
  const bool isRank = shape.peer >= 0 && shape.peer < static_cast<int32_t>(carrier_.size());
  Endpoint* carrier = isRank ? carrier_[shape.peer] : nullptr;
  if (carrier == nullptr)
    return Status(Code::kInternalError,
                  "nothing carries chunks to rank " + std::to_string(shape.peer));
  OMNES_ASSIGN_OR_RETURN(Link * link, openOn(carrier, shape));
  out.push_back(link);
  return out;
}

Outcome LinkSet::progress() {
  Outcome all = Outcome::kAgain;
  for (Endpoint* endpoint : pumped_) {
    const Outcome one = endpoint->table->progress(endpoint);
    if (one == Outcome::kAgain) continue;
    if (one != Outcome::kOk) {
      failed_ = endpoint;
      return one;
    }
    all = Outcome::kOk;
  }
  return all;
}

void LinkSet::addPollFds(std::vector<pollfd>* fds) const {
  for (const Endpoint* endpoint : pumped_) fds->push_back({endpoint->pollFd, POLLIN, 0});
}

base::Board* LinkSet::boardOf(int32_t rank) const {
  for (const EndpointOwner& endpoint : endpoints_)
    if (endpoint->boards != nullptr && endpoint->boards[rank] != nullptr)
      return endpoint->boards[rank];
  return nullptr;
}

const char* LinkSet::carrierOf(int32_t rank) const {
  return carrier_[rank] != nullptr ? carrier_[rank]->table->name : "";
}

}  // namespace omnes::core
