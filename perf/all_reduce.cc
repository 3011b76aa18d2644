// all_reduce_perf: every rank ends with the reduction of all inputs. busbw = algbw * 2(n-1)/n.
#include "all_reduce.h"

int main(int argc, char** argv) {
  return omnes::perf::perfMain(argc, argv, omnes::perf::kAllReduce);
}
