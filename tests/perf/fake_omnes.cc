// A stand-in for the library: ranks are threads of one process, every operation is done the slow
// way, and FAKE_OMNES_FAULT makes it wrong on purpose. It lets the frame of perf/ be tested for
// what it must notice.
//
//   flip   rank 1 gets one wrong element        guard  one byte is written behind the output
//   input  the input is changed                 error  the 20th operation of rank 1 fails
//   hang   the 20th operation of rank 1 never returns
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/elements.h"
#include "omnes/omnes.h"

using omnes::perf::TypeInfo;

namespace {

struct World {
  explicit World(int n) : size(n), send(static_cast<size_t>(n)), scalar(send.size()) {}

  // False once aborted.
  bool meet() {
    std::unique_lock<std::mutex> lock(mutex);
    const uint64_t mine = generation;
    if (++arrived == size) {
      arrived = 0;
      ++generation;
      wake.notify_all();
      return !aborted;
    }
    wake.wait(lock, [&] { return generation != mine || aborted; });
    return !aborted;
  }
  void hang() {
    std::unique_lock<std::mutex> lock(mutex);
    wake.wait(lock, [] { return false; });
  }
  void abort() {
    const std::lock_guard<std::mutex> lock(mutex);
    aborted = true;
    wake.notify_all();
  }

  const int size;
  std::vector<const unsigned char*> send;
  std::vector<uint64_t> scalar;
  std::mutex mutex;
  std::condition_variable wake;
  int arrived = 0;
  uint64_t generation = 0;
  bool aborted = false;
};

thread_local std::string lastError;
std::mutex worldsMutex;
std::map<std::string, std::shared_ptr<World>> worlds;

const TypeInfo& infoOf(omnesDataType_t type) {
  const auto all = omnes::perf::allTypes();
  return *std::find_if(all.begin(), all.end(), [&](const TypeInfo& t) { return t.type == type; });
}

int64_t widen(const TypeInfo& type, uint64_t bits) {
  const unsigned shift = 64 - 8 * type.bytes;
  return type.kind == omnes::perf::Kind::kSigned ? static_cast<int64_t>(bits << shift) >> shift
                                                 : static_cast<int64_t>(bits);
}

template <typename T>
T combine(T a, T b, int op) {
  switch (op) {
    case omnesProd: return a * b;
    case omnesMin: return b < a ? b : a;
    case omnesMax: return a < b ? b : a;
    default: return a + b;
  }
}

uint64_t reduceIntegers(const TypeInfo& type, const std::vector<uint64_t>& in, int op) {
  const bool isSigned = type.kind == omnes::perf::Kind::kSigned;
  uint64_t result = static_cast<uint64_t>(widen(type, in[0]));
  for (size_t i = 1; i < in.size(); ++i) {
    const auto next = static_cast<uint64_t>(widen(type, in[i]));
    if (op == omnesBand)
      result &= next;
    else if (op == omnesBor)
      result |= next;
    else if (op == omnesBxor)
      result ^= next;
    else if (isSigned && (op == omnesMin || op == omnesMax))
      result = static_cast<uint64_t>(
          combine(static_cast<int64_t>(result), static_cast<int64_t>(next), op));
    else
      result = combine(result, next, op);
  }
  if (op != omnesAvg) return result;
  if (!isSigned) return result / in.size();
  return static_cast<uint64_t>(static_cast<int64_t>(result) / static_cast<int64_t>(in.size()));
}

uint64_t reduceFloats(const TypeInfo& type, const std::vector<uint64_t>& in, int op) {
  long double result = decodeFloat(type, in[0]);
  for (size_t i = 1; i < in.size(); ++i) result = combine(result, decodeFloat(type, in[i]), op);
  if (op == omnesAvg) result /= static_cast<long double>(in.size());
  if (type.bytes == 8) {  // times are no exact numbers
    const auto rounded = static_cast<double>(result);
    uint64_t bits;
    std::memcpy(&bits, &rounded, 8);
    return bits;
  }
  return encodeExact(type, result).value_or(0);
}

uint64_t scaled(const TypeInfo& type, uint64_t bits, uint64_t scalar) {
  if (!type.isFloat()) return bits * scalar & type.mask();
  return encodeExact(type, decodeFloat(type, bits) * decodeFloat(type, scalar)).value_or(0);
}

}  // namespace

struct omnesComm {
  std::shared_ptr<World> world;
  int rank;
  int operations = 0;
  std::string error;
};

static bool faulty(const omnesComm& comm, const char* name) {
  const char* fault = std::getenv("FAKE_OMNES_FAULT");
  return fault != nullptr && std::strcmp(fault, name) == 0 &&
         comm.rank == std::min(1, comm.world->size - 1);
}

static omnesResult_t failed(omnesComm* comm, omnesResult_t result, const std::string& text) {
  lastError = text;
  if (comm != nullptr && comm->error.empty()) comm->error = text;
  return result;
}

omnesResult_t omnesGetVersion(int* version) {
  *version = OMNES_VERSION_CODE;
  return omnesSuccess;
}

const char* omnesGetErrorString(omnesResult_t result) {
  return result == omnesRemoteError ? "remote error" : "some error";
}

