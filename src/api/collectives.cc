// The collectives and the created operators: arguments are checked here, before anything is sent.
#include <cstring>
#include <optional>

#include "api/arguments.h"
#include "api/boundary.h"
#include "api/group.h"

namespace {

using omnes::api::bad;
using omnes::api::checkOperator;
using omnes::api::checkRank;
using omnes::api::checkType;
using omnes::api::Entry;
using omnes::api::Group;
using omnes::api::guard;
using omnes::api::guardCollective;
using omnes::api::kFirstCreatedOperator;
using omnes::api::overlaps;
using omnes::base::Code;
using omnes::base::DataType;
using omnes::base::Result;
using omnes::base::Status;
using omnes::core::Pending;
using omnes::core::Reducer;
using omnes::core::Shape;
using omnes::core::Stream;
using omnes::plan::Collective;

// Whether the buffers are one, as NCCL has it for the collective.
bool isInPlace(const Shape& shape, int32_t rank, const void* send, const void* recv) {
  const uint64_t block =
      shape.count * omnes::base::sizeOf(shape.type) * static_cast<uint64_t>(rank);
  const auto* s = static_cast<const char*>(send);
  const auto* r = static_cast<const char*>(recv);
  switch (shape.collective) {
    case Collective::kReduceScatter:
    case Collective::kScatter: return r == s + block;
    case Collective::kAllGather:
    case Collective::kGather: return s == r + block;
    case Collective::kAllToAll: return false;
    default: return s == r;
  }
}

// Sizes, pointers and overlap. A buffer that this rank has no use for may be anything.
Status checkBuffers(const Shape& shape, int32_t nranks, int32_t rank, const void* send,
                    const void* recv) {
  const uint64_t width = omnes::base::sizeOf(shape.type);
  if (shape.count > INT64_MAX / width / static_cast<uint64_t>(nranks))
    return bad("count is " + std::to_string(shape.count) +
               ": the buffers would be beyond 2^63 bytes");
  if (shape.count == 0) return Status::ok();
  const auto bytes = omnes::core::bufferBytes(shape, rank, nranks);
  if (send == nullptr && bytes.send > 0) return bad("sendbuff is NULL");
  if (recv == nullptr && bytes.recv > 0) return bad("recvbuff is NULL");
  if (!overlaps(send, bytes.send, recv, bytes.recv) || isInPlace(shape, rank, send, recv))
    return Status::ok();
  return bad(shape.collective == Collective::kAllToAll
                 ? "sendbuff and recvbuff overlap; an AlltoAll is never in place"
                 : "sendbuff and recvbuff overlap without being in place");
}

struct Wanted {
  Shape shape;
  Reducer reducer;
  omnes::core::CallBuffers buffers;
};

// Behind others, in a stream, or noted by the group.
Status enqueue(const Wanted& call, omnesComm_t comm, omnesStream_t stream) {
  std::shared_ptr<Stream> beside;
  if (stream != nullptr) {
    OMNES_ASSIGN_OR_RETURN(beside, omnes::api::findStream(stream));
  }
  omnes::core::Communicator* communicator = comm->communicator.get();
  OMNES_ASSIGN_OR_RETURN(std::shared_ptr<Pending> pending,
                         communicator->makePending(call.shape, call.reducer, call.buffers));
  if (Group::isOpen())
    return Group::ofThisThread().noteOperation(comm, std::move(pending), std::move(beside));
  OMNES_RETURN_IF_ERROR(communicator->failure().status());
  OMNES_ASSIGN_OR_RETURN(
      const omnes::core::Batch batch,
      omnes::core::enqueueTogether({{communicator, std::move(pending), std::move(beside)}}));
  return omnes::core::finishTogether(batch);
}

struct Arguments {
  const void* send;
  void* recv;
  size_t count;
  omnesDataType_t datatype;
  omnesRedOp_t op = omnesSum;
  std::optional<int> root = std::nullopt;
};

Status run(Collective collective, const Arguments& in, omnesComm_t comm, omnesStream_t stream) {
  const Entry entry(comm);
  if (!entry.isIn()) [[unlikely]]
    return omnes::api::whyNotIn(comm);
  if (comm->isFinalized)
    return Status(Code::kInvalidUsage, "comm was finalized; only omnesCommDestroy may follow");
  OMNES_ASSIGN_OR_RETURN(const DataType type, checkType(in.datatype));
  OMNES_ASSIGN_OR_RETURN(const Reducer reducer, checkOperator(comm, in.op, type));
  if (in.root) OMNES_RETURN_IF_ERROR(checkRank(comm, *in.root, "root"));
  const Shape shape{collective, in.count, type, reducer.op, in.root.value_or(-1)};
  OMNES_RETURN_IF_ERROR(checkBuffers(shape, comm->nranks, comm->rank, in.send, in.recv));
  if (stream == nullptr && !Group::isOpen() && !comm->communicator->isBusy()) [[likely]]
    return comm->communicator->run(shape, reducer, {in.send, in.recv});
  return enqueue({shape, reducer, {in.send, in.recv}}, comm, stream);
}

}  // namespace

