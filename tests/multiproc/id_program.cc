// A rank that joins by a unique id, which rank 0 makes and leaves in a file.
//
//   id_program RANK NRANKS FILE SCENARIO
// Scenarios: "once"; "again" (destroys the communicator and joins with the same id); "twice" (joins
// with the same id while the communicator lives). Prints "address KIND" (rank 0: "unix" or the host
// of a TCP address), then "result CODE MS TEXT" for the last call, and exits 0 when it got that
// far.
#include <omnes/omnes.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(30);
constexpr size_t kAddressAt = 40;  // docs/wire.md

int report(omnesResult_t result, Clock::time_point since, const char* text) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
  std::printf("result %d %d %s\n", static_cast<int>(result), static_cast<int>(ms.count()), text);
  std::fflush(stdout);
  return 0;
}

omnesResult_t makeId(const std::string& path, omnesUniqueId* id) {
  const omnesResult_t made = omnesGetUniqueId(id);
  if (made != omnesSuccess) return made;
  const std::string address = id->internal + kAddressAt;
  const bool isTcp = address.rfind("tcp:", 0) == 0;
  std::printf("address %s\n", isTcp ? address.substr(4, address.rfind(':') - 4).c_str() : "unix");
  const std::string half = path + ".half";
  std::ofstream(half, std::ios::binary).write(id->internal, sizeof id->internal);
  // Whole or not at all.
  return std::rename(half.c_str(), path.c_str()) == 0 ? omnesSuccess : omnesSystemError;
}

bool readId(const std::string& path, omnesUniqueId* id) {
  for (const auto start = Clock::now(); Clock::now() - start < kPatience;) {
    std::ifstream file(path, std::ios::binary);
    if (file.read(id->internal, sizeof id->internal)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

// That the communicator works.
omnesResult_t use(omnesComm_t comm, int nranks) {
  float in[4] = {1, 1, 1, 1};
  float out[4] = {};
  const omnesResult_t result = omnesAllReduce(in, out, 4, omnesFloat32, omnesSum, comm, nullptr);
  if (result != omnesSuccess) return result;
  return out[3] == static_cast<float>(nranks) ? omnesSuccess : omnesInternalError;
}

int play(int rank, int nranks, const omnesUniqueId& id, const std::string& scenario) {
  auto start = Clock::now();
  omnesComm_t comm = nullptr;
  omnesResult_t result = omnesCommInitRank(&comm, nranks, id, rank);
  if (result != omnesSuccess) return report(result, start, omnesGetLastError(nullptr));
  result = use(comm, nranks);
  if (result != omnesSuccess) return report(result, start, omnesGetLastError(comm));
  if (scenario == "once") {
    omnesCommDestroy(comm);
    return report(omnesSuccess, start, "once");
  }
  if (scenario == "again") omnesCommDestroy(comm);
  start = Clock::now();
  omnesComm_t second = nullptr;
  result = omnesCommInitRank(&second, nranks, id, rank);
  const std::string text = result == omnesSuccess ? "joined" : omnesGetLastError(nullptr);
  report(result, start, text.c_str());
  // The first one has not been harmed.
  if (scenario == "twice") {
    start = Clock::now();
    report(use(comm, nranks), start, omnesGetLastError(comm));
    omnesCommDestroy(comm);
  }
  omnesCommDestroy(second);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int rank = std::atoi(argv[1]);
  const auto start = Clock::now();
  omnesUniqueId id;
  if (rank == 0) {
    const omnesResult_t made = makeId(argv[3], &id);
    if (made != omnesSuccess) return report(made, start, omnesGetLastError(nullptr));
  } else if (!readId(argv[3], &id)) {
    return report(omnesTimeout, start, "no id came");
  }
  return play(rank, std::atoi(argv[2]), id, argv[4]);
}
