// Ranks that do not call the same: each of them, wherever it is and whatever joins it with the
// others, gets the error with both sides.
//
// Ranks are threads of one machine, kept apart by config.hostId or config.transports.
#include <gtest/gtest.h>

#include <barrier>

#include "comm/thread_ranks.h"
#include "comm/values.h"

namespace omnes::tests {
namespace {

using Clock = std::chrono::steady_clock;

// The promise is a second; ranks share cores here (docs/CONTRIBUTING.md).
constexpr std::chrono::milliseconds kLimit{5000};

struct Case {
  std::string name;
  std::vector<int> ranksPerHost;  // empty: four ranks that share their host
  std::string transports;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> allLayouts() {
  return {{"Shared", {}, ""},          {"Tcp", {}, "tcp"},           {"TwoAndTwo", {2, 2}, ""},
          {"ThreeAndOne", {3, 1}, ""}, {"OneTwoTwo", {1, 2, 2}, ""}, {"AllApart", {1, 1, 1}, ""}};
}

int nranksOf(const Case& c) {
  if (c.ranksPerHost.empty()) return 4;
  int sum = 0;
  for (const int ranks : c.ranksPerHost) sum += ranks;
  return sum;
}

RanksOptions optionsOf(const Case& c) {
  RanksOptions out;
  out.transports = c.transports;
  if (!c.ranksPerHost.empty()) out.hostIds = hostsOf(c.ranksPerHost);
  out.timeoutMs = 60000;
  return out;
}

constexpr size_t kCount = 40960;
constexpr float kPoison = -12345.0f;

// The second call of the communicator; the last rank differs in one thing.
omnesResult_t secondCall(const std::string& what, bool isOdd, const std::vector<float>& in,
                         std::vector<float>* out, omnesComm_t comm) {
  const auto reduce = [&](size_t count, omnesDataType_t type, omnesRedOp_t op) {
    return omnesAllReduce(in.data(), out->data(), count, type, op, comm, nullptr);
  };
  if (!isOdd) return reduce(what == "small" ? 100 : kCount, omnesFloat32, omnesSum);
  if (what == "count") return reduce(kCount - 2, omnesFloat32, omnesSum);
  if (what == "small") return reduce(98, omnesFloat32, omnesSum);
  if (what == "slices") return reduce(20 * kCount, omnesFloat32, omnesSum);
  if (what == "type") return reduce(kCount, omnesInt32, omnesSum);
  if (what == "op") return reduce(kCount, omnesFloat32, omnesMax);
  if (what == "order") return omnesBarrier(comm, nullptr);
  if (what == "gather")
    return omnesAllGather(in.data(), out->data(), 16, omnesFloat32, comm, nullptr);
  return omnesReduceScatter(in.data(), out->data(), 16, omnesFloat32, omnesSum, comm, nullptr);
}

class Mismatch : public ::testing::TestWithParam<std::tuple<Case, const char*>> {};

TEST_P(Mismatch, EveryRankHasBothSides) {
  const auto& [layout, what] = GetParam();
  const int nranks = nranksOf(layout);
  ThreadRanks ranks(nranks, optionsOf(layout));
  ASSERT_TRUE(ranks.isReady());
  std::vector<std::string> texts(static_cast<size_t>(nranks));
  const Clock::time_point start = Clock::now();
  // A rank that is still inside its first call when the second ones clash would get the cause
  // there.
  std::barrier firstIsOver(nranks);
  ranks.run([&, what = std::string(what)](int rank, omnesComm_t comm) {
    std::vector<float> in(20 * kCount, 1.0f), out(20 * kCount, kPoison), warm(4);
    EXPECT_EQ(
        describe(omnesAllReduce(in.data(), warm.data(), 4, omnesFloat32, omnesSum, comm, nullptr)),
        "0");
    firstIsOver.arrive_and_wait();
    const omnesResult_t result = secondCall(what, rank == nranks - 1, in, &out, comm);
    EXPECT_EQ(result, omnesInvalidUsage) << describe(result);
    // An all-gather puts its own block in its place at once.
    if (what != "gather") {
      EXPECT_TRUE(out == std::vector<float>(20 * kCount, kPoison));
    }
    texts[rank] = omnesGetLastError(comm);
    // What failed stays failed, with the first cause.
    EXPECT_EQ(omnesBarrier(comm, nullptr), omnesInvalidUsage);
    EXPECT_EQ(omnesGetLastError(comm), texts[rank]);
    omnesResult_t async = omnesSuccess;
    EXPECT_EQ(omnesCommGetAsyncError(comm, &async), omnesSuccess);
    EXPECT_EQ(async, omnesInvalidUsage);
  });
  EXPECT_LT(Clock::now() - start, kLimit);
  const std::string odd = "rank " + std::to_string(nranks - 1) + " ";
  for (const std::string& text : texts)
    for (const std::string& part : {std::string(" called "), std::string("AllReduce #2 of "), odd})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Mismatch,
                         ::testing::Combine(::testing::ValuesIn(allLayouts()),
                                            ::testing::Values("count", "small", "slices", "type",
                                                              "op", "order", "gather",
                                                              "collective")),
                         [](const auto& entry) {
                           return std::get<0>(entry.param).name + "_" + std::get<1>(entry.param);
                         });

// The odd one comes late, when the others have asked it already.
TEST(MismatchInTime, LateRankIsFoundWhenItCalls) {
  for (const Case& layout : allLayouts()) {
    SCOPED_TRACE(layout.name);
    const int nranks = nranksOf(layout);
    ThreadRanks ranks(nranks, optionsOf(layout));
    ASSERT_TRUE(ranks.isReady());
    Clock::time_point called;
    ranks.run([&](int rank, omnesComm_t comm) {
      float in = 1, out = kPoison;
      if (rank != nranks - 1) {
        const omnesResult_t result =
            omnesAllReduce(&in, &out, 1, omnesFloat32, omnesSum, comm, nullptr);
        EXPECT_EQ(result, omnesInvalidUsage) << describe(result);
        EXPECT_EQ(out, kPoison);
        return;
      }
      // Not to wait for anybody: to be later than their first questions.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      called = Clock::now();
      EXPECT_EQ(omnesBarrier(comm, nullptr), omnesInvalidUsage);
    });
    EXPECT_LT(Clock::now() - called, kLimit);
  }
}

// Who is merely late is waited for, and named when time is up: also over the network.
TEST(MismatchInTime, RankThatNeverCallsIsNamedByTheTimeout) {
  for (const Case& layout : allLayouts()) {
    SCOPED_TRACE(layout.name);
    const int nranks = nranksOf(layout);
    RanksOptions options = optionsOf(layout);
    options.timeoutMs = kSanitized ? 2000 : 800;
    ThreadRanks ranks(nranks, options);
    ASSERT_TRUE(ranks.isReady());
    std::vector<std::string> texts(static_cast<size_t>(nranks));
    ranks.run([&](int rank, omnesComm_t comm) {
      float in = 1, out = 0;
      EXPECT_EQ(describe(omnesAllReduce(&in, &out, 1, omnesFloat32, omnesSum, comm, nullptr)), "0");
      if (rank == nranks - 1) {
        omnesResult_t async = omnesSuccess;
        while (async == omnesSuccess) {
          std::this_thread::yield();
          EXPECT_EQ(omnesCommGetAsyncError(comm, &async), omnesSuccess);
        }
        EXPECT_EQ(async, omnesTimeout);
      } else {
        EXPECT_EQ(omnesAllReduce(&in, &out, 1, omnesFloat32, omnesSum, comm, nullptr),
                  omnesTimeout);
      }
      texts[rank] = omnesGetLastError(comm);
    });
    const std::string late = "rank " + std::to_string(nranks - 1) + " ";
    for (const std::string& text : texts) {
      EXPECT_NE(text.find(late), std::string::npos) << text;
      EXPECT_NE(text.find("has not entered it; its last operation was AllReduce #1 of 1 float"),
                std::string::npos)
          << text;
    }
  }
}

}  // namespace
}  // namespace omnes::tests
