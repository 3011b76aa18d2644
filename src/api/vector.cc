// The V collectives: those whose blocks have lengths of their own.
//
// All-gather and reduce-scatter run the plans of their even forms. In the others a rank only knows
// the counts that concern it, so they are messages, each compared by its two ranks.
#include <span>

#include "api/arguments.h"
#include "api/boundary.h"
#include "api/group.h"
#include "api/ranges.h"

namespace {

using omnes::api::bad;
using omnes::api::Blocks;
using omnes::api::checkType;
using omnes::api::Entry;
using omnes::api::Group;
using omnes::api::guardCollective;
using omnes::api::overlaps;
using omnes::api::Ranges;
using omnes::base::Code;
using omnes::base::DataType;
using omnes::base::Result;
using omnes::base::Status;
using omnes::core::CallBuffers;
using omnes::core::Communicator;
using omnes::core::Message;
using omnes::core::Pending;
using omnes::core::Reducer;
using omnes::core::Shape;
using omnes::core::Stream;
using omnes::core::VectorLayout;
using omnes::plan::Collective;

// What a call needs for its checks; the next one of the thread takes it over.
struct Scratch {
  Ranges ranges;
  std::vector<Message> messages;
  std::vector<uint64_t> displacements;
};
Scratch& scratch() {
  static thread_local Scratch scratch;
  return scratch;
}

Status checkCall(omnesComm_t comm, const Entry& entry) {
  if (!entry.isIn()) [[unlikely]]
    return omnes::api::whyNotIn(comm);
  if (comm->isFinalized)
    return Status(Code::kInvalidUsage, "comm was finalized; only omnesCommDestroy may follow");
  return Status::ok();
}

// Behind others, in a stream, or noted by the group.
Status enqueue(std::shared_ptr<Pending> pending, omnesComm_t comm, omnesStream_t stream) {
  std::shared_ptr<Stream> beside;
  if (stream != nullptr) {
    OMNES_ASSIGN_OR_RETURN(beside, omnes::api::findStream(stream));
  }
  if (Group::isOpen())
    return Group::ofThisThread().noteOperation(comm, std::move(pending), std::move(beside));
  Communicator* communicator = comm->communicator.get();
  OMNES_RETURN_IF_ERROR(communicator->failure().status());
  OMNES_ASSIGN_OR_RETURN(
      const omnes::core::Batch batch,
      omnes::core::enqueueTogether({{communicator, std::move(pending), std::move(beside)}}));
  return omnes::core::finishTogether(batch);
}

bool runsInline(omnesComm_t comm, omnesStream_t stream) {
  return stream == nullptr && !Group::isOpen() && !comm->communicator->isBusy();
}

Status runPlan(const Shape& shape, const Reducer& reducer, const CallBuffers& buffers,
               const VectorLayout& layout, omnesComm_t comm, omnesStream_t stream) {
  Communicator* communicator = comm->communicator.get();
  if (runsInline(comm, stream)) return communicator->runVector(shape, reducer, buffers, layout);
  OMNES_ASSIGN_OR_RETURN(std::shared_ptr<Pending> pending,
                         communicator->makePendingVector(shape, reducer, buffers, layout));
  return enqueue(std::move(pending), comm, stream);
}

Status runMessages(const Shape& shape, omnesComm_t comm, omnesStream_t stream) {
  Communicator* communicator = comm->communicator.get();
  const std::span<const Message> messages = scratch().messages;
  if (runsInline(comm, stream)) return communicator->runMessages(shape, messages);
  OMNES_ASSIGN_OR_RETURN(std::shared_ptr<Pending> pending,
                         communicator->makePendingMessages(shape, messages));
  return enqueue(std::move(pending), comm, stream);
}

std::span<const uint64_t> asSpan(const size_t* values, omnesComm_t comm) {
  return {values, static_cast<size_t>(comm->nranks)};
}

uint64_t sumOf(const size_t* counts, omnesComm_t comm) {
  uint64_t sum = 0;
  for (const uint64_t count : asSpan(counts, comm)) sum += count;
  return sum;
}

// One block of a rank, which is also a block of `all`, a buffer that is written.
Status checkGather(const Blocks& all, const void* sendbuff, uint64_t sendcount, omnesComm_t comm) {
  if (all.displacements == nullptr) return bad(std::string(all.displacementsName) + " is NULL");
  OMNES_RETURN_IF_ERROR(check(all));
  if (sendcount != all.counts[comm->rank])
    return bad("sendcount is " + std::to_string(sendcount) + ", but " + all.countsName + "[" +
               std::to_string(comm->rank) + "], of this rank, is " +
               std::to_string(all.counts[comm->rank]));
  if (sendcount > 0 && sendbuff == nullptr) return bad("sendbuff is NULL");
  Ranges& ranges = scratch().ranges;
  OMNES_RETURN_IF_ERROR(ranges.take(all));
  const bool inPlace = sendcount > 0 && sendbuff == all.at(comm->rank);
  if (!inPlace && ranges.overlap(sendbuff, sendcount * all.width))
    return bad("sendbuff overlaps a block of recvbuff without being in place");
  return Status::ok();
}

Message messageOf(const Blocks& blocks, int rank, bool isSend, DataType type) {
  return {isSend, rank, blocks.counts[rank] == 0 ? nullptr : blocks.at(rank), blocks.counts[rank],
          type};
}

Status checkAllToAll(const Blocks& sent, const Blocks& received, omnesComm_t comm) {
  for (const Blocks* blocks : {&sent, &received}) {
    if (blocks->displacements == nullptr)
      return bad(std::string(blocks->displacementsName) + " is NULL");
    OMNES_RETURN_IF_ERROR(check(*blocks));
  }
  const int own = comm->rank;
  if (sent.counts[own] != received.counts[own])
    return bad("sendcounts[" + std::to_string(own) + "] is " + std::to_string(sent.counts[own]) +
               " and recvcounts[" + std::to_string(own) + "] is " +
               std::to_string(received.counts[own]) + ", for this rank itself");
  Ranges& ranges = scratch().ranges;
  OMNES_RETURN_IF_ERROR(ranges.take(received));
  for (int rank = 0; rank < comm->nranks; ++rank)
    if (sent.counts[rank] > 0 && ranges.overlap(sent.at(rank), sent.counts[rank] * sent.width))
      return bad("the block of sendbuff for rank " + std::to_string(rank) +
                 " overlaps a block of recvbuff");
  return Status::ok();
}

Status allGather(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                 const size_t* displs, omnesDataType_t datatype, omnesComm_t comm,
                 omnesStream_t stream) {
  const Entry entry(comm);
  OMNES_RETURN_IF_ERROR(checkCall(comm, entry));
  OMNES_ASSIGN_OR_RETURN(const DataType type, checkType(datatype));
  const Blocks all{"recvbuff", "recvcounts", "displs",     recvbuff,
                   recvcounts, displs,       comm->nranks, omnes::base::sizeOf(type)};
  OMNES_RETURN_IF_ERROR(checkGather(all, sendbuff, sendcount, comm));
  const Shape shape{Collective::kAllGatherV, sumOf(recvcounts, comm), type};
  return runPlan(shape, {}, {sendbuff, recvbuff}, {asSpan(recvcounts, comm), asSpan(displs, comm)},
                 comm, stream);
}

Status reduceScatter(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                     omnesDataType_t datatype, omnesRedOp_t op, omnesComm_t comm,
                     omnesStream_t stream) {
  const Entry entry(comm);
  OMNES_RETURN_IF_ERROR(checkCall(comm, entry));
  OMNES_ASSIGN_OR_RETURN(const DataType type, checkType(datatype));
  OMNES_ASSIGN_OR_RETURN(const Reducer reducer, omnes::api::checkOperator(comm, op, type));
  const size_t width = omnes::base::sizeOf(type);
  const Blocks all{"sendbuff", "recvcounts", "",           sendbuff,
                   recvcounts, nullptr,      comm->nranks, width};
  OMNES_RETURN_IF_ERROR(check(all));
  const uint64_t own = recvcounts[comm->rank], total = sumOf(recvcounts, comm);
  if (own > 0 && recvbuff == nullptr) return bad("recvbuff is NULL");
  const bool inPlace = own > 0 && recvbuff == all.at(comm->rank);
  if (!inPlace && overlaps(sendbuff, total * width, recvbuff, own * width))
    return bad("sendbuff and recvbuff overlap without being in place");
  std::vector<uint64_t>& displacements = scratch().displacements;
  displacements.clear();
  uint64_t behind = 0;
  for (const uint64_t count : asSpan(recvcounts, comm)) {
    displacements.push_back(behind);
    behind += count;
  }
  const Shape shape{Collective::kReduceScatterV, total, type, reducer.op};
  return runPlan(shape, reducer, {sendbuff, recvbuff}, {asSpan(recvcounts, comm), displacements},
                 comm, stream);
}

Status allToAll(const Blocks& sent, const Blocks& received, DataType type, omnesComm_t comm,
                omnesStream_t stream) {
  OMNES_RETURN_IF_ERROR(checkAllToAll(sent, received, comm));
  std::vector<Message>& messages = scratch().messages;
  messages.clear();
  for (int rank = 0; rank < comm->nranks; ++rank) {
    messages.push_back(messageOf(received, rank, false, type));
    messages.push_back(messageOf(sent, rank, true, type));
  }
  return runMessages({Collective::kAllToAllV, sumOf(sent.counts, comm), type}, comm, stream);
}

Status gather(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
              const size_t* displs, omnesDataType_t datatype, int root, omnesComm_t comm,
              omnesStream_t stream) {
  const Entry entry(comm);
  OMNES_RETURN_IF_ERROR(checkCall(comm, entry));
  OMNES_ASSIGN_OR_RETURN(const DataType type, checkType(datatype));
  OMNES_RETURN_IF_ERROR(omnes::api::checkRank(comm, root, "root"));
  // On the other ranks recvcounts, displs and recvbuff are not looked at.
  const size_t own = sendcount;
  const Blocks send{"sendbuff", "sendcount", "", sendbuff,
                    &own,       nullptr,     1,  omnes::base::sizeOf(type)};
  OMNES_RETURN_IF_ERROR(check(send));
  std::vector<Message>& messages = scratch().messages;
  messages.clear();
  auto* data = static_cast<uint8_t*>(const_cast<void*>(sendbuff));
  messages.push_back({true, root, data, sendcount, type});
  if (comm->rank == root) {
    const Blocks all{"recvbuff", "recvcounts", "displs",     recvbuff,
                     recvcounts, displs,       comm->nranks, omnes::base::sizeOf(type)};
    OMNES_RETURN_IF_ERROR(checkGather(all, sendbuff, sendcount, comm));
    for (int rank = 0; rank < comm->nranks; ++rank)
      messages.push_back(messageOf(all, rank, false, type));
  }
  const Shape shape{Collective::kGatherV, sendcount, type, omnes::base::ReduceOp::kSum, root};
  return runMessages(shape, comm, stream);
}

Status checkScatter(const Blocks& all, const void* recvbuff, uint64_t recvcount, omnesComm_t comm) {
  if (all.displacements == nullptr) return bad(std::string(all.displacementsName) + " is NULL");
  OMNES_RETURN_IF_ERROR(check(all));
  if (recvcount != all.counts[comm->rank])
    return bad("recvcount is " + std::to_string(recvcount) + ", but " + all.countsName + "[" +
               std::to_string(comm->rank) + "], of this rank, is " +
               std::to_string(all.counts[comm->rank]));
  const bool inPlace = recvcount > 0 && recvbuff == all.at(comm->rank);
  for (int rank = 0; rank < comm->nranks && !inPlace; ++rank)
    if (overlaps(all.at(rank), all.counts[rank] * all.width, recvbuff, recvcount * all.width))
      return bad("recvbuff overlaps the block of sendbuff for rank " + std::to_string(rank) +
                 " without being in place");
  return Status::ok();
}

Status scatter(const void* sendbuff, const size_t* sendcounts, const size_t* displs, void* recvbuff,
               size_t recvcount, omnesDataType_t datatype, int root, omnesComm_t comm,
               omnesStream_t stream) {
  const Entry entry(comm);
  OMNES_RETURN_IF_ERROR(checkCall(comm, entry));
  OMNES_ASSIGN_OR_RETURN(const DataType type, checkType(datatype));
  OMNES_RETURN_IF_ERROR(omnes::api::checkRank(comm, root, "root"));
  const size_t own = recvcount;
  const Blocks receive{"recvbuff", "recvcount", "", recvbuff,
                       &own,       nullptr,     1,  omnes::base::sizeOf(type)};
  OMNES_RETURN_IF_ERROR(check(receive));
  std::vector<Message>& messages = scratch().messages;
  messages.clear();
  messages.push_back({false, root, static_cast<uint8_t*>(recvbuff), recvcount, type});
  if (comm->rank == root) {
    const Blocks all{"sendbuff", "sendcounts", "displs",     sendbuff,
                     sendcounts, displs,       comm->nranks, omnes::base::sizeOf(type)};
    OMNES_RETURN_IF_ERROR(checkScatter(all, recvbuff, recvcount, comm));
    for (int rank = 0; rank < comm->nranks; ++rank)
      messages.push_back(messageOf(all, rank, true, type));
  }
  const Shape shape{Collective::kScatterV, recvcount, type, omnes::base::ReduceOp::kSum, root};
  return runMessages(shape, comm, stream);
}

}  // namespace

