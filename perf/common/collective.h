// What the shared frame must know about one collective: its sizes, its call, and where its results
// come from.
//
// Each binary defines one Collective and calls perfMain with it. Thread safety: constant data and
// pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "omnes/omnes.h"

namespace omnes::perf {

// The arguments of one call.
struct Call {
  const void* send;
  void* recv;
  uint64_t count;
  omnesDataType_t type;
  omnesRedOp_t op;
  int root;
  omnesComm_t comm;
  int rank;
  int nranks;
  uint64_t width;  // bytes of an element
};

// A run of the expected output: elements [at, at + count) are `source`'s elements from `from` on.
struct Piece {
  uint64_t at;
  uint64_t count;
  int source;  // a rank's input, or kReduced
  uint64_t from;
};
constexpr int kReduced = -1;

// The buffers of one rank for one size, in elements.
struct Layout {
  uint64_t count;      // the count argument
  uint64_t sendCount;  // elements read
  uint64_t recvCount;  // elements written
  uint64_t sizeCount;  // elements that the size column and algbw stand for
  // In place both live in one buffer of max(sendCount, recvCount) elements, at these offsets.
  uint64_t inPlaceSend;
  uint64_t inPlaceRecv;
  std::vector<Piece> expected;  // covers the output
};

struct Collective {
  const char* program;  // "all_reduce_perf"
  const char* call;     // "omnesAllReduce", for messages
  bool reduces;         // takes -o
  bool rooted;          // takes -r
  // `elements`: what fits into the size of the row.
  Layout (*layout)(uint64_t elements, int nranks, int rank, int root);
  double (*busFactor)(int nranks);  // busbw = algbw * busFactor
  omnesResult_t (*run)(const Call& call);
  bool hasInPlace = true;
  // Why it cannot run on that many ranks, with the remedy; empty when it can. Null: on any number.
  std::string (*refuses)(int nranks) = nullptr;
};

// The whole program: parses, joins the ranks, runs, reports. Returns the exit code.
int perfMain(int argc, const char* const* argv, const Collective& collective);

}  // namespace omnes::perf
