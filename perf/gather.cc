// gather_perf: the root ends with the blocks of all. busbw = algbw * (n-1)/n.
#include "gather.h"

int main(int argc, char** argv) { return omnes::perf::perfMain(argc, argv, omnes::perf::kGather); }
