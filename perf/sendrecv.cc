// sendrecv_perf: every rank sends to the next and receives from the one before. busbw = algbw.
#include "sendrecv.h"

int main(int argc, char** argv) {
  return omnes::perf::perfMain(argc, argv, omnes::perf::kSendrecv);
}
