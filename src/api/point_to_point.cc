// Messages from rank to rank.
#include <algorithm>
#include <span>

#include "api/arguments.h"
#include "api/boundary.h"
#include "api/group.h"

namespace {

using omnes::api::bad;
using omnes::api::Entry;
using omnes::api::Group;
using omnes::base::Code;
using omnes::base::DataType;
using omnes::base::Status;
using omnes::core::Message;
using omnes::core::Pending;
using omnes::core::Shape;
using omnes::core::Stream;

constexpr Shape kShape{.collective = omnes::plan::Collective::kSendReceive};

Status checkBuffer(const Message& message, const char* name) {
  const uint64_t most = std::min<uint64_t>(omnes::core::kMostMessageElements,
                                           INT64_MAX / omnes::base::sizeOf(message.type));
  if (message.count > most)
    return bad("count is " + std::to_string(message.count) + "; a message has at most " +
               std::to_string(most) + " elements");
  if (message.count > 0 && message.data == nullptr) return bad(std::string(name) + " is NULL");
  return Status::ok();
}

Status runMessage(Message message, const char* name, omnesDataType_t datatype, int peer,
                  omnesComm_t comm, omnesStream_t stream) {
  const Entry entry(comm);
  if (!entry.isIn()) [[unlikely]]
    return omnes::api::whyNotIn(comm);
  if (comm->isFinalized)
    return Status(Code::kInvalidUsage, "comm was finalized; only omnesCommDestroy may follow");
  OMNES_ASSIGN_OR_RETURN(message.type, omnes::api::checkType(datatype));
  OMNES_RETURN_IF_ERROR(omnes::api::checkRank(comm, peer, "peer"));
  OMNES_RETURN_IF_ERROR(checkBuffer(message, name));
  omnes::core::Communicator* communicator = comm->communicator.get();
  if (stream == nullptr && !Group::isOpen() && !communicator->isBusy()) [[likely]]
    return communicator->runMessages(kShape, {&message, 1});
  std::shared_ptr<Stream> beside;
  if (stream != nullptr) {
    OMNES_ASSIGN_OR_RETURN(beside, omnes::api::findStream(stream));
  }
  if (Group::isOpen()) return Group::ofThisThread().noteMessage(comm, message, std::move(beside));
  OMNES_RETURN_IF_ERROR(communicator->failure().status());
  OMNES_ASSIGN_OR_RETURN(std::shared_ptr<Pending> pending,
                         communicator->makePendingMessages(kShape, {&message, 1}));
  OMNES_ASSIGN_OR_RETURN(
      const omnes::core::Batch batch,
      omnes::core::enqueueTogether({{communicator, std::move(pending), std::move(beside)}}));
  return omnes::core::finishTogether(batch);
}

}  // namespace

omnesResult_t omnesSend(const void* sendbuff, size_t count, omnesDataType_t datatype, int peer,
                        omnesComm_t comm, omnesStream_t stream) {
  return omnes::api::guardCollective(comm, [&] {
    // Only read.
    auto* data = static_cast<uint8_t*>(const_cast<void*>(sendbuff));
    return runMessage({.isSend = true, .peer = peer, .data = data, .count = count}, "sendbuff",
                      datatype, peer, comm, stream);
  });
}

omnesResult_t omnesRecv(void* recvbuff, size_t count, omnesDataType_t datatype, int peer,
                        omnesComm_t comm, omnesStream_t stream) {
  return omnes::api::guardCollective(comm, [&] {
    auto* data = static_cast<uint8_t*>(recvbuff);
    return runMessage({.isSend = false, .peer = peer, .data = data, .count = count}, "recvbuff",
                      datatype, peer, comm, stream);
  });
}
