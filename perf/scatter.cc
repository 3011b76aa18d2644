// scatter_perf: rank r ends with the root's block r. busbw = algbw * (n-1)/n.
#include "scatter.h"

int main(int argc, char** argv) { return omnes::perf::perfMain(argc, argv, omnes::perf::kScatter); }
