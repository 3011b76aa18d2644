// reduce_scatter_perf: rank r ends with the reduction of all blocks r. busbw = algbw * (n-1)/n.
#include "reduce_scatter.h"

int main(int argc, char** argv) {
  return omnes::perf::perfMain(argc, argv, omnes::perf::kReduceScatter);
}
