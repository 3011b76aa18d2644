// alltoall_perf: rank r ends with block r of every rank. busbw = algbw * (n-1)/n.
#include "alltoall.h"

int main(int argc, char** argv) {
  return omnes::perf::perfMain(argc, argv, omnes::perf::kAlltoall);
}
