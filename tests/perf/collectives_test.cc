// What each binary says about its collective: sizes, where results come from, and bus bandwidth.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "all_gather.h"
#include "all_reduce.h"
#include "alltoall.h"
#include "alltoallv.h"
#include "broadcast.h"
#include "gather.h"
#include "hypercube.h"
#include "reduce.h"
#include "reduce_scatter.h"
#include "scatter.h"
#include "sendrecv.h"

namespace omnes::perf {
namespace {

constexpr const Collective* kAll[] = {&kAllReduce, &kAllGather, &kReduceScatter, &kAlltoall,
                                      &kAlltoallv, &kBroadcast, &kReduce,        &kGather,
                                      &kScatter,   &kSendrecv,  &kHypercube};

TEST(Collectives, BusBandwidthFormulas) {
  for (const int n : {1, 2, 3, 8}) {
    const double share = static_cast<double>(n - 1) / n;
    EXPECT_DOUBLE_EQ(kAllReduce.busFactor(n), 2 * share);
    for (const Collective* c :
         {&kAllGather, &kReduceScatter, &kAlltoall, &kAlltoallv, &kGather, &kScatter})
      EXPECT_DOUBLE_EQ(c->busFactor(n), share) << c->program;
    for (const Collective* c : {&kBroadcast, &kReduce, &kSendrecv, &kHypercube})
      EXPECT_DOUBLE_EQ(c->busFactor(n), 1) << c->program;
  }
}

TEST(Collectives, SizeColumns) {
  // Of 1,000 elements with 8 ranks: whole blocks of 125.
  for (const Collective* c : {&kAllReduce, &kAllGather, &kReduceScatter, &kAlltoall, &kBroadcast,
                              &kReduce, &kGather, &kScatter, &kSendrecv})
    EXPECT_EQ(c->layout(1000, 8, 0, 0).sizeCount, 1000u) << c->program;
  EXPECT_EQ(kHypercube.layout(1000, 8, 0, 0).sizeCount, 7 * 125u);
  EXPECT_EQ(kAlltoallv.layout(1000, 8, 0, 0).sizeCount, 36u * (1000 / 36));
}

// Every rank prints the same row, fits into the buffers, and what it gets is covered once by what
// the others have.
TEST(Collectives, LayoutsFitTogether) {
  for (const Collective* c : kAll)
    for (const int n : {1, 2, 3, 4, 8})
      for (const uint64_t elements : {0u, 1u, 7u, 1000u}) {
        for (int root = 0; root < (c->rooted ? n : 1); ++root) {
          SCOPED_TRACE(std::string(c->program) + " n " + std::to_string(n) + " elements " +
                       std::to_string(elements) + " root " + std::to_string(root));
          std::vector<Layout> layouts;
          for (int rank = 0; rank < n; ++rank)
            layouts.push_back(c->layout(elements, n, rank, root));
          for (const Layout& layout : layouts) {
            EXPECT_EQ(layout.count, layouts[0].count);
            EXPECT_EQ(layout.sizeCount, layouts[0].sizeCount);
            const uint64_t most = std::max(layout.sendCount, layout.recvCount);
            EXPECT_LE(most, elements);
            EXPECT_LE(layout.inPlaceSend + layout.sendCount, most);
            EXPECT_LE(layout.inPlaceRecv + layout.recvCount, most);
            uint64_t at = 0;
            for (const Piece& piece : layout.expected) {
              EXPECT_EQ(piece.at, at);
              at += piece.count;
              if (piece.source == kReduced) continue;
              ASSERT_GE(piece.source, 0);
              ASSERT_LT(piece.source, n);
              EXPECT_LE(piece.from + piece.count,
                        layouts[static_cast<size_t>(piece.source)].sendCount);
            }
            EXPECT_EQ(at, layout.recvCount);
          }
        }
      }
}

TEST(Collectives, HypercubeNeedsAPowerOfTwo) {
  EXPECT_EQ(kHypercube.refuses(8), "");
  EXPECT_NE(kHypercube.refuses(6).find("6"), std::string::npos);
}

}  // namespace
}  // namespace omnes::perf
