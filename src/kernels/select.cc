// Chooses the function for a (type, op) pair.
#include "kernels/kernels.h"

namespace omnes::kernels {

ReduceFunction selectReduce(base::DataType type, base::ReduceOp op) {
  return scalarReduce(type, op);
}

const char* targetName() { return "scalar"; }

}  // namespace omnes::kernels
