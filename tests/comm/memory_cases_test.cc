// Public reports about odd sizes, odd addresses and bytes beyond the buffers, as tests named for
// their case numbers.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

using plan::Collective;

// Small whole numbers: the sum is exact, and cheap to check without a reference.
float valueOf(int rank, size_t i) {
  return static_cast<float>((static_cast<size_t>(rank) * 7 + i * 13) % 11);
}

void expectExactSum(ThreadRanks* ranks, size_t count) {
  const int n = ranks->size();
  ranks->run([&](int rank, omnesComm_t comm) {
    std::vector<float> data(count);
    for (size_t i = 0; i < count; ++i) data[i] = valueOf(rank, i);
    ASSERT_EQ(describe(omnesAllReduce(data.data(), data.data(), count, omnesFloat32, omnesSum, comm,
                                      nullptr)),
              "0");
    float expected[11] = {};  // i matters modulo 11 only
    for (size_t i = 0; i < 11; ++i)
      for (int r = 0; r < n; ++r) expected[i] += valueOf(r, i);
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ(data[i], expected[i % 11])
          << "rank " << rank << " of " << n << " element " << i << " of " << count;
  });
}

// A count that no tile divides stopped on an assertion.
TEST(Sizes, C02TenMillionFloatsOnEightRanks) {
  ThreadRanks ranks(8);
  expectExactSum(&ranks, kSanitized ? 1055659 : 10556587);
}

class EveryAlgorithm : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryAlgorithm, C02PrimeCounts) {
  for (const int nranks : {2, 3, 5, 7, 8}) {
    ThreadRanks ranks(nranks, {.algo = GetParam()});
    for (const size_t count : {997, 12289, kSanitized ? 100003 : 1000003})
      expectExactSum(&ranks, count);
  }
}

// Data was corrupted where the number of bytes is no multiple of 128.
TEST_P(EveryAlgorithm, C03EveryLengthOfBytesWithGuards) {
  std::vector<size_t> counts;
  for (size_t count = 1; count <= 1100; count += kSanitized ? 13 : 1) counts.push_back(count);
  for (const size_t lines : {size_t{9}, size_t{997}, size_t{1024}, size_t{4096}})
    for (size_t count = 128 * lines - 3; count <= 128 * lines + 3; ++count) counts.push_back(count);
  ThreadRanks ranks(3, {.algo = GetParam()});
  ranks.run([&](int rank, omnesComm_t comm) {
    for (const size_t count : counts) {
      std::vector<Bytes> inputs;
      for (int r = 0; r < 3; ++r)
        inputs.push_back(randomBits(count, count * 3 + static_cast<size_t>(r)));
      GuardedBuffer send(count), recv(count);
      send.fill(inputs[rank]);
      ASSERT_EQ(omnesAllReduce(send.data(), recv.data(), count, omnesInt8, omnesSum, comm, nullptr),
                omnesSuccess);
      EXPECT_EQ(
          difference(recv.data(), reducedInRankOrder(DataType::kInt8, ReduceOp::kSum, inputs)), "")
          << count;
      EXPECT_TRUE(send.isIntact() && recv.isIntact()) << count;
    }
  });
}

// Every address, as the type has it and not; the buffers differ in theirs, from each other and from
// rank to rank.
TEST_P(EveryAlgorithm, C10EveryOffsetOfEveryType) {
  constexpr int kRanks = 2;
  ThreadRanks ranks(kRanks, {.algo = GetParam()});
  for (const DataType type : base::kAllDataTypes)
    for (const size_t count : {size_t{1}, size_t{130}}) {
      std::vector<Bytes> inputs;
      for (int r = 0; r < kRanks; ++r) inputs.push_back(smallIntegers(type, count, r));
      const Bytes expected = reducedInRankOrder(type, ReduceOp::kSum, inputs);
      ranks.run([&](int rank, omnesComm_t comm) {
        for (size_t offset = 0; offset < 64; offset += kSanitized ? 3 : 1) {
          GuardedBuffer send(expected.size(), offset),
              recv(expected.size(), (offset * 7 + static_cast<size_t>(rank)) % 64);
          send.fill(inputs[rank]);
          ASSERT_EQ(omnesAllReduce(send.data(), recv.data(), count, apiType(type), omnesSum, comm,
                                   nullptr),
                    omnesSuccess);
          EXPECT_EQ(difference(recv.data(), expected), "")
              << base::nameOf(type) << " offset " << offset;
          EXPECT_TRUE(send.isIntact() && recv.isIntact())
              << base::nameOf(type) << " offset " << offset;
        }
      });
    }
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm,
                         ::testing::ValuesIn(algorithmNames(Collective::kAllReduce)),
                         [](const auto& entry) { return entry.param; });

// One page between two that nobody may touch.
class FencedPage {
 public:
  FencedPage() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* at = mmap(nullptr, 3 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::abort();
    base_ = static_cast<uint8_t*>(at);
    if (mprotect(base_ + page_, page_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  ~FencedPage() { munmap(base_, 3 * page_); }
  FencedPage(const FencedPage&) = delete;
  FencedPage& operator=(const FencedPage&) = delete;
  uint8_t* place(size_t bytes, bool atEnd) const {
    return base_ + page_ + (atEnd ? page_ - bytes : 0);
  }

 private:
  size_t page_;
  uint8_t* base_ = nullptr;
};

// Rounding up to 16 bytes read beyond the end of the user's buffer: here that is a crash.
TEST(Fenced, C04NothingOutsideTheBuffersIsTouched) {
  for (const int nranks : {1, 3}) {
    ThreadRanks ranks(nranks);
    ranks.run([&](int rank, omnesComm_t comm) {
      const FencedPage first, second;
      const size_t n = static_cast<size_t>(nranks);
      for (const bool atEnd : {true, false})
        for (const DataType type : base::kAllDataTypes)
          for (size_t bytes = base::sizeOf(type); bytes <= 17; bytes += base::sizeOf(type)) {
            const size_t count = bytes / base::sizeOf(type);
            const Bytes input = smallIntegers(type, count * n, rank);
            for (const ReduceOp op : builtInOps(type)) {
              std::memcpy(first.place(bytes, atEnd), input.data(), bytes);
              ASSERT_EQ(omnesAllReduce(first.place(bytes, atEnd), second.place(bytes, atEnd), count,
                                       apiType(type), apiOp(op), comm, nullptr),
                        omnesSuccess);
              std::memcpy(first.place(bytes * n, atEnd), input.data(), bytes * n);
              ASSERT_EQ(
                  omnesReduceScatter(first.place(bytes * n, atEnd), second.place(bytes, atEnd),
                                     count, apiType(type), apiOp(op), comm, nullptr),
                  omnesSuccess);
            }
            ASSERT_EQ(omnesAllGather(first.place(bytes, atEnd), second.place(bytes * n, atEnd),
                                     count, apiType(type), comm, nullptr),
                      omnesSuccess);
            ASSERT_EQ(
                std::memcmp(second.place(bytes * n, atEnd) + bytes * static_cast<size_t>(rank),
                            first.place(bytes, atEnd), bytes),
                0);
          }
    });
  }
}

}  // namespace
}  // namespace omnes::tests
