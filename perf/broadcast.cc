// broadcast_perf: every rank ends with the root's data. busbw = algbw.
#include "broadcast.h"

int main(int argc, char** argv) {
  return omnes::perf::perfMain(argc, argv, omnes::perf::kBroadcast);
}
