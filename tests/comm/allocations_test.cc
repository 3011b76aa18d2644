// The second call of a shape allocates nothing: collectives of all kinds, and messages.
//
// Counts what the calling thread asks operator new for. A wait that comes to sleep makes a list of
// what it sleeps on, so that not every call is clean; but one that need not sleep is, and
// of many calls some need not.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "comm/thread_ranks.h"

namespace {

thread_local uint64_t allocations = 0;

void* counted(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace omnes::tests {
namespace {

constexpr int kRanks = 3;
constexpr int kCalls = 300;

// Of kCalls calls after the first, how many allocate nothing.
int cleanCalls(const std::function<omnesResult_t()>& call) {
  EXPECT_EQ(describe(call()), "0");
  int clean = 0;
  for (int i = 0; i < kCalls; ++i) {
    const uint64_t before = allocations;
    const omnesResult_t result = call();
    if (allocations == before) ++clean;
    EXPECT_EQ(describe(result), "0");
  }
  return clean;
}

TEST(Allocations, CountsThoseOfTheLibrary) {
  const uint64_t before = allocations;
  ThreadRanks ranks(1);
  EXPECT_GT(allocations, before);
}

TEST(Allocations, SecondCallOfAShapeMakesNone) {
#if OMNES_TEST_SANITIZED
  GTEST_SKIP() << "sanitizers have their own operator new";
#endif
  ThreadRanks ranks(kRanks);
  ranks.run([](int rank, omnesComm_t comm) {
    std::vector<int32_t> send(1000, 1), recv(1000, 0);
    const size_t counts[] = {100, 0, 50}, displs[] = {200, 150, 0}, even[] = {7, 7, 7};
    const size_t own = counts[rank];
    const std::pair<const char*, std::function<omnesResult_t()>> calls[] = {
        {"AllReduce",
         [&] {
           return omnesAllReduce(send.data(), recv.data(), 100, omnesInt32, omnesSum, comm,
                                 nullptr);
         }},
        {"AllGatherV",
         [&] {
           return omnesAllGatherV(send.data(), own, recv.data(), counts, displs, omnesInt32, comm,
                                  nullptr);
         }},
        {"ReduceScatterV",
         [&] {
           return omnesReduceScatterV(send.data(), recv.data(), counts, omnesInt32, omnesSum, comm,
                                      nullptr);
         }},
        {"AlltoAllV",
         [&] {
           return omnesAlltoAllV(send.data(), even, displs, recv.data(), even, displs, omnesInt32,
                                 comm, nullptr);
         }},
        {"GatherV",
         [&] {
           return omnesGatherV(send.data(), own, recv.data(), counts, displs, omnesInt32, 1, comm,
                               nullptr);
         }},
        {"ScatterV",
         [&] {
           return omnesScatterV(send.data(), counts, displs, recv.data(), own, omnesInt32, 1, comm,
                                nullptr);
         }},
        {"Send and Recv", [&] {
           if (rank == 2) return omnesSuccess;
           return rank == 0 ? omnesSend(send.data(), 100, omnesInt32, 1, comm, nullptr)
                            : omnesRecv(recv.data(), 100, omnesInt32, 0, comm, nullptr);
         }}};
    for (const auto& [name, call] : calls)
      EXPECT_GT(cleanCalls(call), 0) << name << " on rank " << rank;
  });
}

}  // namespace
}  // namespace omnes::tests