omnesResult_t omnesAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                              const size_t recvcounts[], const size_t displs[],
                              omnesDataType_t datatype, omnesComm_t comm, omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return allGather(sendbuff, sendcount, recvbuff, recvcounts, displs, datatype, comm, stream);
  });
}

omnesResult_t omnesReduceScatterV(const void* sendbuff, void* recvbuff, const size_t recvcounts[],
                                  omnesDataType_t datatype, omnesRedOp_t op, omnesComm_t comm,
                                  omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return reduceScatter(sendbuff, recvbuff, recvcounts, datatype, op, comm, stream);
  });
}

omnesResult_t omnesAlltoAllV(const void* sendbuff, const size_t sendcounts[],
                             const size_t sdispls[], void* recvbuff, const size_t recvcounts[],
                             const size_t rdispls[], omnesDataType_t datatype, omnesComm_t comm,
                             omnesStream_t stream) {
  return guardCollective(comm, [&]() -> Status {
    const Entry entry(comm);
    OMNES_RETURN_IF_ERROR(checkCall(comm, entry));
    OMNES_ASSIGN_OR_RETURN(const DataType type, checkType(datatype));
    const size_t width = omnes::base::sizeOf(type);
    return allToAll(
        {"sendbuff", "sendcounts", "sdispls", sendbuff, sendcounts, sdispls, comm->nranks, width},
        {"recvbuff", "recvcounts", "rdispls", recvbuff, recvcounts, rdispls, comm->nranks, width},
        type, comm, stream);
  });
}

omnesResult_t omnesGatherV(const void* sendbuff, size_t sendcount, void* recvbuff,
                           const size_t recvcounts[], const size_t displs[],
                           omnesDataType_t datatype, int root, omnesComm_t comm,
                           omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return gather(sendbuff, sendcount, recvbuff, recvcounts, displs, datatype, root, comm, stream);
  });
}

omnesResult_t omnesScatterV(const void* sendbuff, const size_t sendcounts[], const size_t displs[],
                            void* recvbuff, size_t recvcount, omnesDataType_t datatype, int root,
                            omnesComm_t comm, omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return scatter(sendbuff, sendcounts, displs, recvbuff, recvcount, datatype, root, comm, stream);
  });
}