omnesResult_t omnesAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                             omnesDataType_t datatype, omnesRedOp_t op, omnesComm_t comm,
                             omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kAllReduce, {sendbuff, recvbuff, count, datatype, op}, comm, stream);
  });
}

omnesResult_t omnesReduce(const void* sendbuff, void* recvbuff, size_t count,
                          omnesDataType_t datatype, omnesRedOp_t op, int root, omnesComm_t comm,
                          omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kReduce, {sendbuff, recvbuff, count, datatype, op, root}, comm, stream);
  });
}

omnesResult_t omnesBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                             omnesDataType_t datatype, int root, omnesComm_t comm,
                             omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kBroadcast, {sendbuff, recvbuff, count, datatype, omnesSum, root}, comm,
               stream);
  });
}

omnesResult_t omnesBcast(void* buff, size_t count, omnesDataType_t datatype, int root,
                         omnesComm_t comm, omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kBroadcast, {buff, buff, count, datatype, omnesSum, root}, comm, stream);
  });
}

omnesResult_t omnesReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                 omnesDataType_t datatype, omnesRedOp_t op, omnesComm_t comm,
                                 omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kReduceScatter, {sendbuff, recvbuff, recvcount, datatype, op}, comm,
               stream);
  });
}

omnesResult_t omnesAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                             omnesDataType_t datatype, omnesComm_t comm, omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kAllGather, {sendbuff, recvbuff, sendcount, datatype}, comm, stream);
  });
}

omnesResult_t omnesAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                            omnesDataType_t datatype, omnesComm_t comm, omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kAllToAll, {sendbuff, recvbuff, count, datatype}, comm, stream);
  });
}

omnesResult_t omnesGather(const void* sendbuff, void* recvbuff, size_t count,
                          omnesDataType_t datatype, int root, omnesComm_t comm,
                          omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kGather, {sendbuff, recvbuff, count, datatype, omnesSum, root}, comm,
               stream);
  });
}

omnesResult_t omnesScatter(const void* sendbuff, void* recvbuff, size_t count,
                           omnesDataType_t datatype, int root, omnesComm_t comm,
                           omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kScatter, {sendbuff, recvbuff, count, datatype, omnesSum, root}, comm,
               stream);
  });
}

omnesResult_t omnesBarrier(omnesComm_t comm, omnesStream_t stream) {
  return guardCollective(comm, [&] {
    return run(Collective::kBarrier, {nullptr, nullptr, 0, omnesInt8}, comm, stream);
  });
}

omnesResult_t omnesRedOpCreatePreMulSum(omnesRedOp_t* op, void* scalar, omnesDataType_t datatype,
                                        omnesScalarResidence_t residence, omnesComm_t comm) {
  return guard([&]() -> Status {
    const Entry entry(comm);
    if (!entry.isIn()) [[unlikely]]
      return omnes::api::whyNotIn(comm);
    if (op == nullptr) return bad("op is NULL");
    if (scalar == nullptr) return bad("scalar is NULL");
    if (residence != omnesScalarDevice && residence != omnesScalarHostImmediate)
      return bad("residence is " + std::to_string(static_cast<int>(residence)) +
                 ", which is no omnesScalarResidence_t");
    OMNES_ASSIGN_OR_RETURN(const DataType type, checkType(datatype));
    uint64_t bits = 0;
    std::memcpy(&bits, scalar, omnes::base::sizeOf(type));
    *op = static_cast<omnesRedOp_t>(kFirstCreatedOperator +
                                    comm->communicator->createOperator(type, bits));
    return Status::ok();
  });
}

omnesResult_t omnesRedOpDestroy(omnesRedOp_t op, omnesComm_t comm) {
  return guard([&]() -> Status {
    const Entry entry(comm);
    if (!entry.isIn()) [[unlikely]]
      return omnes::api::whyNotIn(comm);
    if (static_cast<int>(op) < kFirstCreatedOperator)
      return bad("op " + std::to_string(static_cast<int>(op)) + " is built in");
    return comm->communicator->destroyOperator(static_cast<int>(op) - kFirstCreatedOperator);
  });
}
