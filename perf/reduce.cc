// reduce_perf: the root ends with the reduction of all inputs. busbw = algbw.
#include "reduce.h"

int main(int argc, char** argv) { return omnes::perf::perfMain(argc, argv, omnes::perf::kReduce); }
