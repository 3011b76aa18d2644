// hypercube_perf: an all-gather of sends and receives along a hypercube. busbw = algbw.
#include "hypercube.h"

int main(int argc, char** argv) {
  return omnes::perf::perfMain(argc, argv, omnes::perf::kHypercube);
}
