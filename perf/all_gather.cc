// all_gather_perf: every rank ends with the blocks of all. busbw = algbw * (n-1)/n.
#include "all_gather.h"

int main(int argc, char** argv) {
  return omnes::perf::perfMain(argc, argv, omnes::perf::kAllGather);
}
