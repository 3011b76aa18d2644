// alltoallv_perf: as alltoall_perf, with blocks of 1 to n units. busbw = algbw * (n-1)/n.
#include "alltoallv.h"

int main(int argc, char** argv) {
  return omnes::perf::perfMain(argc, argv, omnes::perf::kAlltoallv);
}