const char* omnesGetLastError(omnesComm_t comm) {
  return comm != nullptr ? comm->error.c_str() : lastError.c_str();
}

omnesResult_t omnesGetUniqueId(omnesUniqueId* id) {
  static int made = 0;
  const std::lock_guard<std::mutex> lock(worldsMutex);
  std::memset(id, 0, sizeof *id);
  const std::string name = "world" + std::to_string(++made);
  name.copy(id->internal, sizeof id->internal - 1);
  return omnesSuccess;
}

omnesResult_t omnesCommInitRank(omnesComm_t* comm, int nranks, omnesUniqueId id, int rank) {
  std::shared_ptr<World> world;
  {
    const std::lock_guard<std::mutex> lock(worldsMutex);
    std::shared_ptr<World>& entry = worlds[id.internal];
    if (!entry) entry = std::make_shared<World>(nranks);
    world = entry;
  }
  *comm = std::make_unique<omnesComm>(omnesComm{world, rank, 0, {}}).release();
  return world->meet() ? omnesSuccess : failed(nullptr, omnesRemoteError, "aborted");
}

omnesResult_t omnesCommInitAll(omnesComm_t* comms, int nranks, const int*) {
  const auto world = std::make_shared<World>(nranks);
  for (int rank = 0; rank < nranks; ++rank) {
    comms[rank] = std::make_unique<omnesComm>(omnesComm{world, rank, 0, {}}).release();
  }
  return omnesSuccess;
}

// Always alone, as a library that does not understand its launcher would be.
omnesResult_t omnesCommInitEnv(omnesComm_t* comm, const omnesConfig_t*) {
  return omnesCommInitAll(comm, 1, nullptr);
}

omnesResult_t omnesCommDestroy(omnesComm_t comm) {
  const std::unique_ptr<omnesComm> owned(comm);
  return omnesSuccess;
}

omnesResult_t omnesCommAbort(omnesComm_t comm) {
  comm->world->abort();
  return omnesCommDestroy(comm);
}

omnesResult_t omnesCommCount(omnesComm_t comm, int* count) {
  *count = comm->world->size;
  return omnesSuccess;
}

omnesResult_t omnesCommUserRank(omnesComm_t comm, int* rank) {
  *rank = comm->rank;
  return omnesSuccess;
}

omnesResult_t omnesRedOpCreatePreMulSum(omnesRedOp_t* op, void* scalar, omnesDataType_t datatype,
                                        omnesScalarResidence_t, omnesComm_t comm) {
  uint64_t& mine = comm->world->scalar[static_cast<size_t>(comm->rank)];
  mine = 0;
  std::memcpy(&mine, scalar, infoOf(datatype).bytes);
  *op = static_cast<omnesRedOp_t>(1024);
  return omnesSuccess;
}

omnesResult_t omnesRedOpDestroy(omnesRedOp_t, omnesComm_t) { return omnesSuccess; }

omnesResult_t omnesAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                             omnesDataType_t datatype, omnesRedOp_t op, omnesComm_t comm,
                             omnesStream_t) {
  World& world = *comm->world;
  const TypeInfo& type = infoOf(datatype);
  if (++comm->operations >= 20) {
    if (faulty(*comm, "error")) return failed(comm, omnesRemoteError, "rank 0 died, they say");
    if (faulty(*comm, "hang")) world.hang();
  }
  world.send[static_cast<size_t>(comm->rank)] = static_cast<const unsigned char*>(sendbuff);
  if (!world.meet()) return failed(comm, omnesRemoteError, "aborted");
  std::vector<unsigned char> result(count * type.bytes);
  std::vector<uint64_t> in(world.send.size());
  for (size_t i = 0; i < count; ++i) {
    for (size_t rank = 0; rank < in.size(); ++rank) {
      in[rank] = 0;
      std::memcpy(&in[rank], world.send[rank] + i * type.bytes, type.bytes);
      if (op == 1024) in[rank] = scaled(type, in[rank], world.scalar[rank]);
    }
    uint64_t bits = type.isFloat() ? reduceFloats(type, in, op) : reduceIntegers(type, in, op);
    const bool own = datatype == omnesFloat32;  // the frame's own exchanges stay right
    if (own && i == 3 && faulty(*comm, "flip")) bits ^= 1;
    std::memcpy(result.data() + i * type.bytes, &bits, type.bytes);
  }
  if (!world.meet()) return failed(comm, omnesRemoteError, "aborted");
  if (!result.empty()) std::memcpy(recvbuff, result.data(), result.size());
  if (datatype == omnesFloat32) {
    if (faulty(*comm, "guard")) static_cast<unsigned char*>(recvbuff)[result.size()] ^= 1;
    if (faulty(*comm, "input") && sendbuff != recvbuff && count > 0) {
      static_cast<unsigned char*>(const_cast<void*>(sendbuff))[0] ^= 1;
    }
  }
  return world.meet() ? omnesSuccess : failed(comm, omnesRemoteError, "aborted");
}

omnesResult_t omnesBarrier(omnesComm_t comm, omnesStream_t) {
  return comm->world->meet() ? omnesSuccess : failed(comm, omnesRemoteError, "aborted");
}
